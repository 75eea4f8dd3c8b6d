"""A hundred steps that survive being paused, preempted or killed: no step is lost that was saved.

SIGTERM means: save and exit with 0 within the grace. GRUS_RESUME=1 means: this job ran before.
"""

import json
import os
import signal
from pathlib import Path

STEPS = int(os.environ.get("STEPS", "100"))
EVERY = 20
FOLDER = Path(os.environ.get("GRUS_CHECKPOINT", "out/steps"))
SAVED = FOLDER / f"{os.environ.get('GRUS_JOB', 'by-hand')}.json"


def load() -> int:
    if os.environ.get("GRUS_RESUME") != "1" or not SAVED.exists():
        return 0
    step = int(json.loads(SAVED.read_text())["step"])
    print(f"resumed after step {step}", flush=True)
    return step


def save(step: int) -> None:
    """Whole or not at all: a file half written by a process that was killed would be worse than none."""
    draft = SAVED.with_suffix(".draft")
    with draft.open("w") as file:
        json.dump({"step": step}, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(SAVED)


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # it is heard where it is waited for
    FOLDER.mkdir(parents=True, exist_ok=True)
    for step in range(load() + 1, STEPS + 1):
        if signal.sigtimedwait({signal.SIGTERM}, 0.1):  # where a real one computes
            save(step - 1)
            print(f"saved after step {step - 1}, pausing", flush=True)
            return
        if step % EVERY == 0:
            save(step)
            print(f"step {step} of {STEPS}", flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main()
