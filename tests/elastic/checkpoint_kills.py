"""kill -9 while checkpoints are written: `python -m tests.elastic.checkpoint_kills 200`, one JSON line.

A child process saves one checkpoint after the other, and is killed at a random moment; every fourth time two
children save the same steps into the same folder. After each kill the newest whole checkpoint is loaded: its
content must be what was saved at that step, and no step that a child had told to be durable may be gone.
"""

import json
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from grus.elastic.training_state.checkpoints import Checkpoints

TWO_EVERY = 4
LONGEST_LIFE = 0.06
"""Seconds from a child's first save to its death, at most: a save takes some five milliseconds."""


@dataclass(slots=True)
class Figures:
    kills: int = 0
    corrupt: int = 0
    """Loads that gave another content than was saved."""
    lost: int = 0
    """Loads that gave an older step than one that was told to be durable."""
    damaged: int = 0
    """Checkpoints under their final name that were not whole."""
    inside: int = 0
    """Kills that hit a write: a temporary folder was left."""
    left: int = 0
    """Temporary folders, and checkpoints more than two, that were still there in the end."""
    steps: int = 0
    seconds: float = 0.0

    @property
    def wrong(self) -> int:
        return self.corrupt + self.lost + self.damaged + self.left


class Skips(logging.Handler):
    """Counts checkpoints that `load` skipped."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.number = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.number += 1
        print(record.getMessage(), file=sys.stderr)


def state_of(step: int) -> dict[str, Any]:
    """What is saved at a step: its content, and its size, depend on nothing else."""
    chance = torch.Generator().manual_seed(step)
    length = 1000 + int(torch.randint(0, 200_000, (), generator=chance))
    return {"step": step, "model": {"w": torch.randn(length, generator=chance)}, "text": "x" * (step % 5000)}


def right(step: int, state: dict[str, Any]) -> bool:
    told = state_of(step)
    return (
        state["step"] == step
        and torch.equal(state["model"]["w"], told["model"]["w"])
        and state["text"] == told["text"]
    )


def save_for_ever(folder: Path, start: int, told: int) -> None:
    """The life of a child. A byte when it begins; then each durable step, eight bytes."""
    checkpoints = Checkpoints(folder, on_saved=lambda step: _tell(told, step))
    checkpoints.check()
    os.write(told, b"b")
    step = start
    while True:
        step += 1
        checkpoints.save(step, state_of(step), wait=True)


def _tell(told: int, step: int) -> None:
    os.write(told, step.to_bytes(8, "big"))


def _born(folder: Path, start: int) -> tuple[int, int]:
    """A child that has begun to save, and where it tells."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            save_for_ever(folder, start, writer)
        finally:
            os._exit(1)
    os.close(writer)
    if os.read(reader, 1) != b"b":
        raise AssertionError("a child died before it was killed")
    return pid, reader


def _kill(child: tuple[int, int]) -> int:
    """The newest step that the child told to be durable; 0 for none."""
    pid, reader = child
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    told = b""
    while part := os.read(reader, 1 << 16):
        told += part
    os.close(reader)
    return int.from_bytes(told[len(told) // 8 * 8 - 8 : len(told) // 8 * 8], "big") if len(told) >= 8 else 0


def run(folder: Path, kills: int, seed: int) -> Figures:
    chance, figures, skips = random.Random(seed), Figures(), Skips()
    logging.getLogger("grus.elastic.training_state.checkpoints").addHandler(skips)
    began, step = time.monotonic(), 0
    while figures.kills < kills:
        number = min(2 if figures.kills % TWO_EVERY == 0 else 1, kills - figures.kills)
        children = [_born(folder, step) for _ in range(number)]
        durable = step
        for child in children:
            time.sleep(chance.uniform(0, LONGEST_LIFE))  # the random moment that this is about
            durable = max(durable, _kill(child))
            figures.kills += 1
        figures.inside += any(name.startswith(".tmp-") for name in os.listdir(folder))
        step = _look(folder, durable, figures)
    _settle(folder, step, figures)
    figures.damaged, figures.steps = skips.number, step
    figures.seconds = round(time.monotonic() - began, 1)
    return figures


def _look(folder: Path, durable: int, figures: Figures) -> int:
    loaded = Checkpoints(folder).load()
    if loaded is None:
        figures.lost += durable > 0
        return 0
    figures.corrupt += not right(*loaded)
    figures.lost += loaded[0] < durable
    return loaded[0]


def _settle(folder: Path, step: int, figures: Figures) -> None:
    """One more save, which clears away all that dead writers left."""
    checkpoints = Checkpoints(folder)
    checkpoints.save(step + 1, state_of(step + 1))
    checkpoints.wait()
    names = sorted(os.listdir(folder))
    figures.left = len([name for name in names if name.startswith(".")]) + max(0, len(names) - 2)


def main() -> int:
    torch.set_num_threads(1)  # a process that forks must have no threads
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}", file=sys.stderr)
    folder = Path(tempfile.mkdtemp())
    try:
        figures = run(folder, kills, seed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(asdict(figures)))
    return 1 if figures.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
