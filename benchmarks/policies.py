"""Every policy through the production scheduler on the workloads that were published with Pollux.

    python -m benchmarks.policies [--workloads 6] [--policies fair grus]

Unlike `benchmarks.pollux`, which follows the rules of that paper's simulator, this is what `grus simulate`
does: the production `decide` with one queue on 16 x 4 GPUs, the batch that the user asked for, jobs that
report speed and progress, 30 s for new GPUs to do work, 1 s of stall for those who stay. `srtf`, `tiresias`
and `optimus` are told of every job what it will take; `fifo`, `fair` and `grus` are not.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

from benchmarks.machine import facts
from benchmarks.pollux_traces import WORKLOADS, data_folder, published, read_applications
from grus.model.queues import DEFAULT_QUEUE, Queue, Quota
from grus.scheduler.queues.policies import POLICIES, policy_named
from grus.simulator.cluster_spec import parse_nodes
from grus.simulator.events.decision_executor import Costs
from grus.simulator.outcome_metrics import SimulationOutcome, measure
from grus.simulator.simulator import Simulation
from grus.simulator.workload.pollux_jobs import PolluxCurves
from grus.simulator.workload.traces import read_trace

COSTS = Costs(start=30.0, resize=1.0)


def outcome(data: Path, curves: PolluxCurves, workload: int, policy: str) -> SimulationOutcome:
    """One workload under one policy."""
    with (data / "workloads" / f"workload-{workload}.csv").open() as file:
        works = read_trace(file, node_gpus=4, curves=lambda: curves)
    queue = Queue(name=DEFAULT_QUEUE, quota=Quota.of(64))
    chosen = policy_named(policy)
    return measure(Simulation(parse_nodes("16x4xT4"), [queue], works, costs=COSTS, policy=chosen).run())


def figures(data: Path, workloads: list[int], policies: list[str]) -> dict[str, float]:
    curves = PolluxCurves(read_applications(data).get)
    found: dict[str, float] = {}
    for policy in policies:
        done = [outcome(data, curves, workload, policy) for workload in workloads]
        found[f"{policy}_mean_jct_s"] = round(statistics.fmean(one.jct_mean for one in done), 1)
        found[f"{policy}_makespan_s"] = round(statistics.fmean(one.makespan for one in done))
        print(f"{policy}: mean {found[f'{policy}_mean_jct_s']} s", file=sys.stderr, flush=True)
    for rival in ("tiresias", "pollux"):
        times = published(data, rival)
        means = [statistics.fmean(times[workload].values()) for workload in workloads]
        found[f"published_{rival}_mean_jct_s"] = round(statistics.fmean(means), 1)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", type=int, nargs="+", default=list(WORKLOADS))
    parser.add_argument("--policies", nargs="+", default=list(POLICIES), choices=list(POLICIES))
    given = parser.parse_args()
    data = data_folder()
    if data is None:
        print("set GRUS_DATA to the folder with the public measurements", file=sys.stderr)
        return 1
    print(json.dumps(figures(data, given.workloads, given.policies) | facts()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
