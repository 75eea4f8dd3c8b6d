"""How fast the simulator is: the 82,247 jobs of the Philly trace through the production scheduler.

    GRUS_DATA=… python -m benchmarks.philly [--first N] [--profile]

From the file to the result on one core: 640 GPUs on 80 nodes (on the trace's own 2,490 GPUs nothing ever
waits), one queue for each virtual cluster with a quota by its share of the GPU-hours, rigid jobs.
`mean_wait_s` is time without GPUs, pauses by the scheduler included; `decides` counts calls of the scheduler.
"""

import argparse
import cProfile
import json
import os
import pstats
import resource
import sys
import time
from pathlib import Path

from benchmarks.machine import facts
from grus.simulator.cluster_spec import parse_nodes, quotas_by_use
from grus.simulator.outcome_metrics import measure
from grus.simulator.simulator import Simulation
from grus.simulator.workload.traces import read_trace

POOL = "80x8xP100"


def trace_file() -> Path | None:
    folder = os.environ.get("GRUS_DATA")
    found = Path(folder) / "philly" / "philly_jobs.csv" if folder else None
    return found if found is not None and found.is_file() else None


def replay(path: Path, first: int | None) -> dict[str, object]:
    begin = time.perf_counter()
    with path.open(encoding="utf-8", newline="") as file:
        works = read_trace(file)[:first]
    nodes = parse_nodes(POOL)
    simulation = Simulation(nodes, quotas_by_use(works, nodes), works)
    result = simulation.run(lambda done, total: say(f"  {done} of {total} jobs"), every=10_000)
    outcome = measure(result)
    seconds = time.perf_counter() - begin
    return {
        "jobs": len(works),
        "jobs_per_s": round(len(works) / seconds, 1),
        "seconds": round(seconds, 2),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "decides": result.decides,
        "mean_wait_s": round(outcome.wait_mean, 1),
        "max_queue": result.longest_queue,
        "unfinished": outcome.unfinished,
        "preemptions": outcome.preemptions,
        "quota_violations": outcome.quota_violations,
        "utilisation": round(outcome.utilisation, 4),
        "mean_jct_s": round(outcome.jct_mean, 1),
    }


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=None, help="only so many jobs")
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    given = parser.parse_args()
    path = trace_file()
    if path is None:
        say("The Philly trace is not here: GRUS_DATA must name a folder with philly/philly_jobs.csv.")
        return
    if given.profile:
        profile = cProfile.Profile()
        figures = profile.runcall(replay, path, given.first)
        pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(30)
    else:
        figures = replay(path, given.first)
    print(json.dumps(figures | facts()))


if __name__ == "__main__":
    main()
