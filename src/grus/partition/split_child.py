"""Model splitting: from a user's function to a split; the child-process side of `grus split`. Needs torch.

A pipeline comes first: micro-batches keep all devices busy, and each stage can run in a process of its own.
Where that leaves one stage only (tied weights that fit once do), any operator may go anywhere and the batch
is processed whole, if that is faster than micro-batches on one device.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grus.estimation.meta_tensors import untouched
from grus.estimation.script_loader import load
from grus.estimation.training_definition import Training
from grus.model.errors import BadInput, Mistake
from grus.model.texts.plural_words import counted
from grus.partition import parse_devices
from grus.partition.capture_profile import Captured, capture
from grus.partition.execution.placement_plan import Infeasible, Pipeline, Plan, Rhythm, Schedule
from grus.partition.execution.simulate_step import ranks, simulate
from grus.partition.graph import OpGraph
from grus.partition.operators.batch_scaling import between
from grus.partition.parse_devices import Gpu, at_most
from grus.partition.pipelining.pipeline_search import place_stages
from grus.partition.placement_plan_file import Split, written
from grus.partition.portfolio_planner import place
from grus.partition.topology import Topology

Tell = Callable[[str], None]
PER_DEVICE = 4
"""Micro-batches for each device: with more, the waiting time hardly decreases (GPipe, arXiv 1811.06965)."""

CLEARLY = 1.02
"""A step that is shorter by this is worth more memory."""


@dataclass(frozen=True, slots=True)
class SplitResult:
    """Results of a child process."""

    batch: int
    operators: int
    """Number of operators of the forward pass."""
    alone: float
    """Seconds of a step on the first GPU alone, if it had the memory."""
    memory: int
    """Bytes that are certainly enough for that, the context included."""
    file: str = ""
    """The plan as it is written to a file; empty if there is none."""
    data: bool = False
    """True if the function returns the data that a job would train on."""
    infeasible: Infeasible | None = None


def split(
    tell: Tell,
    target: str,
    gpus: str,
    batch: int | None = None,
    bandwidth: float = 0.0,
    micro: int | None = None,
) -> SplitResult:
    """Raises BadInput: about the devices, the user's function, or a model that cannot be taken apart."""
    used = parse_devices.gpus(gpus)
    topology = parse_devices.topology(used, bandwidth)
    tell(f"reading {target}")
    with untouched():
        training = load(target, Path.cwd(), batch)
    tell(f"taking {target} apart")
    whole = capture(training, training.size, used[0].kind)
    seconds, memory = alone(whole.graph, used[0])
    answer = SplitResult(
        training.size, len(whole.forward.ops), seconds, memory, data=training.data is not None
    )
    tell(f"placing {len(whole.forward.ops)} operators on {counted(len(used), 'GPU')}")
    graph, found, nodes = placed(training, whole, used, topology, micro)
    if isinstance(found, Infeasible):
        least = max(at_most(found.least, one.kind) for one in used)
        return replace(answer, infeasible=replace(found, least=least))
    made = Split(target=target, batch=training.size, graph=graph, topology=topology, plan=found, places=nodes)
    return replace(answer, file=written(made))


Placed = tuple[OpGraph, Plan | Pipeline | Infeasible, dict[str, int]]
"""Placed graph (a micro-batch or the whole batch), its
placement, and the device of each node of the program.
"""


def placed(
    training: Training, whole: Captured, used: Sequence[Gpu], topology: Topology, micro: int | None
) -> Placed:
    part = _part(training, whole, used, topology, micro)
    pipeline = best_pipeline(part.staged, topology, training.size // part.size)
    if isinstance(pipeline, Pipeline) and len(pipeline.stages) > 1:
        return part.staged, pipeline, part.devices_of_nodes(pipeline.device_of)
    found = place(whole.graph, topology)
    if isinstance(found, Plan) and (isinstance(pipeline, Infeasible) or found.seconds <= pipeline.seconds):
        return whole.graph, found, whole.devices_of_nodes(found.device_of)
    if isinstance(pipeline, Pipeline):
        return part.staged, pipeline, part.devices_of_nodes(pipeline.device_of)
    assert isinstance(found, Infeasible)
    return whole.graph, min(found, pipeline, key=lambda one: one.least), {}


def _part(
    training: Training, whole: Captured, used: Sequence[Gpu], topology: Topology, micro: int | None
) -> Captured:
    """One micro-batch. How many there are is chosen by graphs between the largest and the smallest."""
    size, gpu = training.size, used[0].kind
    if micro is not None:
        if size % micro:
            raise BadInput([Mistake("micro", f"must divide the batch of {size} evenly", str(micro))])
        return whole if micro == 1 else capture(training, size // micro, gpu)
    counts = parts(size, PER_DEVICE * len(used))
    if len(counts) == 1 or len(used) == 1:
        return whole
    small = capture(training, size // counts[-1], gpu)
    times = {counts[0]: _step(whole.staged, topology, counts[0])}
    for count in counts[1:]:
        share = (size // count - small.size) / (size - small.size)
        graph = between(small.staged, whole.staged, share)
        times[count] = _step(graph, topology, count) if graph is not None else float("inf")
    best = min(times, key=lambda count: (times[count], -count))
    if times[best] == float("inf") or best == counts[-1]:
        return small
    return whole if best == 1 else capture(training, size // best, gpu)


def _step(graph: OpGraph, topology: Topology, count: int) -> float:
    """Seconds of a step, roughly; infinite if no pipeline fits."""
    found = place_stages(graph, topology, Schedule(Rhythm.ONE_F_ONE_B, count), budget=0)
    return found.seconds if isinstance(found, Pipeline) else float("inf")


def parts(size: int, most: int) -> list[int]:
    """Numbers of micro-batches that divide a batch evenly, ascending.

    Of two samples or more each: BatchNorm can make nothing of one.
    """
    return [count for count in range(1, most + 1) if size % count == 0 and (size // count > 1 or count == 1)]


def best_pipeline(graph: OpGraph, topology: Topology, count: int) -> Pipeline | Infeasible:
    """Return the best pipeline: 1F1B, which keeps less in flight, or GPipe where that is clearly faster."""
    first, other = (
        place_stages(graph, topology, Schedule(one, count)) for one in (Rhythm.ONE_F_ONE_B, Rhythm.GPIPE)
    )
    if isinstance(first, Pipeline) and isinstance(other, Pipeline):
        return other if other.seconds * CLEARLY < first.seconds else first
    return other if isinstance(other, Pipeline) else first


def alone(graph: OpGraph, gpu: Gpu) -> tuple[float, int]:
    """Seconds and bytes of a step on one such GPU with all the memory that it needs."""
    topology = parse_devices.topology([gpu])
    one = simulate(graph, topology, [0] * len(graph.ops), ranks(graph.topological))
    return one.seconds, at_most(one.peaks[0], gpu.kind)
