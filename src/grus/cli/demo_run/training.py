"""The demo's second act: a training that grows, loses a worker and shrinks, while its loss keeps falling.

Its workers are real processes with torch. The demo reports the values that the training logged step by step.
"""

import os
import signal
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from statistics import fmean

from grus.cli.demo_run.story import ENOUGH, DemoResult, DemoSession, DemoStep, ObservedJob

NAME = "training"
NOTES = "losses"
"""The file in its checkpoint folder with a line a step."""
SKIPPED = "not shown: torch is not installed (pip install 'grus-gpu[torch]')"
BOOT = 60.0
"""Seconds for processes that load torch, on a slow machine."""
ENDING = 2
"""Scenes at the end of the first act that leave room for it."""
STEPS = 20
"""Steps after an event before its outcome is shown; losses are means over as many steps."""


@dataclass(frozen=True, slots=True)
class Note:
    """One step of the training."""

    step: int
    workers: int
    loss: float
    """The mean over the last steps: that of one step's batch jumps."""
    at: float


class LossHistory:
    """The course of the loss, event by event."""

    def __init__(self) -> None:
        self._before: Note | None = None
        self.sizes: list[int] = []
        self.losses: list[float] = []

    def mark(self, on: DemoSession) -> str:
        """Record the current step and loss; called before an event happens to the training."""
        self._before = _notes(on)[-1]
        return f"before: {_words(self._before)}"

    def goes_on(self, on: DemoSession, workers: int | None) -> bool:
        """Return whether it has done some steps since the mark, with that many workers if a number is
        given.
        """
        assert self._before is not None
        later = [note for note in _notes(on) if note.at > self._before.at]
        return len([note for note in later if workers in (None, note.workers)]) >= STEPS

    def outcome(self, on: DemoSession) -> str:
        assert self._before is not None
        notes = [note for note in _notes(on) if note.at >= self._before.at]
        gaps = [after.at - before.at for before, after in pairwise(notes)]
        self.take(notes)
        return f"after: {_words(notes[-1])}; it never stood still for longer than {max(gaps):.2f} s"

    def take(self, notes: list[Note]) -> None:
        for note in notes:
            if not self.sizes or self.sizes[-1] != note.workers:
                self.sizes.append(note.workers)
        self.losses += [notes[0].loss, notes[-1].loss]


def followed_by_training(scenes: list[DemoStep], course: LossHistory) -> list[DemoStep]:
    """The first act, at whose end the training's processes begin to boot, and the second."""
    if not has_torch():
        return [*scenes, DemoStep(f"a training that is resized: {SKIPPED}", lambda _: None, lambda _: True)]
    boots = DemoStep("a training begins to boot", _begin, lambda on: on.running(NAME))
    return [*scenes[:-ENDING], boots, *scenes[-ENDING:], *_second_act(course)]


def _second_act(course: LossHistory) -> list[DemoStep]:
    return [
        DemoStep(
            "the training has two workers",
            lambda _: None,
            lambda on: len(_notes(on)) >= STEPS and _workers(on) == 2,
            within=BOOT,
            after=lambda on: f"it runs: {_words(_notes(on)[-1])}",
        ),
        DemoStep(
            "it grows to four while it runs: two new ones boot, then join between two steps",
            lambda on: _scale(on, course, 4),
            lambda on: course.goes_on(on, 4),
            within=BOOT,
            after=course.outcome,
        ),
        DemoStep(
            "its first worker is killed with -9: the others go on",
            lambda on: _kill_first(on, course),
            lambda on: on.seen[NAME].job.lost == 1 and course.goes_on(on, None),
            after=course.outcome,
        ),
        DemoStep(
            "it shrinks to one",
            lambda on: _scale(on, course, 1),
            lambda on: course.goes_on(on, 1),
            after=course.outcome,
        ),
        DemoStep("and ends", _enough, lambda on: on.ended(NAME)),
    ]


def has_torch() -> bool:
    return find_spec("torch") is not None


def _begin(on: DemoSession) -> None:
    on.submit(NAME, "language", "learn.py", gpu="1..4", resize="live")
    on.client.scale(on.seen[NAME].job.id, 2)


def _scale(on: DemoSession, course: LossHistory, size: int) -> str:
    on.client.scale(on.seen[NAME].job.id, size)
    return course.mark(on)


def _kill_first(on: DemoSession, course: LossHistory) -> str:
    told = course.mark(on)
    first = next(one for one in on.client.workers(on.seen[NAME].job.id) if one.pid and one.state != "ended")
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    return told


def _enough(on: DemoSession) -> None:
    (on.folder / "checkpoints" / NAME / ENOUGH).touch()


def _notes(on: DemoSession) -> list[Note]:
    """Every step so far; after a loss of workers a step may stand there twice."""
    try:
        lines = (on.folder / "checkpoints" / NAME / NOTES).read_text().split("\n")[:-1]
    except OSError:
        return []
    parts = [line.split() for line in lines]
    losses = [float(loss) for _, _, loss, _ in parts]
    return [
        Note(int(step), int(workers), fmean(losses[max(0, place - STEPS + 1) : place + 1]), float(at))
        for place, (step, workers, _, at) in enumerate(parts)
    ]


def _workers(on: DemoSession) -> int:
    """Workers of its last step; 0 before the first."""
    notes = _notes(on)
    return notes[-1].workers if notes else 0


def _words(note: Note) -> str:
    count = "one worker" if note.workers == 1 else f"{note.workers} workers"
    return f"loss {note.loss:.3f} at step {note.step} with {count}"


def judge_training(seen: ObservedJob | None, course: LossHistory) -> DemoResult:
    promised = "grows, shrinks and survives kill -9 without a restart"
    if not has_torch():
        return DemoResult(NAME, promised, SKIPPED, "", True)
    if seen is None or not course.losses:
        return DemoResult(NAME, promised, "did not run", "", False)
    falls = course.losses[-1] < course.losses[0]
    ok = (
        seen.succeeded
        and seen.job.attempt == 1
        and seen.job.lost == 1
        and falls
        and {2, 4, 1} <= set(course.sizes)
    )
    sizes = " → ".join(map(str, course.sizes))
    losses = " → ".join(f"{loss:.2f}" for loss in dict.fromkeys(course.losses))
    course_of_it = f"{sizes} workers, lost: {seen.job.lost}, restarts: {seen.job.attempt - 1}"
    happened = f"{seen.job.phase}; {course_of_it}; loss {losses}"
    return DemoResult(NAME, promised, happened, seen.said("team"), ok)
