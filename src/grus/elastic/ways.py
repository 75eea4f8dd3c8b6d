"""Ways to hold a training on a pool, for a job that leaves its size to Grus; `grus submit` asks a child.

As it is on one GPU comes first. Where that takes most of a GPU, or more than there is, other ways are looked
at that give the same result for more time: `checkpoint`, `offload`, and at last `split` over several GPUs.
Ways that change the result (`bf16`, …) are for people to choose. Needs torch.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil

from grus.api.units import render_bytes_short
from grus.elastic.split_plan import micro_batches
from grus.estimation.child import Tell
from grus.estimation.dataless import untouched
from grus.estimation.elsewhere import elsewhere
from grus.estimation.entry import load
from grus.estimation.estimate import Estimate
from grus.estimation.gpus import GpuKind
from grus.estimation.section import training_of
from grus.estimation.strategies import Strategist, estimate
from grus.estimation.training import Training
from grus.model.errors import BadInput, GrusError, Mistake
from grus.model.sections import TrainSection
from grus.model.sections import section as section_of
from grus.model.strategies import Strategy, clashes, ordered, parse
from grus.model.ways import Way
from grus.partition.capture import capture
from grus.partition.described import Gpu, at_most, topology
from grus.partition.plan import Pipeline, Rhythm, Schedule
from grus.partition.staging import place_stages

ROOMY = 0.5
"""A training whose upper bound is below this part of the largest GPU needs no other way on one GPU."""
TIGHT = 0.8
"""One that takes more than this, however it is held, is looked at on several."""
WORTH = 0.97
"""A way that takes more than this part of the one before it is not worth its time."""
LESS = 0.9
"""A split never counts as faster than so much of what one GPU does: it takes several, and whole ones."""
STAGES = (2, 3, 4, 6, 8)
"""Numbers of GPUs that a model is split over by itself; the fewest that do are taken."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a child says."""

    batch: int = 0
    ways: tuple[Way, ...] = ()
    estimates: tuple[Estimate, ...] = ()
    """Of the ways with one GPU, each on the type of GPU where it takes the most."""
    notes: tuple[str, ...] = ()
    """Of other ways: what was found, or why there is none."""
    mistakes: tuple[Mistake, ...] = ()
    """Functions that the job names and that are not there: it cannot run."""


def find(
    tell: Tell, section: Mapping[str, Any] | None, target: str, pool: Sequence[Mapping[str, Any]]
) -> Found:
    """Of a `train:` section, or of the training that `target` names for a script of its own.

    `pool` has a type of GPU and how many of it there are, for each type. A script is held as it is.
    """
    kinds = [(GpuKind(**one["gpu"]), int(one["count"])) for one in pool]
    with elsewhere():
        if section is None:
            tell(f"running {target}")
            with untouched():
                training = load(target, Path.cwd())
            return _Looking(tell, training, kinds, ()).found(alone=True)
        given = section_of(TrainSection, section)
        tell(f"running {given.make or given.model}")
        try:
            with untouched():
                training = training_of(given, Path.cwd())
        except BadInput as error:
            if error.__cause__ is not None:  # it is there, but raises here: it may not on a GPU's node
                raise
            return Found(mistakes=tuple(error.mistakes))
        looking = _Looking(tell, training, kinds, parse(given.strategy or ""))
        if (count := _samples(training)) < training.size:
            rule = f"is more than the {count} samples that the data has"
            return Found(mistakes=(Mistake("train.batch", rule, str(training.size)),))
        return looking.found()


class _Looking:
    """One training, looked at in several ways."""

    def __init__(
        self,
        tell: Tell,
        training: Training,
        kinds: Sequence[tuple[GpuKind, int]],
        words: tuple[Strategy, ...],
    ) -> None:
        self._tell = tell
        self._training = training
        self._words = words
        self._kinds = _with_data(kinds, training)
        self._largest = max((kind for kind, _ in self._kinds), key=lambda kind: kind.memory)

    def found(self, *, alone: bool = False) -> Found:
        """`alone`: only as it is."""
        if Strategy.SPLIT in self._words:
            return self._with_split(Found(self._training.size))
        estimates: list[Estimate] = []
        for more in [()] if alone else self._more():
            one = self._on_one(ordered((*self._words, *more)))
            if not estimates or one.upper < WORTH * estimates[-1].upper:
                estimates.append(one)
            if one.upper <= ROOMY * self._largest.memory:
                break
        fastest = estimates[0].seconds
        ways = tuple(Way(1, one.upper, one.how, _relative(fastest, one.seconds)) for one in estimates)
        found = Found(self._training.size, ways, tuple(estimates))
        if alone or min(one.upper for one in estimates) <= TIGHT * self._largest.memory:
            return found
        return self._with_split(found)

    def _more(self) -> Iterator[tuple[Strategy, ...]]:
        """Strategies to try one after the other beside those that are asked for."""
        for more in ((), (Strategy.CHECKPOINT,), (Strategy.CHECKPOINT, Strategy.OFFLOAD)):
            if self._largest.virtual and Strategy.OFFLOAD in more:
                continue  # its memory is the host's: nothing can be moved away
            words = ordered((*self._words, *more))
            if not clashes(words) and (not more or words != ordered(self._words)):
                yield more

    @cached_property
    def _strategists(self) -> list[Strategist]:
        """For the types that tell most: that with the most memory, and that which takes most for itself."""
        kinds = [kind for kind, _ in self._kinds]
        telling = {max(kinds, key=lambda kind: kind.memory), max(kinds, key=lambda kind: kind.context)}
        return [Strategist(self._training, kind) for kind in telling]

    def _on_one(self, words: tuple[Strategy, ...]) -> Estimate:
        """On the type of GPU where it takes the most."""
        how = f", {' '.join(words)}" if words else ""
        self._tell(f"tracing a batch of {self._training.size}{how}")
        return max((estimate(one, words) for one in self._strategists), key=lambda one: one.upper)

    # --------------------------------------------------------------------------------- over several GPUs

    def _with_split(self, found: Found) -> Found:
        """With the fewest GPUs of one type that hold it in parts, or a note that says why there are none."""
        if set(self._words) - {Strategy.SPLIT, Strategy.PLAIN}:
            note = f"it is not split: {' '.join(self._words)} and split do not go together"
            return replace(found, notes=(*found.notes, note))
        kind, count = max(self._kinds, key=lambda one: (one[1] > 1, one[0].memory))
        least = 0
        try:
            for stages in (number for number in STAGES if number <= count):
                self._tell(f"splitting it over {stages} GPUs")
                fits, least, busy = self._in_parts(stages, kind)
                if fits:
                    speed = min([busy, *(LESS * way.speed for way in found.ways)])
                    way = Way(stages, least, (Strategy.SPLIT.value,), speed)
                    note = f"split over {stages} GPUs at most {render_bytes_short(least)} on each"
                    return replace(found, ways=(*found.ways, way), notes=(*found.notes, note))
        except GrusError as error:
            return replace(found, notes=(*found.notes, f"it cannot be split: {error}"))
        why = f"the parts need up to {render_bytes_short(least)}" if least else "there are no two GPUs alike"
        return replace(found, notes=(*found.notes, f"it cannot be split: {why}"))

    def _in_parts(self, stages: int, kind: GpuKind) -> tuple[bool, int, float]:
        """Whether so many GPUs hold it, the bytes that suffice on each, the part of a step that they work."""
        count = micro_batches(self._training.size, stages)
        captured = capture(self._training, self._training.size // count, kind)
        devices = topology([Gpu(kind, kind.memory)] * stages)
        found = place_stages(captured.staged, devices, Schedule(Rhythm.ONE_F_ONE_B, count))
        if isinstance(found, Pipeline):
            busy = sum(found.loads) * count / (stages * found.seconds)
            return True, at_most(max(found.peaks), kind), min(1.0, round(busy, 4))
        return False, at_most(found.least, kind), 0.0


def _samples(training: Training) -> float:
    """How many there are to train on; without end where that is not known."""
    if training.data is None:
        return math.inf
    data = training.data()
    return len(data) if hasattr(data, "__len__") else math.inf


def _with_data(kinds: Sequence[tuple[GpuKind, int]], training: Training) -> list[tuple[GpuKind, int]]:
    """A virtual GPU's memory is that of its process, where the data is too."""
    if training.data is None or not any(kind.virtual for kind, _ in kinds):
        return list(kinds)
    process = psutil.Process()
    before = process.memory_info().rss
    held = training.data()
    more = max(0, process.memory_info().rss - before)
    del held
    return [(replace(kind, context=kind.context + more) if kind.virtual else kind, n) for kind, n in kinds]


def _relative(fastest: float, seconds: float) -> float:
    """Work of each GPU, where the fastest way has 1."""
    return max(1e-4, round(fastest / seconds, 4)) if seconds > 0 else 1.0
