"""Search for execution plans of a training on a pool, for a job that leaves its size to Grus.

`grus submit` asks a child process. The training unchanged on one GPU comes first. If that takes most of a
GPU, or more than one has, other plans are tried that give the same result for more time: `checkpoint`,
`offload`, and at last `split` over several GPUs. Plans that change the result (`bf16`, …) are for users to
choose. Needs torch.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil

from grus.elastic.split.parallel_stage_layout import micro_batches
from grus.estimation.cpu_stand_in import elsewhere
from grus.estimation.estimate_subprocess import Tell
from grus.estimation.gpus import GpuKind
from grus.estimation.memory_estimator import Estimate
from grus.estimation.meta_tensors import untouched
from grus.estimation.script_loader import load
from grus.estimation.strategy_costs import Strategist, estimate
from grus.estimation.training_definition import Training
from grus.estimation.training_factory import training_of
from grus.model.distributed_options import Strategy, clashes, ordered, parse
from grus.model.errors import BadInput, GrusError, Mistake
from grus.model.execution_plans import Way
from grus.model.texts.units import render_bytes_short
from grus.model.train_serve_spec import TrainSection
from grus.model.train_serve_spec import section as section_of
from grus.partition.capture_profile import capture
from grus.partition.execution.placement_plan import Pipeline, Rhythm, Schedule
from grus.partition.parse_devices import Gpu, at_most, topology
from grus.partition.pipelining.pipeline_search import place_stages

ROOMY = 0.5
"""Part of the largest GPU; a training whose upper bound is below it needs no other plan on one GPU."""
TIGHT = 0.8
"""One that takes more than this, however it is held, is looked at on several."""
WORTH = 0.97
"""Part of the previous plan's memory; a plan that takes more than this is not worth its time."""
LESS = 0.9
"""A split never counts as faster than so much of what one GPU does: it takes several, and whole ones."""
STAGES = (2, 3, 4, 6, 8)
"""Numbers of GPUs that a model is split over by itself; the fewest that do are taken."""


@dataclass(frozen=True, slots=True)
class ExecutionPlanResult:
    """Results of a child process."""

    batch: int = 0
    ways: tuple[Way, ...] = ()
    estimates: tuple[Estimate, ...] = ()
    """Estimates of the plans with one GPU, each on the type of GPU where it takes the most."""
    notes: tuple[str, ...] = ()
    """Notes on other plans: results, or the reason why there is none."""
    mistakes: tuple[Mistake, ...] = ()
    """Functions that the job names and that are not there: it cannot run."""


def find(
    tell: Tell, section: Mapping[str, Any] | None, target: str, pool: Sequence[Mapping[str, Any]]
) -> ExecutionPlanResult:
    """Find execution plans of a `train:` section, or of
    the training that `target` names for a separate script.

    `pool` has a type of GPU and its count, for each type. A script's model is held as it is.
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
            if error.__cause__ is not None:  # it exists, but raises here; it may not on a GPU's node
                raise
            return ExecutionPlanResult(mistakes=tuple(error.mistakes))
        looking = _Looking(tell, training, kinds, parse(given.strategy or ""))
        if (count := _samples(training)) < training.size:
            rule = f"is more than the {count} samples that the data has"
            return ExecutionPlanResult(mistakes=(Mistake("train.batch", rule, str(training.size)),))
        return looking.found()


class _Looking:
    """Search for several execution plans of one training."""

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

    def found(self, *, alone: bool = False) -> ExecutionPlanResult:
        """`alone`: only as it is."""
        if Strategy.SPLIT in self._words:
            return self._with_split(ExecutionPlanResult(self._training.size))
        estimates: list[Estimate] = []
        for more in [()] if alone else self._more():
            one = self._on_one(ordered((*self._words, *more)))
            if not estimates or one.upper < WORTH * estimates[-1].upper:
                estimates.append(one)
            if one.upper <= ROOMY * self._largest.memory:
                break
        fastest = estimates[0].seconds
        ways = tuple(Way(1, one.upper, one.how, _relative(fastest, one.seconds)) for one in estimates)
        found = ExecutionPlanResult(self._training.size, ways, tuple(estimates))
        if alone or min(one.upper for one in estimates) <= TIGHT * self._largest.memory:
            return found
        return self._with_split(found)

    def _more(self) -> Iterator[tuple[Strategy, ...]]:
        """Yield strategies to try one after the other in addition to the requested ones."""
        for more in ((), (Strategy.CHECKPOINT,), (Strategy.CHECKPOINT, Strategy.OFFLOAD)):
            if self._largest.virtual and Strategy.OFFLOAD in more:
                continue  # its memory is the host's: there is nowhere to move it
            words = ordered((*self._words, *more))
            if not clashes(words) and (not more or words != ordered(self._words)):
                yield more

    @cached_property
    def _strategists(self) -> list[Strategist]:
        """Return strategists for the extreme types: that with
        the most memory, and that with the largest context.
        """
        kinds = [kind for kind, _ in self._kinds]
        telling = {max(kinds, key=lambda kind: kind.memory), max(kinds, key=lambda kind: kind.context)}
        return [Strategist(self._training, kind) for kind in telling]

    def _on_one(self, words: tuple[Strategy, ...]) -> Estimate:
        """Estimate it on the type of GPU where it takes the most."""
        how = f", {' '.join(words)}" if words else ""
        self._tell(f"tracing a batch of {self._training.size}{how}")
        return max((estimate(one, words) for one in self._strategists), key=lambda one: one.upper)

    # --------------------------------------------------------------------------------- over several GPUs

    def _with_split(self, found: ExecutionPlanResult) -> ExecutionPlanResult:
        """Add a split over the fewest GPUs of one type that
        hold it in parts, or a note with the reason against it.
        """
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
        """Return whether so many GPUs hold the model, the
        bytes required on each, and their busy part of a step.
        """
        count = micro_batches(self._training.size, stages)
        captured = capture(self._training, self._training.size // count, kind)
        devices = topology([Gpu(kind, kind.memory)] * stages)
        found = place_stages(captured.staged, devices, Schedule(Rhythm.ONE_F_ONE_B, count))
        if isinstance(found, Pipeline):
            busy = sum(found.loads) * count / (stages * found.seconds)
            return True, at_most(max(found.peaks), kind), min(1.0, round(busy, 4))
        return False, at_most(found.least, kind), 0.0


def _samples(training: Training) -> float:
    """Return the number of training samples; infinite if it is not known."""
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
    """Return the work of each GPU, relative to the fastest plan's, which is 1."""
    return max(1e-4, round(fastest / seconds, 4)) if seconds > 0 else 1.0
