"""What a journal says of a search: when it reached its target, how full its pool was, what a hand-over took.

Pure: notes → figures.
"""

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.sweep_live_training import LEFT, STEP, UP, Note


@dataclass(frozen=True, slots=True)
class Turn:
    """One process of a trial on a GPU: made, at work from `up` until `left`."""

    gpu: str
    began: float
    up: float
    left: float


@dataclass(frozen=True, slots=True)
class Handover:
    """From the last of a trial's loop to the first of the next one's on that GPU, in seconds."""

    freed: float
    """Until the process of the next one was made."""
    boot: float
    """From there until its loop began: Python, its imports, its checkpoint."""

    @property
    def gap(self) -> float:
        return self.freed + self.boot


@dataclass(frozen=True, slots=True)
class Found:
    """What a search took. GPU-seconds are those of all its pool, whether a trial ran or not."""

    reached: bool
    seconds: float
    gpu_seconds: float
    utilisation: float
    trials: int
    handovers: tuple[Handover, ...] = ()


def target_at(notes: Sequence[Note], target: float) -> float | None:
    """When a value as good was first reported."""
    return min((one.at for one in notes if one.kind == STEP and one.value <= target), default=None)


def found(
    notes: Sequence[Note], target: float, gpus: int, asked: float, until: float, began: float | None = None
) -> Found:
    """`asked` is when the search was asked for, `until` when it was given up; `began`, from when on its GPUs
    count, is its first process if nobody says otherwise."""
    at = target_at(notes, target)
    end = until if at is None else at
    first = min((one.began for one in notes), default=asked) if began is None else began
    own = turns(notes, end)
    busy = sum(max(0.0, turn.left - max(turn.up, first)) for turn in own)
    held = gpus * (end - first)
    return Found(
        reached=at is not None,
        seconds=end - asked,
        gpu_seconds=held,
        utilisation=busy / held if held > 0 else 0.0,
        trials=len({one.trial for one in notes if one.began < end}),
        handovers=handovers(own, end),
    )


def turns(notes: Sequence[Note], end: float) -> list[Turn]:
    """All that were up by `end`, cut off there."""
    left = {(one.gpu, one.trial, one.began): one.at for one in notes if one.kind == LEFT}
    return [
        Turn(one.gpu, one.began, one.at, min(end, left.get((one.gpu, one.trial, one.began), end)))
        for one in notes
        if one.kind == UP and one.at < end
    ]


def handovers(turns: Sequence[Turn], end: float) -> tuple[Handover, ...]:
    """All that were over by `end`."""
    made = []
    for gpu in {turn.gpu for turn in turns}:
        mine = sorted((turn for turn in turns if turn.gpu == gpu), key=lambda turn: turn.up)
        for one, following in itertools.pairwise(mine):
            if one.left < end:
                made.append(Handover(following.began - one.left, following.up - following.began))
    return tuple(made)


def middle(values: Sequence[float]) -> float:
    return round(statistics.median(values), 3) if values else 0.0
