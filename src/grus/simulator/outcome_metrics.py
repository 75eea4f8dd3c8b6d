"""Figures of a simulation for people: completion times of jobs, use of the pool, fairness.

Every figure is one small function of a `Result`, and its docstring is its definition. Seconds and GPU-hours;
jobs that did not end count in `unfinished` and in the use of the pool only.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate

from grus.simulator.events.run_results import JobOutcome, Result

SHORTEST = 10.0
"""Seconds: shorter jobs count as this long in the slowdown, or a job of a second would rule the mean."""
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class QueueOutcome:
    """One queue's part."""

    queue: str
    jobs: int
    jct_mean: float
    wait_mean: float
    wait_p99: float
    slowdown_mean: float
    gpu_hours: float
    preemptions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOutcome:
    """One simulation in figures."""

    jobs: int
    unfinished: int
    gpus: float
    jct_mean: float
    """Job completion time: from submission to the end."""
    jct_p50: float
    jct_p99: float
    makespan: float
    """Seconds from the first submission to the last end."""
    wait_mean: float
    """Time without GPUs, pauses by the scheduler included."""
    wait_p50: float
    wait_p99: float
    longest_queue: int
    utilisation: float
    """Held GPU-time / what the healthy pool had to give."""
    useful: float
    """The same with the part of it only in which lasting work was done, and no more of it than the same work
    needs at the requested size.
    """
    fragmentation: float
    """Part of the time of idle GPUs that these stood on nodes partly used by others."""
    slowdown_mean: float
    """Completion time / time alone at the requested size."""
    slowdown_p99: float
    fairness_mean: float
    """Finish-time fairness: completion time / time alone on an equal part of the pool; above 1 is a loss."""
    fairness_p99: float
    fairness_max: float
    preemptions: int
    resizes: int
    faults: int
    lost_gpu_hours: float
    """Work done twice, because it was lost with a fault or a kill."""
    quota_violations: int
    decides: int
    queues: tuple[QueueOutcome, ...] = ()

    def as_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTimes:
    """Completion and waiting of ended jobs as they were, in seconds."""

    jobs: int
    jct_mean: float
    jct_p50: float
    jct_p99: float
    wait_mean: float
    wait_p50: float
    wait_p99: float
    makespan: float
    """Seconds from the first submission to the last end."""
    utilisation: float
    """GPU-time that these jobs held / GPU-time of the present pool during the makespan."""


def measure(result: Result) -> SimulationOutcome:
    """All figures of one simulation."""
    done = [ran for ran in result.jobs if ran.ended is not None]
    times = [completion(ran) for ran in done]
    waits = [ran.waited for ran in done]
    slow = [slowdown(ran) for ran in done]
    fair = fairness(result, done)
    return SimulationOutcome(
        jobs=len(result.jobs),
        unfinished=len(result.jobs) - len(done),
        gpus=result.gpus,
        jct_mean=mean(times),
        jct_p50=percentile(times, 0.5),
        jct_p99=percentile(times, 0.99),
        makespan=makespan(done),
        wait_mean=mean(waits),
        wait_p50=percentile(waits, 0.5),
        wait_p99=percentile(waits, 0.99),
        longest_queue=result.longest_queue,
        utilisation=_part(sum(ran.held for ran in result.jobs), result.offered),
        useful=_part(sum(ran.useful for ran in result.jobs), result.offered),
        fragmentation=_part(result.scattered, result.idle),
        slowdown_mean=mean(slow),
        slowdown_p99=percentile(slow, 0.99),
        fairness_mean=mean(fair),
        fairness_p99=percentile(fair, 0.99),
        fairness_max=max(fair, default=0.0),
        preemptions=sum(ran.pauses for ran in result.jobs),
        resizes=sum(ran.resizes for ran in result.jobs),
        faults=sum(ran.faults for ran in result.jobs),
        lost_gpu_hours=sum(ran.lost for ran in result.jobs) / HOUR,
        quota_violations=len(result.violations),
        decides=result.decides,
        queues=tuple(_of_queues(done)),
    )


def completion(ran: JobOutcome) -> float:
    assert ran.ended is not None
    return ran.ended - ran.work.submit


def makespan(done: Sequence[JobOutcome]) -> float:
    ends = [ran.ended for ran in done if ran.ended is not None]
    return max(ends) - min(ran.work.submit for ran in done) if ends else 0.0


def slowdown(ran: JobOutcome) -> float:
    """Completion time / duration at the requested size, both at least `SHORTEST`."""
    return max(completion(ran), SHORTEST) / max(ran.work.duration, SHORTEST)


def fairness(result: Result, done: Sequence[JobOutcome]) -> list[float]:
    """Fairness of each ended job: completion time / its time alone on pool / N GPUs, N the mean number of
    jobs that were there (waiting or running) during its life.
    """
    active = Active(result.jobs, result.end)
    rho = []
    for ran in done:
        assert ran.ended is not None
        taken = completion(ran)
        if taken <= 0.0:
            rho.append(1.0)
            continue
        others = max(1.0, active.between(ran.work.submit, ran.ended) / taken)
        rho.append(taken / ran.work.alone(result.gpus / others))
    return rho


class Active:
    """Number of jobs present, integrated over time: job-seconds between two moments in O(log n)."""

    def __init__(self, jobs: Iterable[JobOutcome], end: float) -> None:
        steps = [(ran.work.submit, 1) for ran in jobs]
        steps += [(end if ran.ended is None else ran.ended, -1) for ran in jobs]
        steps.sort()
        self._times = [at for at, _ in steps]
        self._counts = list(accumulate(step for _, step in steps))
        areas = (
            count * (after - at)
            for count, at, after in zip(self._counts, self._times, self._times[1:], strict=False)
        )
        self._areas = [0.0, *accumulate(areas)]

    def between(self, begin: float, end: float) -> float:
        return self._until(end) - self._until(begin)

    def _until(self, at: float) -> float:
        index = bisect_right(self._times, at) - 1
        if index < 0:
            return 0.0
        return self._areas[index] + self._counts[index] * (at - self._times[index])


def _of_queues(done: Sequence[JobOutcome]) -> list[QueueOutcome]:
    by_name: dict[str, list[JobOutcome]] = {}
    for ran in done:
        by_name.setdefault(ran.work.queue, []).append(ran)
    return [
        QueueOutcome(
            queue=name,
            jobs=len(jobs),
            jct_mean=mean([completion(ran) for ran in jobs]),
            wait_mean=mean([ran.waited for ran in jobs]),
            wait_p99=percentile([ran.waited for ran in jobs], 0.99),
            slowdown_mean=mean([slowdown(ran) for ran in jobs]),
            gpu_hours=sum(ran.held for ran in jobs) / HOUR,
            preemptions=sum(ran.pauses for ran in jobs),
        )
        for name, jobs in sorted(by_name.items())
    ]


def mean(values: Sequence[float]) -> float:
    """The mean; 0 of nothing. The sum is exact, so that the order of jobs does not matter."""
    return math.fsum(values) / len(values) if values else 0.0


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that at least this part of them does not exceed; 0 of nothing."""
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)]


def _part(amount: float, whole: float) -> float:
    return amount / whole if whole > 0 else 0.0
