"""A process with an engine in it, to be killed: `python -m tests.engines.server STATE EPOCH`.

A line `<worker> <shell line>` starts a worker; it answers with the worker's name when `start` has returned.
"""

import sys
from pathlib import Path

from grus.engines.local.engine import LocalEngine
from grus.telemetry.virtual_gpus import VirtualSource
from tests.engines.test_local import a_worker

if __name__ == "__main__":
    engine = LocalEngine(Path(sys.argv[1]), VirtualSource("2x4x16GB"))
    engine.open(int(sys.argv[2]))
    print("open", flush=True)
    for request in sys.stdin:
        name, _, line = request.strip().partition(" ")
        engine.start(a_worker(name, line))
        print(name, flush=True)
