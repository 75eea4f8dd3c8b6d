"""How long one decision takes at 1,000 and 10,000 GPUs with ten times as many jobs waiting.

    python -m benchmarks.cycle [--quick]

*Full backlog*: an empty pool and everything waiting, so that one `decide` fills the pool. *One change*: the
pool is full, one job ends, and the time runs from that event to the decisions being recorded in the snapshot.
*Elastic*: see `benchmarks.cycle_elastic`.
"""

import argparse
import json
import random
import statistics
import sys
import time
from dataclasses import replace

from benchmarks.machine import facts
from grus.model.identifiers import DeviceId, JobId, NodeId, QueueName, UserName
from grus.model.jobs import Job, Phase, Spec
from grus.model.nodes import Device, Node
from grus.model.queues import Queue, Quota
from grus.model.resources import Range, Replica, Request, Role
from grus.scheduler.cycle import decide
from grus.scheduler.decisions import Decisions, Pause, Start
from grus.scheduler.explain import explain
from grus.scheduler.state.snapshot import Snapshot

PER_NODE = 8
QUEUES = 50
USERS = 4
NOW = 1e6
SIZES = (1, 1, 1, 1, 1, 2, 2, 4, 8, 16)


def a_pool(gpus: int) -> list[Node]:
    return [
        Node(
            id=NodeId(f"node-{n:05}"),
            devices=tuple(
                Device(id=DeviceId(f"node-{n:05}/{i}"), type="A100", memory=80 << 30, island=i // 4)
                for i in range(PER_NODE)
            ),
        )
        for n in range(gpus // PER_NODE)
    ]


def a_job(number: int, rng: random.Random) -> Job:
    size = rng.choice(SIZES)
    request = Request((Role("worker", Range(size, size), Replica()),), one_node=size <= PER_NODE)
    queue = QueueName(f"team-{rng.randrange(QUEUES):02}")
    spec = Spec(name=f"job-{number}", queue=queue, run=("true",), request=request)
    user = UserName(f"user-{rng.randrange(USERS)}")
    return Job(id=JobId(f"j{number:07}"), spec=spec, user=user, submitted_at=NOW - 3600.0 * rng.random())


def a_snapshot(gpus: int, seed: int = 1) -> Snapshot:
    rng = random.Random(seed)
    quota = gpus / QUEUES * 0.8
    queues = [
        Queue(name=QueueName(f"team-{i:02}"), quota=Quota.of(int(quota)), weight=1.0 + i % 3)
        for i in range(QUEUES)
    ]
    return Snapshot(a_pool(gpus), queues, (a_job(i, rng) for i in range(10 * gpus)))


def record(snapshot: Snapshot, decisions: Decisions, now: float) -> None:
    """What the control loop writes down of the decisions."""
    for action in decisions.actions:
        job = snapshot.job(action.job)
        assert job is not None
        if isinstance(action, Start):
            snapshot.put(
                replace(job, phase=Phase.RUNNING, seats=action.seats, started_at=now, attempt=1, generation=1)
            )
        elif isinstance(action, Pause):
            snapshot.put(replace(job, phase=Phase.PAUSED, seats=()))


def full_backlog(gpus: int, rounds: int) -> tuple[float, Snapshot]:
    """Median milliseconds of one decide that fills an empty pool, and the snapshot with it carried out."""
    say(f"{gpus} GPUs, {10 * gpus} jobs waiting: building")
    snapshot = a_snapshot(gpus)
    times = []
    for number in range(rounds):
        begin = time.perf_counter()
        decisions = decide(snapshot, NOW)
        times.append(time.perf_counter() - begin)
        say(f"  decide {number + 1}/{rounds}: {times[-1] * 1e3:.0f} ms, {len(decisions.actions)} starts")
    record(snapshot, decisions, NOW)
    return statistics.median(times) * 1e3, snapshot


def one_change(snapshot: Snapshot, rounds: int) -> tuple[float, float]:
    """Median and worst milliseconds from a job's end to the recorded decisions, on a full pool."""
    now = NOW + 3600
    record(snapshot, decide(snapshot, now), now)
    rng = random.Random(2)
    running = sorted(entry.id for entry in snapshot.holders())
    times = []
    for job in rng.sample(running, rounds):
        now += 1.0
        begin = time.perf_counter()
        ended = snapshot.job(job)
        if ended is None or ended.phase is not Phase.RUNNING:
            continue
        snapshot.put(replace(ended, phase=Phase.SUCCEEDED, seats=()))
        record(snapshot, decide(snapshot, now), now)
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3, max(times) * 1e3


def explaining(snapshot: Snapshot, rounds: int) -> float:
    """The 99th percentile of one explanation, in milliseconds."""
    rng = random.Random(3)
    waiting = sorted(entry.id for entry in snapshot.waiting())
    times = []
    for job in rng.sample(waiting, rounds):
        begin = time.perf_counter()
        explain(snapshot, job, NOW + 7200)
        times.append(time.perf_counter() - begin)
    times.sort()
    return times[int(0.99 * (len(times) - 1))] * 1e3


def elastic_figures(quick: bool) -> dict[str, float]:
    from benchmarks.cycle_elastic import SIZES, elastic_figures  # it builds on the pool of this page

    return elastic_figures(SIZES[:2] if quick else SIZES, 5 if quick else 50)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1,000 GPUs only, few rounds")
    quick = parser.parse_args().quick
    result: dict[str, object] = {}
    small, snapshot = full_backlog(1000, 2 if quick else 5)
    result["decide_ms_1000_gpus"] = round(small, 1)
    if not quick:
        large, snapshot = full_backlog(10_000, 3)
        result["decide_ms_10000_gpus"] = round(large, 1)
    change, worst = one_change(snapshot, 20 if quick else 200)
    result["cycle_ms_one_change"] = round(change, 2)
    result["cycle_ms_one_change_max"] = round(worst, 2)
    result["explain_ms_p99"] = round(explaining(snapshot, 20 if quick else 200), 2)
    result |= elastic_figures(quick)
    result |= facts()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
