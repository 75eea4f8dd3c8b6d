"""A training in small for pages to look at: reports steps and a loss, writes a log, leaves when asked to.

Standard library only. Bursts of work of a second or so between rests, so that use has a rhythm.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

TOTAL = 4000
EVERY = float(os.environ.get("EVERY", "0.2"))


def main() -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    rank = os.environ.get("RANK", "0")
    saved = Path(os.environ.get("GRUS_CHECKPOINT", ".")) / "step"
    saved.parent.mkdir(parents=True, exist_ok=True)
    step = int(saved.read_text() or 0) if saved.exists() else 0
    say(f"worker {rank} begins after step {step}")
    while step < TOTAL and not signal.sigtimedwait({signal.SIGTERM}, EVERY):
        step += int(os.environ.get("WORLD_SIZE", "1"))
        compute(0.3 * EVERY if step // 40 % 2 else 0.05 * EVERY)
        loss = 2.3 / (1 + step / 60) + 0.1
        report(step, loss, 1 - loss / 3)
        say(f"worker {rank} step {step} loss {loss:.4f}")
        if rank == "0":
            saved.write_text(str(step))
    say(f"worker {rank} leaves after step {step}")
    return 0


def report(step: int, loss: float, accuracy: float) -> None:
    figures = {"step": step, "total": TOTAL, "batch": 32, "loss": loss, "accuracy": accuracy}
    line = json.dumps({"at": time.time(), "figures": figures, "saved_at": time.time()})
    with open(os.environ["GRUS_REPORT"], "a") as file:
        file.write(line + "\n")


def compute(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(number * number for number in range(500))


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
