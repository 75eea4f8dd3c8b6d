"""The proved bound of `allocate`, on random histories: nobody waits longer, whatever arrives and ends."""

import random
from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.pollux_allocation import allocate
from grus.scheduler.elasticity.size_values import Candidate, Rule

GPUS = 8
EVERY = 45.0  # Decisions come at least this often.
ROUNDS = 120
SLACK = 1e-6


@dataclass(slots=True)
class Job:
    """One job of a history; `since` is when it began to wait, or last started."""

    name: str
    sizes: tuple[int, ...]
    length: float
    since: float
    size: int = 0
    due: float | None = None  # the bound, from the moment its patience ended


def candidate(job: Job, now: float) -> Candidate[str]:
    return Candidate(
        key=job.name,
        sizes=job.sizes,
        speeds=tuple(float(size) for size in job.sizes),
        length=job.length,
        present=job.size,
        waited=0.0 if job.size else now - job.since,
        ran=now - job.since if job.size else 0.0,
    )


def set_due(jobs: list[Job], now: float, rule: Rule) -> None:
    """The bound of everyone whose patience has just ended, by how many have waited as long or longer."""
    line = sorted((job for job in jobs if not job.size and now - job.since > rule.patience), key=since)
    for job in line:
        if job.due is None:
            before = sum(other.since <= job.since for other in line)
            job.due = job.since + rule.patience + before * (rule.turn + EVERY)


def since(job: Job) -> float:
    return job.since


def apply(jobs: list[Job], sizes: dict[str, int], now: float) -> None:
    for job in jobs:
        if bool(job.size) != bool(sizes[job.name]):
            job.since, job.due = now, None
        job.size = sizes[job.name]


def arrivals(rng: random.Random, now: float, load: float) -> list[Job]:
    """Mostly short narrow jobs, which weigh most, and now and then a long wide one."""
    made: list[Job] = []
    while rng.random() < load:
        wide = rng.random() < 0.2
        smallest = rng.choice((4, GPUS)) if wide else rng.choice((1, 1, 2))
        sizes = tuple(size for size in (1, 2, 4, GPUS) if size >= smallest)
        length = rng.choice((1e5, 1e7)) if wide else rng.uniform(1, 100)
        made.append(Job(f"{now:g}/{len(made)}", sizes, length, now))
    return made


@settings(deadline=None)  # how long it takes says how busy the machine is
@given(st.integers(0, 2**32), st.floats(0.2, 0.8), st.floats(0, 900), st.floats(1, 300))
@example(seed=1, load=0.8, patience=0.0, turn=1.0)
def test_no_job_waits_longer_than_the_bound(seed: int, load: float, patience: float, turn: float) -> None:
    rng, now = random.Random(seed), 0.0
    rule = Rule(offset=1.0, power=1.0, patience=patience, turn=turn)
    jobs: list[Job] = []
    for _ in range(ROUNDS):
        now += rng.uniform(1.0, EVERY)
        jobs = [job for job in jobs if not (job.size and rng.random() < 0.1)]
        jobs += arrivals(rng, now, load if len(jobs) < 40 else 0.0)
        set_due(jobs, now, rule)
        assert not [job for job in jobs if job.due is not None and now > job.due + SLACK]
        apply(jobs, allocate([candidate(job, now) for job in jobs], GPUS, rule), now)
