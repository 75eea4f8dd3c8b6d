"""A trial in small: its loss is the better the nearer `lr` is to 0.1. Standard library only.

After its first step it waits until the file that its argument names is there.
"""

import json
import math
import os
import signal
import sys
import time
from pathlib import Path

STEPS = 12


def main() -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    gate = Path(sys.argv[1])
    lr = float(json.loads(os.environ["GRUS_PARAMS"])["lr"])
    for step in range(1, STEPS + 1):
        if signal.sigtimedwait({signal.SIGTERM}, 0.05):
            return 0
        while step > 1 and not gate.exists():
            if signal.sigtimedwait({signal.SIGTERM}, 0.05):
                return 0
        loss = abs(math.log10(lr / 0.1)) + 1 / step
        line = json.dumps({"at": time.time(), "figures": {"step": step, "total": STEPS, "loss": loss}})
        with open(os.environ["GRUS_REPORT"], "a") as file:
            file.write(line + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
