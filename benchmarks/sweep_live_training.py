"""What is trained in the live comparison of searches, and what is noted of it: the same for all sides.

The training is that of the task `network` (`sweep_tasks`): 81 epochs, told in 27 steps of three. A step
computes for some milliseconds and rests until its pace is over: four trials would fight over two cores
otherwise, and the machine would be measured instead of the search. A trial can be saved after any step.
"""

import json
import os
import pickle
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from benchmarks.sweep_tasks import NetworkTraining, Task, network, spirals
from grus.model.sweep_search import Axis, Value

STEPS, EPOCHS = 27, 3
"""Of a whole trial, and of a step."""
UP, STEP, LEFT = "up", "step", "left"
"""A program begins its loop, has done a step, has left its loop."""


class Training:
    """One trial. `step` takes `pace` seconds, or as long as it computes."""

    def __init__(self, params: Mapping[str, Value], chance: int) -> None:
        self.done = 0
        self._network = NetworkTraining(params, chance)
        self._trained_on, self._judged_by = spirals(600, 1), spirals(300, 2)

    def step(self, pace: float = 0.0) -> float:
        due = time.monotonic() + pace
        for _ in range(EPOCHS):
            self._network.epoch(*self._trained_on)
        self.done += 1
        value = self._network.loss(*self._judged_by)
        if (rest := due - time.monotonic()) > 0:
            time.sleep(rest)  # where a larger one computes
        return value

    def save(self, path: Path) -> None:
        draft = path.with_suffix(".draft")
        draft.write_bytes(pickle.dumps(self))
        draft.replace(path)

    @classmethod
    def load(cls, path: Path) -> Self:
        found = pickle.loads(path.read_bytes())  # written by `save`, in our own folder
        assert isinstance(found, cls)
        return found


def task() -> Task:
    """The same training without pace, as the comparison in virtual time takes it."""

    def run(params: Mapping[str, Value], chance: int) -> Iterator[float]:
        training = Training(params, chance)
        return (training.step() for _ in range(STEPS))

    width = Axis(name="width", choices=(4, 8, 16, 32, 64, 128))  # a job file has no whole numbers by orders
    axes = tuple(width if axis.name == width.name else axis for axis in network().axes)
    return Task("network in 27 steps", axes, STEPS, run, reference=300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A line of the journal. Times are those of the wall clock, in seconds."""

    kind: str
    at: float
    gpu: str
    trial: int
    began: float
    """When the program's process began."""
    step: int = 0
    value: float = 0.0


def note(journal: Path, line: Note) -> None:
    with journal.open("ab", buffering=0) as file:
        file.write(json.dumps(asdict(line)).encode() + b"\n")  # one write: lines never mix


def notes(journal: Path) -> list[Note]:
    """All that is noted so far; a line that is being written is left for the next time."""
    lines = journal.read_text().splitlines(keepends=True) if journal.exists() else []
    return [Note(**json.loads(line)) for line in lines if line.endswith("\n")]


def process_began() -> float:
    """When this process was made, by the kernel; to a hundredth of a second."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age
