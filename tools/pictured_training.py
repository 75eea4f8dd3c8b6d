"""A training for pictures: it computes in a rhythm, tells its steps and a falling loss, and can be resized.

SIGTERM means: note the step and exit with 0. The next start may have another number of workers.
"""

import math
import os
import random
import signal
import time
from pathlib import Path

import grus
from grus.sdk.sigterm import SignalFlag

PERIOD, WORK = 2.0, 0.55
"""Seconds of one step, and the part of it in which it computes."""
STEPS, BATCH = 600, 64
NOTE = Path(os.environ.get("GRUS_CHECKPOINT", ".")) / "step"
RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def compute(until: float) -> None:
    while time.monotonic() < until:
        sum(range(1000))


def main() -> None:
    asked_to_end = SignalFlag()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_end.set())
    os.nice(10)
    NOTE.parent.mkdir(parents=True, exist_ok=True)
    step = int(NOTE.read_text()) if NOTE.exists() else 0
    chance = random.Random(step)
    print(f"worker {RANK} of {WORLD}: goes on after step {step}", flush=True)
    while step < STEPS and not asked_to_end.is_set():
        begin = time.monotonic()
        compute(begin + PERIOD * WORK / WORLD)
        step += WORLD
        loss = 0.25 + 2.1 * math.exp(-step / 60) + chance.gauss(0, 0.02)
        if RANK == 0:
            print(f"step {step}/{STEPS}  loss {loss:.4f}  {WORLD * BATCH / PERIOD:.0f} samples/s", flush=True)
            grus.report(step=step, total=STEPS, loss=loss, batch=BATCH)
        asked_to_end.wait(max(0.0, begin + PERIOD - time.monotonic()))
    if RANK == 0:
        NOTE.write_text(str(step))
        grus.saved()


if __name__ == "__main__":
    main()
