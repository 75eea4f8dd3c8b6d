"""How good splits of a model over devices are, and how fast they are found.

    GRUS_DATA=… python -m benchmarks.placement [--quick]

The latency graphs of dnn-partitioning on 2–14 devices with several memory caps: the step of each placer and
of the portfolio, by one simulator. Its throughput graphs: the largest load of a device, beside the expert's
where there is one. Captured graphs are not among them yet.

`checked` is the share of answers, those of the single placers included, in which the independent checker
finds no fault. `median_ratio_to_bound` is over the steps of the portfolio; the bound knows little of forced
transfers, and these graphs send for much longer than they compute. `median_load_to_bound` is over the
pipelines. `worst_ratio_to_etf` compares the portfolio with m-ETF, `worst_ratio_to_expert` the pipeline with
the expert; `etf_unplaced` counts cases that only others could place. `infeasible` counts cases without an
answer, each with the memory that would do, which is tried. `max_seconds` is the CPU time of the slowest
answer that is a placement.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.machine import facts
from benchmarks.placement_graphs import Profiled, folder, read_all
from grus.partition.check import faults, pipeline_faults
from grus.partition.graph import OpGraph
from grus.partition.pipeline import describe, place_pipeline
from grus.partition.plan import Infeasible, Pipeline, Plan
from grus.partition.portfolio import answers, place
from grus.partition.topology import Topology, alike

DEVICES = (2, 4, 8, 14)
ROOM = (1.2, 1.5, 3.0)
"""All devices together have so much more than the model needs."""


@dataclass(slots=True)
class Tally:
    """What the cases so far gave."""

    right: list[bool] = field(default_factory=list)
    bound: list[float] = field(default_factory=list)
    load: list[float] = field(default_factory=list)
    etf: list[float] = field(default_factory=list)
    expert: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    placers: dict[str, list[float]] = field(default_factory=dict)
    """Each placer's step against the portfolio's."""
    infeasible: int = 0
    etf_unplaced: int = 0


def cases(one: Profiled, quick: bool) -> Iterator[Topology]:
    """The file's own devices, then others."""
    yield alike([one.memory] * one.devices, one.link)
    total = sum(op.permanent for op in one.graph.ops)
    for count in DEVICES[:1] if quick else DEVICES:
        for room in ROOM:
            yield alike([round(total * room / count)] * count, one.link)


def step(graph: OpGraph, topology: Topology, tally: Tally) -> str:
    """One step on these devices; returns a line about it."""
    begin = time.process_time()
    best = place(graph, topology)
    seconds = time.process_time() - begin
    if isinstance(best, Infeasible):
        tally.infeasible += 1
        raised = topology.raised(best.least)
        enough = place(graph, raised, effort=0)
        tally.right.append(isinstance(enough, Plan) and not faults(graph, raised, enough))
        return f"no answer: {best}"
    tally.seconds.append(seconds)
    tally.right.append(not faults(graph, topology, best))
    tally.bound.append(best.seconds / best.bound)
    single = answers(graph, topology)
    for name, plan in single.items():
        tally.right.append(not faults(graph, topology, plan))
        tally.placers.setdefault(name, []).append(plan.seconds / best.seconds)
    if "etf" in single:
        tally.etf.append(best.seconds / single["etf"].seconds)
    else:
        tally.etf_unplaced += 1
    steps = ", ".join(f"{name} {plan.seconds * 1e3:.1f}" for name, plan in single.items())
    return f"{best.seconds * 1e3:.1f} ms, bound {best.bound * 1e3:.1f} ({steps}) in {seconds:.2f} s"


def pipeline(one: Profiled, tally: Tally) -> str:
    """The file's own devices, many batches in flight; returns a line about it."""
    topology = alike([one.memory] * one.devices, one.link)
    begin = time.process_time()
    found = place_pipeline(one.graph, topology)
    seconds = time.process_time() - begin
    if not isinstance(found, Pipeline):
        tally.infeasible += 1
        tally.right.append(False)
        return f"no answer: {found}"
    tally.seconds.append(seconds)
    tally.right.append(not pipeline_faults(one.graph, topology, found))
    tally.load.append(found.slowest / found.bound)
    line = f"largest load {found.slowest * 1e3:.2f} ms, bound {found.bound * 1e3:.2f}"
    if one.expert is not None:
        expert = describe(one.graph, topology, one.expert, "expert")
        tally.expert.append(found.slowest / expert.slowest)
        line += f", expert {expert.slowest * 1e3:.2f}"
    return f"{line} in {seconds:.2f} s"


def figures(tally: Tally) -> dict[str, float]:
    return {
        "answers": len(tally.right),
        "checked": sum(tally.right) / len(tally.right),
        "median_ratio_to_bound": round(statistics.median(tally.bound), 4),
        "median_load_to_bound": round(statistics.median(tally.load), 4),
        "worst_ratio_to_expert": round(max(tally.expert), 4),
        "worst_ratio_to_etf": round(max(tally.etf), 4),
        "median_ratio_to_etf": round(statistics.median(tally.etf), 4),
        "etf_unplaced": tally.etf_unplaced,
        "infeasible": tally.infeasible,
        "max_seconds": round(max(tally.seconds), 3),
    } | {
        f"{name}_to_portfolio": round(statistics.median(ratios), 4)
        for name, ratios in sorted(tally.placers.items())
    }


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two devices only, besides the files' own")
    given = parser.parse_args()
    root = folder()
    if root is None:
        print(json.dumps({"skipped": "GRUS_DATA names no folder with dnn-partitioning"}))
        return
    tally = Tally()
    for one in read_all(root, "latency"):
        for topology in cases(one, given.quick):
            devices = f"{len(topology.devices)} × {topology.largest / 1e9:.2f} GB"
            say(f"  {one.name}, {devices}: {step(one.graph, topology, tally)}")
    for one in read_all(root, "throughput"):
        say(f"  {one.name}: {pipeline(one, tally)}")
    print(json.dumps({**figures(tally), **facts()}))


if __name__ == "__main__":
    main()
