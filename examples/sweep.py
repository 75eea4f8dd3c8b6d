"""A training whose loss depends on its parameters: two calls to Grus make it a trial of a sweep.

By itself (`python sweep.py`) it runs with its own defaults.
"""

import json
import math
import time
from pathlib import Path

import grus

STEPS = 27
SAVED = grus.checkpoint_path("out/curve.json")


def loss_after(step: int, lr: float, width: int) -> float:
    """Falls faster the nearer the learning rate is to 0.03, and further for a wider one."""
    rate = math.exp(-abs(math.log10(lr / 0.03)))
    return 1.0 / width + math.exp(-0.2 * rate * step)


def begin() -> int:
    """The step to go on after."""
    return int(json.loads(SAVED.read_text())["step"]) if grus.resuming() and SAVED.exists() else 0


def save(step: int) -> None:
    draft: Path = SAVED.with_suffix(".draft")
    draft.write_text(json.dumps({"step": step}))
    draft.replace(SAVED)
    grus.saved()


def main() -> None:
    chosen = grus.params()
    lr, width = float(chosen.get("lr", 0.1)), int(chosen.get("width", 32))
    SAVED.parent.mkdir(parents=True, exist_ok=True)
    for step in range(begin() + 1, STEPS + 1):
        if grus.should_pause():
            save(step - 1)
            return
        time.sleep(0.05)  # where a real one computes
        grus.report(step=step, total=STEPS, loss=loss_after(step, lr, width))
    print(f"lr {lr:g}, width {width}: loss {loss_after(STEPS, lr, width):.4f}")


if __name__ == "__main__":
    main()
