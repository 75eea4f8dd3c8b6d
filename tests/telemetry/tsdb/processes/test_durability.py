"""A recorder whose process is killed."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.telemetry.tsdb.tape import START, Tape

CHILD = """
import sys
from pathlib import Path
from tests.telemetry.tsdb.tape import Tape
tape = Tape(Path(sys.argv[1]))
for second in range(100_000):
    tape.tell([second / 100_000])
    print(second, flush=True)
"""


def test_a_killed_recorder_has_lost_what_the_last_seconds_brought_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.db"
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        told = -1
        for line in child.stdout:
            told = int(line)
            if told >= 1500:  # two blocks sealed, half a block in the journal
                break
        child.send_signal(signal.SIGKILL)
        told += sum(1 for _ in child.stdout)
    tape = Tape(path)
    tape.now = START + told
    values = np.array(tape.read(0, told + 1))
    kept = values[: told - 4]
    np.testing.assert_allclose(kept, np.arange(len(kept)) / 100_000, atol=1e-5)
    assert not tape.recorder.trouble
