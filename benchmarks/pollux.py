"""Elastic allocation on the eight Pollux workloads, against Pollux's published completion times.

    GRUS_DATA=... python -m benchmarks.pollux [--gate] [--jobs N]

First the gate: Tiresias and Optimus are replayed, and every published completion time must come out
exactly; without it no elastic figure counts. `--gate` stops there. Then Grus's rule with more and more
knowledge, at last as Grus runs it. Ratios are of means over workloads, below 1 is better than Pollux;
`holdout_` ones are of workloads 5 to 8, parameters having been chosen on 1 to 4. `speedup_` figures say how
far predicted step times are off at sizes left out. The page on the rule is docs/elastic-allocation.md.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.pollux_elastic import Elastic, Knowing
from benchmarks.pollux_fairness import Alone, finish_time_fairness
from benchmarks.pollux_live import LiveReplay
from benchmarks.pollux_policies import Optimus, Tiresias
from benchmarks.pollux_replay import AskedBatch, Outcome, Policy, Running, replay
from benchmarks.pollux_sizes import doubling, one_left_out
from benchmarks.pollux_traces import WORKLOADS, data_folder, published, read_applications, read_workload
from grus.scheduler.elasticity.size_values import Rule
from grus.simulator.workload.pollux_applications import Application

HELD_OUT = (5, 6, 7, 8)

# Chosen on workloads 1 to 4; for NO_ORACLE the others had been seen by then (docs/elastic-allocation.md).
# Without lengths: weight by age, speed-ups evened out, one node to begin with.
NO_ORACLE = Knowing(Rule(offset=60, power=0.3, returns=0.8, horizon=150), first_size=4, ramp=4)
PROGRESS = Knowing(Rule(horizon=600), progress=True, first_size=2)
POOLED = replace(PROGRESS, pooling=True)
GRUS = replace(POOLED, rule=Rule(), stall=1.0, boot=30.0)

TICKING = {"no_oracle": NO_ORACLE, "progress": PROGRESS, "pooled": POOLED}
LIVE = {
    "grus": GRUS,
    "grus_stall_5": replace(GRUS, stall=5.0),
    "grus_stall_15": replace(GRUS, stall=15.0),
    "fixed_batch": replace(GRUS, fixed_batch=True),
}


def reference(name: str) -> Policy:
    return Tiresias() if name == "tiresias" else Optimus()


def differences(data: Path, apps: dict[str, Application], name: str, workload: int) -> int:
    """Jobs whose replayed completion time is not the published one."""
    submissions = read_workload(data, workload)
    jobs = [Running(job, apps[job.application], job.batch) for job in submissions]
    times = replay(jobs, reference(name), AskedBatch()).times
    expected = published(data, name)[workload]
    return sum(times.get(job) != time for job, time in expected.items()) + len(times.keys() - expected.keys())


def gate(data: Path, apps: dict[str, Application]) -> dict[str, object]:
    """How many of the published times the replay gives."""
    wrong = {
        name: sum(differences(data, apps, name, w) for w in WORKLOADS) for name in ("tiresias", "optimus")
    }
    jobs = sum(len(read_workload(data, w)) for w in WORKLOADS)
    return {"gate_exact": not any(wrong.values()), "gate_times": 2 * jobs, "gate_wrong": wrong}


def run(data: Path, apps: dict[str, Application], name: str, workload: int) -> Outcome:
    """One workload under one of the configurations."""
    jobs = [Running(job, apps[job.application]) for job in read_workload(data, workload)]
    if name in TICKING:
        policy = Elastic(TICKING[name])
        return replay(jobs, policy, policy)
    return LiveReplay(jobs, Elastic(LIVE[name]), LIVE[name].stall).run()


def run_one(task: tuple[Path, str, int]) -> Outcome:
    data, name, workload = task
    return run(data, read_applications(data), name, workload)


def run_all(data: Path, processes: int) -> dict[str, dict[int, Outcome]]:
    """Every configuration on every workload; each run is on its own, so their order does not matter."""
    tasks = [(data, name, workload) for name in (*TICKING, *LIVE) for workload in WORKLOADS]
    with ProcessPoolExecutor(processes) as pool:
        results = list(pool.map(run_one, tasks))
    found: dict[str, dict[int, Outcome]] = {}
    for (_, name, workload), result in zip(tasks, results, strict=True):
        found.setdefault(name, {})[workload] = result
    return found


def pollux(data: Path) -> dict[int, Outcome]:
    """Pollux's published times in the form of our own."""
    found = {}
    for workload, times in published(data, "pollux").items():
        submitted = {job.name: job.time for job in read_workload(data, workload)}
        found[workload] = Outcome(dict(times), max(submitted[name] + time for name, time in times.items()))
    return found


def ratio(ours: Mapping[int, Outcome], theirs: Mapping[int, Outcome], workloads: Iterable[int]) -> float:
    """Mean completion time of ours over theirs."""
    chosen = list(workloads)
    return round(sum(ours[w].mean for w in chosen) / sum(theirs[w].mean for w in chosen), 4)


def ratio_name(configuration: str) -> str:
    """The figure's name: what was varied comes last."""
    name, _, stall = configuration.partition("_stall_")
    return f"{name}_ratio_stall_{stall}" if stall else f"{name}_ratio"


def largest_unfairness(data: Path, outcomes: Mapping[int, Outcome], alone: Alone) -> float:
    """The worst finish-time fairness of any job of any workload."""
    return round(
        max(
            max(finish_time_fairness(read_workload(data, workload), outcome.times, alone).values())
            for workload, outcome in outcomes.items()
        ),
        3,
    )


def p99(outcomes: Mapping[int, Outcome]) -> float:
    """The 99th percentile of completion times, mean over workloads."""
    return float(np.mean([np.percentile(list(one.times.values()), 99) for one in outcomes.values()]))


def makespan(outcomes: Mapping[int, Outcome]) -> float:
    return float(np.mean([one.makespan for one in outcomes.values()]))


def elastic(data: Path, apps: dict[str, Application], processes: int) -> dict[str, object]:
    ours, theirs = run_all(data, processes), pollux(data)
    figures: dict[str, object] = {
        ratio_name(name): ratio(outcomes, theirs, WORKLOADS) for name, outcomes in ours.items()
    }
    figures |= {f"holdout_{name}_ratio": ratio(ours[name], theirs, HELD_OUT) for name in (*TICKING, "grus")}
    alone, grus = Alone(apps), ours["grus"]
    return figures | {
        "p99_ratio": round(p99(grus) / p99(theirs), 4),
        "makespan_ratio": round(makespan(grus) / makespan(theirs), 4),
        "max_ftf": largest_unfairness(data, grus, alone),
        "pollux_max_ftf": largest_unfairness(data, theirs, alone),
        "grus_mean_s": round(float(np.mean([one.mean for one in grus.values()])), 1),
        "speedup_median_error": round(one_left_out(apps), 4),
        "speedup_doubling_error": round(doubling(apps), 4),
        "pollux_mean_s": round(float(np.mean([one.mean for one in theirs.values()])), 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gate", action="store_true", help="only check the replay against published times")
    parser.add_argument("--jobs", type=int, default=2, help="processes to use")
    arguments = parser.parse_args()
    data = data_folder()
    if data is None:
        print("set GRUS_DATA to the folder that holds pollux/traces and pollux/workloads", file=sys.stderr)
        return 2
    apps = read_applications(data)
    figures = gate(data, apps)
    if figures["gate_exact"] and not arguments.gate:
        figures |= elastic(data, apps, arguments.jobs)
    print(json.dumps(figures))
    return 0 if figures["gate_exact"] else 1


if __name__ == "__main__":
    sys.exit(main())
