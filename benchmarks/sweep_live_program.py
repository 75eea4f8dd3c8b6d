"""A trial of the live comparison as a job of Grus.

python -m benchmarks.sweep_live_program JOURNAL PACE CHANCE
"""

import os
import sys
import time
from pathlib import Path

import grus
from benchmarks.sweep_live_training import LEFT, STEP, STEPS, UP, Note, Training, note, process_began
from grus.model.sweep_search import Value


def main(journal: Path, pace: float, chance: int) -> None:
    began, gpu = process_began(), os.environ.get("CUDA_VISIBLE_DEVICES", "")

    def tell(kind: str, step: int = 0, value: float = 0.0) -> None:
        trial = int(os.environ["GRUS_TRIAL"])
        line = Note(kind=kind, at=time.time(), gpu=gpu, trial=trial, began=began, step=step, value=value)
        note(journal, line)

    saved = grus.checkpoint_path()
    saved.parent.mkdir(parents=True, exist_ok=True)
    goes_on = grus.resuming() and saved.exists()
    training = Training.load(saved) if goes_on else Training(chosen(), chance)
    tell(UP, training.done)
    while training.done < STEPS and not grus.should_pause():
        value = training.step(pace)
        tell(STEP, training.done, value)
        grus.report(step=training.done, loss=value)
    if training.done < STEPS:
        training.save(saved)
    tell(LEFT, training.done)


def chosen() -> dict[str, Value]:
    return {name: value for name, value in grus.params().items() if isinstance(value, int | float)}


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
