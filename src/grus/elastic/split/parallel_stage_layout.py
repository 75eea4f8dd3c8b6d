"""Division of a split training among its workers: stages, copies of them, micro-batches.

One worker decides for all. An existing plan is followed. Otherwise the fewest stages that fit are chosen,
because copies that share the batch wait less for each other than stages do.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from grus.estimation.training_definition import Training
from grus.model.errors import BadInput, Mistake
from grus.model.texts.plural_words import counted
from grus.partition.capture_profile import Captured, capture
from grus.partition.execution.placement_plan import Infeasible, Pipeline, Rhythm, Schedule
from grus.partition.graph import OpGraph
from grus.partition.operators.colocation_groups import breadth_first
from grus.partition.parse_devices import Gpu, at_most, topology
from grus.partition.pipelining.pipeline_search import place_stages, staged
from grus.partition.pipelining.stage_units import stage_units
from grus.partition.placement_plan_file import Split
from grus.partition.topology import Topology

log = logging.getLogger(__name__)

PER_STAGE = 4
"""Micro-batches for each stage: with more, the waiting time hardly decreases (GPipe, arXiv 1811.06965)."""


@dataclass(frozen=True, slots=True)
class PipelineSplit:
    stages: int
    """Number of stages; may be fewer than there are workers; the rest is idle."""
    replicas: int
    micro: int
    """Samples of a micro-batch."""
    micro_batches: int
    """Micro-batches of a step, for each replica."""
    rhythm: str
    stage_of: Mapping[str, int]
    """Stage of each node of the exported program."""


class Captures:
    """A training taken apart, once for each size of a micro-batch."""

    def __init__(self, training: Training, gpu: Gpu) -> None:
        self._training = training
        self._gpu = gpu
        self._known: dict[int, Captured] = {}

    def __getitem__(self, size: int) -> Captured:
        if size not in self._known:
            self._known = {size: capture(self._training, size, self._gpu.kind)}
        return self._known[size]


def divide(
    training: Training, workers: int, gpu: Gpu, captures: Captures, plan: Split | None
) -> PipelineSplit:
    """Raises BadInput: the batch cannot be shared out, the plan is for others, the model cannot be split."""
    if plan is not None:
        return _planned(training, workers, plan)
    counts = [count for count in range(min(2, workers), workers + 1) if workers % count == 0]
    least: Infeasible | None = None
    for stages in counts:
        found = _placed(training, stages, workers // stages, gpu, captures)
        if isinstance(found, PipelineSplit):
            return found
        least = found
    assert least is not None
    log.warning("%s The split over %d that needs least is tried", least, workers)
    larger = Gpu(gpu.kind, at_most(least.least, gpu.kind))
    found = _placed(training, workers, 1, larger, captures)
    if isinstance(found, Infeasible):
        raise BadInput([Mistake("split", str(found))])
    return found


def micro_batches(share: int, stages: int) -> int:
    """The most that divide a replica's share of the batch evenly, up to four a stage.

    Of two samples or more each, if that can be: BatchNorm can make nothing of one.
    """
    fitting = [count for count in range(1, PER_STAGE * stages + 1) if share % count == 0]
    return max([count for count in fitting if share // count > 1], default=max(fitting))


def _placed(
    training: Training, stages: int, replicas: int, gpu: Gpu, captures: Captures
) -> PipelineSplit | Infeasible:
    share = _share(training.size, replicas)
    count = micro_batches(share, stages)
    captured = captures[share // count]
    devices = topology([gpu] * stages)
    schedule = Schedule(Rhythm.ONE_F_ONE_B, count)
    found = place_stages(captured.staged, devices, schedule)
    if isinstance(found, Infeasible):
        return found
    if len(found.stages) == 1 < stages:
        found = _even(captured.staged, devices, schedule)
    return _division(found, replicas, share, captured.devices_of_nodes(found.device_of))


def _even(graph: OpGraph, devices: Topology, schedule: Schedule) -> Pipeline:
    """Cut into stages of about as many bytes of weights each, although one device seems to be enough.

    A split is requested when one device has been too small in practice, and estimates may be wrong.
    """
    units = stage_units(graph)
    stages = len(devices.devices)
    sizes = [sum(graph.ops[op].permanent for op in members) for members in units.members]
    total, before = max(1, sum(sizes)), 0
    device_of = [0] * len(graph.ops)
    for unit in breadth_first(graph, units):
        middle = before + sizes[unit] / 2
        for op in units.members[unit]:
            device_of[op] = min(stages - 1, int(middle * stages / total))
        before += sizes[unit]
    used = sorted(set(device_of))
    if len(used) < 2:
        rule = "cannot be cut into stages: weights that are used at both ends tie it together"
        raise BadInput([Mistake("model", rule)])
    return staged(graph, devices, device_of, used, schedule, "even")


def _share(size: int, replicas: int) -> int:
    if size % replicas:
        rule = f"must be a multiple of {replicas}, the copies that share it"
        raise BadInput([Mistake("batch", rule, str(size))])
    return size // replicas


def _planned(training: Training, workers: int, plan: Split) -> PipelineSplit:
    pipeline = plan.plan
    if not isinstance(pipeline, Pipeline):
        rule = "has no stages, so it cannot run on workers of their own; its job needs `launch: once`"
        raise BadInput([Mistake("plan", rule)])
    stages = len(pipeline.stages)
    if workers % stages:
        rule = f"has {counted(stages, 'stage')}, so it needs that many workers or a multiple"
        raise BadInput([Mistake("plan", rule, f"{counted(workers, 'worker')}")])
    if plan.batch != training.size:
        rule = f"is for batches of {plan.batch}, and this training has {training.size}. Make it again"
        raise BadInput([Mistake("plan", rule)])
    return _division(pipeline, workers // stages, _share(plan.batch, workers // stages), plan.places)


def _division(found: Pipeline, replicas: int, share: int, places: Mapping[str, int]) -> PipelineSplit:
    number = {device: place for place, device in enumerate(found.stages)}
    count = found.schedule.micro_batches
    if share % count:
        raise BadInput(
            [Mistake("plan", f"has {count} micro-batches, which do not share out {share} samples")]
        )
    return PipelineSplit(
        stages=len(found.stages),
        replicas=replicas,
        micro=share // count,
        micro_batches=count,
        rhythm=found.schedule.rhythm.value,
        stage_of={name: number[device] for name, device in places.items()},
    )
