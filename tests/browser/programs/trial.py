"""A trial in small: its loss is the better the nearer `lr` is to 0.1. Standard library only."""

import json
import math
import os
import signal
import sys
import time

STEPS = 12


def main() -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    lr = float(json.loads(os.environ["GRUS_PARAMS"])["lr"])
    for step in range(1, STEPS + 1):
        if signal.sigtimedwait({signal.SIGTERM}, 0.05):
            return 0
        loss = abs(math.log10(lr / 0.1)) + 1 / step
        line = json.dumps({"at": time.time(), "figures": {"step": step, "total": STEPS, "loss": loss}})
        with open(os.environ["GRUS_REPORT"], "a") as file:
            file.write(line + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
