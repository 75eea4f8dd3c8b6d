"""Execution plans of a training on a type of GPU, each with its memory and step seconds. Needs torch.

If the training fits unchanged, that is the plan. Otherwise: over several such GPUs, with activations computed
again, with the optimizer in main memory, or in parts of the batch whose gradients are summed; all of them do
the requested step. Seconds are those of one roofline, so that plans can be compared.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grus.estimation.gpus import GpuKind
from grus.estimation.memory_estimator import Estimate
from grus.estimation.meta_tensors import untouched
from grus.estimation.script_loader import load
from grus.estimation.strategy_costs import Strategist, estimate
from grus.estimation.training_definition import Training
from grus.model.distributed_options import Strategy
from grus.partition import parse_devices
from grus.partition.capture_profile import CannotCapture, capture
from grus.partition.execution.placement_plan import Infeasible, Pipeline
from grus.partition.parse_devices import Gpu
from grus.partition.split_child import alone, placed

Tell = Callable[[str], None]
MOST_PARTS = 32
"""A batch is not cut into more."""
WHOLE, SPLIT, SMALLER = "whole", "split", "smaller batch"
"""Names of the plans that have no word of their own among the strategies."""


@dataclass(frozen=True, slots=True)
class Option:
    """Execution plan of a training."""

    how: str
    type: str
    gpus: int
    share: float
    """Part of each GPU."""
    memory: int
    """Bytes of each GPU, to be on the safe side."""
    seconds: float
    """Seconds of a step with the whole batch."""
    note: str = ""


def options(training: Training, gpu: Gpu, most: int = 2, tell: Tell = lambda _: None) -> Iterator[Option]:
    """Yield the plans on one GPU of this type, or on up to `most` of them.

    Raises CannotCapture if a split is searched for.
    """
    strategist = Strategist(training, gpu.kind)
    tell(f"tracing a batch of {training.size} for {gpu.kind.name}")
    whole = estimate(strategist)
    if whole.upper <= gpu.free:
        yield _option(WHOLE, gpu, whole)
        return
    for way in (Strategy.CHECKPOINT, Strategy.OFFLOAD):
        tell(f"tracing a batch of {training.size} for {gpu.kind.name}, {way}")
        found = estimate(strategist, (way,))
        if found.upper <= gpu.free:
            yield _option(way.value, gpu, found)
    yield from _in_parts(training, gpu, tell)
    yield from _split(training, gpu, whole, most, tell)


def _option(how: str, gpu: Gpu, found: Estimate, times: int = 1, note: str = "") -> Option:
    return Option(how, gpu.kind.name, 1, gpu.share, found.upper, times * found.seconds / gpu.share, note)


def _in_parts(training: Training, gpu: Gpu, tell: Tell) -> Iterator[Option]:
    """The fewest equal parts of the batch that fit."""
    size = training.size
    for count in (one for one in range(2, MOST_PARTS + 1) if size % one == 0):
        tell(f"tracing a batch of {size // count} for {gpu.kind.name}")
        found = estimate(Strategist(training, gpu.kind, size // count))
        if found.upper <= gpu.free:
            yield _option(SMALLER, gpu, found, count, f"{count} parts of {size // count}")
            return


def _split(training: Training, gpu: Gpu, whole: Estimate, most: int, tell: Tell) -> Iterator[Option]:
    """Over the fewest that will do."""
    if most < 2:
        return
    tell(f"taking it apart for {gpu.kind.name}")
    captured = capture(training, training.size, gpu.kind)
    seconds, _ = alone(captured.graph, replace(gpu, share=1.0))
    for count in range(2, most + 1):
        used = [gpu] * count
        tell(f"splitting over {count} {gpu.kind.name}")
        _, plan, _ = placed(training, captured, used, parse_devices.topology(used), None)
        if isinstance(plan, Infeasible) or len(set(plan.device_of)) < 2:
            continue
        form = plan.schedule if isinstance(plan, Pipeline) else None
        note = f"{form.micro_batches} micro-batches, {form.rhythm}" if form else "one batch at a time"
        bytes_ = parse_devices.at_most(max(plan.peaks), gpu.kind)
        # An estimate has the update of the weights too, a plan has not: what counts is how they compare.
        yield Option(
            SPLIT, gpu.kind.name, count, gpu.share, bytes_, plan.seconds / seconds * whole.seconds, note
        )
        return


@dataclass(frozen=True, slots=True)
class OptionsResult:
    """Results of a child process."""

    batch: int
    options: tuple[Option, ...]
    notes: tuple[str, ...] = ()
    """Reasons why a plan does not exist."""


def find(tell: Tell, target: str, batch: int | None, pool: Sequence[Mapping[str, Any]]) -> OptionsResult:
    """Find the plans of a user's training on the types of a pool, each with its maximum number of GPUs."""
    tell(f"reading {target}")
    with untouched():
        training = load(target, Path.cwd(), batch)
    found: list[Option] = []
    notes: list[str] = []
    for one in pool:
        kind = GpuKind(**one["gpu"])
        ways = options(training, Gpu(kind, kind.memory), int(one["most"]), tell)
        try:
            found += ways
        except CannotCapture as error:
            notes.append(str(error))
    return OptionsResult(training.size, tuple(found), tuple(dict.fromkeys(notes)))
