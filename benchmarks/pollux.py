"""Elastic allocation on the eight Pollux workloads, against Pollux's published completion times.

    GRUS_DATA=... python -m benchmarks.pollux [--gate]

First the gate: Tiresias and Optimus are replayed, and every published completion time must come out exactly;
without it no elastic figure counts. `--gate` stops there.
"""

import argparse
import json
import sys
from pathlib import Path

from benchmarks.pollux_policies import Optimus, Tiresias
from benchmarks.pollux_replay import AskedBatch, Policy, Running, replay
from benchmarks.pollux_traces import (
    WORKLOADS,
    Application,
    data_folder,
    published,
    read_applications,
    read_workload,
)


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "--gate", action="store_true", help="only check the replay against the published times"
    )
    arguments = parser.parse_args()
    data = data_folder()
    if data is None:
        print("set GRUS_DATA to the folder that holds pollux/traces and pollux/workloads", file=sys.stderr)
        return 2
    figures = gate(data, read_applications(data))
    if figures["gate_exact"] and not arguments.gate:
        pass
    print(json.dumps(figures))
    return 0 if figures["gate_exact"] else 1


if __name__ == "__main__":
    sys.exit(main())
