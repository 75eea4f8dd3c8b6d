"""How good splits of a model over devices are, and how fast they are found.

    [GRUS_DATA=…] python -m benchmarks.placement [--quick]

Captured graphs: Inception-v3, a Transformer, GPT-2 and ResNet-50, forward and backward pass, on 2–8 GPUs of
two types with several memory caps, as one step and as pipelines of 8 micro-batches (GPipe and 1F1B). Profiled
graphs (with GRUS_DATA): the latency graphs of dnn-partitioning on 2–14 devices with several memory caps, and
its throughput graphs, the largest load of a device beside the expert's where there is one. One simulator for
all placers.

`checked` is the share of answers, those of the single placers included, in which the independent checker
finds no fault. `median_ratio_to_bound` is over the steps of the portfolio on captured graphs and 2 devices;
`…_captured` on any number of them, `…_profiled` on the latency graphs, which send for much longer than they
compute. `median_load_to_bound` is over the loads of throughput graphs, `median_rounds_to_bound` over
pipelines of micro-batches on captured graphs. `worst_ratio_to_etf` compares the
portfolio with m-ETF, `worst_ratio_to_expert` the load with the expert's; `etf_unplaced` counts cases that
only others could place. `infeasible` counts cases without an answer, each with the memory that would do,
which is tried. `max_seconds` is the CPU time of the slowest answer that is a placement, coarsening included;
`max_operators` the most operators of a graph.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.machine import facts
from benchmarks.placement_graphs import Profiled, folder, read_all
from benchmarks.placement_loads import LoadPipeline, describe, load_faults, place_pipeline
from benchmarks.placement_models import TRAININGS
from grus.estimation.gpus import GpuKind, find
from grus.partition.capture_profile import capture
from grus.partition.execution.placement_plan import Infeasible, Pipeline, Plan, Rhythm, Schedule
from grus.partition.graph import OpGraph
from grus.partition.parse_devices import Gpu, topology
from grus.partition.pipelining.pipeline_search import place_stages
from grus.partition.portfolio_planner import answers, place
from grus.partition.topology import Topology, alike
from grus.partition.verification.placement_check import faults, pipeline_faults

GPUS = ("RTX3060", "A100")
"""Joined by PCIe, and by NVLink."""
CAPTURED, PROFILED = (2, 4, 8), (2, 4, 8, 14)
"""Numbers of devices."""
ROOM = (1.2, 1.5, 3.0)
"""All devices together have so much more than the model needs."""
MICRO_BATCHES = 8


@dataclass(slots=True)
class Tally:
    """What the cases so far gave."""

    right: list[bool] = field(default_factory=list)
    bound: dict[str, list[float]] = field(default_factory=dict)
    """Of steps, by kind of case."""
    load: list[float] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)
    etf: list[float] = field(default_factory=list)
    expert: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    operators: list[int] = field(default_factory=list)
    placers: dict[str, list[float]] = field(default_factory=dict)
    """Each placer's step against the portfolio's."""
    infeasible: int = 0
    etf_unplaced: int = 0


def caps(graph: OpGraph, like: Topology, counts: Sequence[int]) -> Iterator[Topology]:
    """The devices of another topology, more or fewer, with other memories."""
    total = sum(op.permanent for op in graph.ops)
    link = like.links[0][1]
    for count in counts:
        for room in ROOM:
            yield alike([round(total * room / count)] * count, link)


def step(graph: OpGraph, devices: Topology, tally: Tally, kinds: Sequence[str]) -> str:
    """One step on these devices; returns a line about it."""
    begin = time.process_time()
    best = place(graph, devices)
    seconds = time.process_time() - begin
    if isinstance(best, Infeasible):
        tally.infeasible += 1
        raised = devices.raised(best.least)
        enough = place(graph, raised, effort=0)
        tally.right.append(isinstance(enough, Plan) and not faults(graph, raised, enough))
        return f"no answer: {best}"
    tally.seconds.append(seconds)
    tally.operators.append(len(graph.ops))
    tally.right.append(not faults(graph, devices, best))
    for kind in kinds:
        tally.bound.setdefault(kind, []).append(best.seconds / best.bound)
    single = answers(graph, devices)
    for name, plan in single.items():
        tally.right.append(not faults(graph, devices, plan))
        tally.placers.setdefault(name, []).append(plan.seconds / best.seconds)
    if "etf" in single:
        tally.etf.append(best.seconds / single["etf"].seconds)
    else:
        tally.etf_unplaced += 1
    steps = ", ".join(f"{name} {plan.seconds * 1e3:.1f}" for name, plan in single.items())
    return f"{best.seconds * 1e3:.1f} ms, bound {best.bound * 1e3:.1f} ({steps}) in {seconds:.2f} s"


def rounds(graph: OpGraph, devices: Topology, schedule: Schedule, tally: Tally) -> str:
    """A step of micro-batches; returns a line about it."""
    begin = time.process_time()
    found = place_stages(graph, devices, schedule)
    seconds = time.process_time() - begin
    if isinstance(found, Infeasible):
        tally.infeasible += 1
        raised = devices.raised(found.least)
        enough = place_stages(graph, raised, schedule, budget=0)
        tally.right.append(isinstance(enough, Pipeline) and not pipeline_faults(graph, raised, enough))
        return f"no answer: {found}"
    tally.seconds.append(seconds)
    tally.right.append(not pipeline_faults(graph, devices, found))
    tally.rounds.append(found.seconds / found.bound)
    stages = f"{len(found.stages)} stages, {found.seconds * 1e3:.1f} ms, bound {found.bound * 1e3:.1f}"
    return f"{stages} in {seconds:.2f} s"


def load(one: Profiled, tally: Tally) -> str:
    """The file's own devices, many batches in flight; returns a line about it."""
    devices = alike([one.memory] * one.devices, one.link)
    begin = time.process_time()
    found = place_pipeline(one.graph, devices)
    seconds = time.process_time() - begin
    if not isinstance(found, LoadPipeline):
        tally.infeasible += 1
        tally.right.append(False)
        return f"no answer: {found}"
    tally.seconds.append(seconds)
    tally.right.append(not load_faults(one.graph, devices, found))
    tally.load.append(found.slowest / found.bound)
    line = f"largest load {found.slowest * 1e3:.2f} ms, bound {found.bound * 1e3:.2f}"
    if one.expert is not None:
        expert = describe(one.graph, devices, one.expert, "expert")
        tally.expert.append(found.slowest / expert.slowest)
        line += f", expert {expert.slowest * 1e3:.2f}"
    return f"{line} in {seconds:.2f} s"


def captured(kind: GpuKind, quick: bool, tally: Tally) -> None:
    """All models on GPUs of one type."""
    pair = topology([Gpu(kind, kind.memory)] * 2)
    for name, make in TRAININGS.items():
        training = make()
        found = capture(training, training.size, kind)
        graph = found.graph
        for devices in caps(graph, pair, CAPTURED[:1] if quick else CAPTURED):
            kinds = ("captured", "two") if len(devices.devices) == 2 else ("captured",)
            say(f"{name}, {_many(devices)}: {step(graph, devices, tally, kinds)}")
        for count in CAPTURED[:1] if quick else CAPTURED[:2]:
            devices = alike([kind.room] * count, pair.links[0][1])
            for rhythm in Rhythm:
                line = rounds(found.staged, devices, Schedule(rhythm, MICRO_BATCHES), tally)
                say(f"{name}, {rhythm}, {_many(devices)}: {line}")


def profiled(quick: bool, tally: Tally) -> bool:
    """The graphs of dnn-partitioning, if they are there."""
    root = folder()
    if root is None:
        return False
    for one in read_all(root, "latency"):
        own = alike([one.memory] * one.devices, one.link)
        for devices in (own, *caps(one.graph, own, PROFILED[:1] if quick else PROFILED)):
            say(f"{one.name}, {_many(devices)}: {step(one.graph, devices, tally, ('profiled',))}")
    for one in read_all(root, "throughput"):
        say(f"{one.name}: {load(one, tally)}")
    return True


def figures(tally: Tally) -> dict[str, object]:
    ratios = {
        "median_ratio_to_bound": tally.bound["two"],
        "median_ratio_to_bound_captured": tally.bound["captured"],
        "median_ratio_to_bound_profiled": tally.bound.get("profiled", []),
        "median_rounds_to_bound": tally.rounds,
        "median_load_to_bound": tally.load,
        "median_ratio_to_etf": tally.etf,
    } | {f"{name}_to_portfolio": ratios for name, ratios in sorted(tally.placers.items())}
    return {
        "answers": len(tally.right),
        "checked": sum(tally.right) / len(tally.right),
        **{name: round(statistics.median(values), 4) for name, values in ratios.items() if values},
        "worst_ratio_to_bound": round(max(tally.bound["two"]), 4),
        "worst_ratio_to_expert": round(max(tally.expert), 4) if tally.expert else None,
        "worst_ratio_to_etf": round(max(tally.etf), 4),
        "etf_unplaced": tally.etf_unplaced,
        "infeasible": tally.infeasible,
        "max_seconds": round(max(tally.seconds), 3),
        "max_operators": max(tally.operators),
    }


def _many(devices: Topology) -> str:
    return f"{len(devices.devices)} × {devices.largest / 1e9:.2f} GB"


def say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two devices only, besides the files' own")
    given = parser.parse_args()
    tally = Tally()
    for name in GPUS[:1] if given.quick else GPUS:
        captured(find(name), given.quick, tally)
    if not profiled(given.quick, tally):
        say("GRUS_DATA names no folder with dnn-partitioning: captured graphs only")
    print(json.dumps({**figures(tally), **facts()}))


if __name__ == "__main__":
    main()
