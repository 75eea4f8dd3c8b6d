"""How fast jobs are taken and run, by a real server over HTTP. `python -m benchmarks.submit [--quick]`

`submits_per_s`: 16 clients with kept connections; every answer was sent after the job was on disk. The pool
is full, so that the jobs wait and only taking them is measured. `jobs_per_s`: 1,000 one-GPU jobs
(`/bin/true`) on 8 virtual GPUs, from the first submit until the last has ended.
"""

import argparse
import json
import sys
import time

from benchmarks.grus_server import GrusServer, submit_many
from benchmarks.machine import facts, wait_for

CLIENTS = 16
TRIVIAL = {"name": "trivial", "run": "/bin/true", "resources": {"gpu": 1}, "workdir": "/"}
FULL = {
    "name": "full",
    "run": ["/bin/sleep", "600"],
    "resources": {"gpu": 8},
    "launch": "per-gpu",
    "workdir": "/",
    "checkpoint": {"grace": "1s"},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    quick: bool = parser.parse_args().quick
    submits, jobs = (512, 100) if quick else (8192, 1000)
    figures = {
        "submits_per_s": round(submit_rate(submits), 1),
        "jobs_per_s": round(job_rate(jobs), 1),
        "submits": submits,
        "jobs": jobs,
        "clients": CLIENTS,
        **facts(),
    }
    print(json.dumps(figures))
    return 0


def submit_rate(count: int) -> float:
    """Durable submits per second while the pool is full."""
    with GrusServer() as server:
        full = server.submit(FULL)
        wait_for(lambda: full in server.live(phases=["running"]), 30, "the pool to be full")
        tell(f"submitting {count} jobs from {CLIENTS} clients …")
        load = submit_many(server, TRIVIAL, clients=CLIENTS, each=count // CLIENTS)
        if load.accepted != count:
            raise RuntimeError(f"only {load.accepted} of {count} submits were accepted")
        tell(f"{load.per_second:.0f} submits/s")
        return load.per_second


def job_rate(count: int) -> float:
    """Trivial jobs per second on 8 GPUs, submits included."""
    with GrusServer() as server:
        tell(f"running {count} trivial jobs on 8 virtual GPUs …")
        began = time.time()
        load = submit_many(server, TRIVIAL, clients=8, each=count // 8)
        wait_for(lambda: progress(server, began), 600, "all jobs to end", every=0.1)
        rate = load.accepted / (time.time() - began)
        tell(f"\n{rate:.0f} jobs/s")
        failed = len(server.live(phases=["failed", "stopped"]))
        if failed:
            raise RuntimeError(f"{failed} of the trivial jobs failed")
        return rate


def progress(server: GrusServer, began: float) -> bool:
    """Whether all have ended; says on stderr how long it has taken so far."""
    print(f"\r{time.time() - began:5.1f} s ", end="", file=sys.stderr, flush=True)
    return not server.live(limit=1)


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
