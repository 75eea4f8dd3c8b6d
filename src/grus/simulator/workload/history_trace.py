"""Ended jobs of a pool as one value that every report and simulation starts from, and its form on the wire.

The server makes a `History` of its own records with one user's rights. `grus report`, `grus simulate` and the
dashboard all read this value: none of them measures a duration or a cost of its own, so they agree.

A job's `seconds` begin when its worker is up. They contain what its program needs to begin (the interpreter,
imports, loading a checkpoint), so a simulated start adds only the time that the server measured from the
decision to the worker. A general start cost would count the same seconds twice.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

import msgspec

from grus.model.errors import BadInput, Mistake
from grus.model.jobs import Job, Spec
from grus.model.nodes import Health, Node
from grus.model.queues import Queue
from grus.model.resources import Request
from grus.scheduler.state.snapshot import Snapshot
from grus.simulator.cluster_spec import count_gpus
from grus.simulator.events.decision_executor import Costs
from grus.simulator.outcome_metrics import MeasuredTimes, mean, percentile
from grus.simulator.recorded.decision_recorder import LEFT_OUT
from grus.simulator.simulator import unfit
from grus.simulator.whatif_scenarios import PRESENT, Scenario
from grus.simulator.workload.job_history import USUAL, Happened, lasting
from grus.simulator.workload.job_work import TraceJob
from grus.simulator.workload.traces import numbered

MOST_JOBS = 20_000
"""Ended jobs of a history: the last ones to be submitted."""
INSTANT = Costs(start=0.0, pause=0.0)
"""Costs where no start or pause was seen: nothing is added to what was measured."""


@dataclass(frozen=True, slots=True)
class TabulatedSpeedup:
    """A speed-up by measured sizes: linear between them, in proportion below the smallest, flat beyond the
    largest."""

    points: tuple[tuple[float, float], ...]

    def __call__(self, gpus: float, /) -> float:
        first, last = self.points[0], self.points[-1]
        if gpus <= first[0]:
            return first[1] * gpus / first[0]
        for (low, slow), (high, fast) in pairwise(self.points):
            if gpus <= high:
                return slow + (fast - slow) * (gpus - low) / (high - low)
        return last[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJob:
    """One job that has ended, with what was measured of it."""

    job: Job
    seconds: float
    """Work at its requested size, its program's own start-up included."""
    waited: float
    """Seconds without GPUs in which it would have started if there had been room."""
    held: float
    """GPU-seconds."""
    speedup: tuple[tuple[float, float], ...] = ()
    """GPUs and speed at measured sizes; empty where nothing was measured."""

    @property
    def completion(self) -> float:
        """Seconds from submission to the end."""
        assert self.job.ended_at is not None
        return self.job.ended_at - self.job.submitted_at

    def work(self) -> TraceJob:
        speedup = TabulatedSpeedup(self.speedup) if self.speedup else USUAL
        return replace(lasting(self.job, self.seconds), speedup=speedup)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The jobs that were submitted and ended between two moments, and the pool as it is now."""

    since: float
    until: float
    nodes: tuple[Node, ...] = ()
    queues: tuple[Queue, ...] = ()
    jobs: tuple[EndedJob, ...] = ()
    left_out: int = 0
    """Jobs of that time that did not end, never ran, or fit no state of the pool."""
    whole: bool = True
    """True if these are all jobs; False where the user may not see some."""
    start_cost: float = INSTANT.start
    """Seconds from the decision to start a job until its worker is up: the median."""
    pause_cost: float = INSTANT.pause
    """Seconds from the decision to pause a job until its GPUs are free: the median."""

    @property
    def costs(self) -> Costs:
        return Costs(start=self.start_cost, pause=self.pause_cost)

    def works(self) -> list[TraceJob]:
        return numbered(one.work() for one in self.jobs)

    def scenario(self) -> Scenario:
        """The same jobs on the pool of the server."""
        return Scenario(PRESENT, self.nodes, self.queues, tuple(self.works()), self.costs)


def measured(history: History) -> MeasuredTimes | None:
    """None where no job has ended."""
    if not history.jobs:
        return None
    times = [one.completion for one in history.jobs]
    waits = [one.waited for one in history.jobs]
    first = min(one.job.submitted_at for one in history.jobs)
    makespan = max(one.job.submitted_at + one.completion for one in history.jobs) - first
    offered = count_gpus(history.nodes) * makespan
    return MeasuredTimes(
        jobs=len(times),
        jct_mean=mean(times),
        jct_p50=percentile(times, 0.5),
        jct_p99=percentile(times, 0.99),
        wait_mean=mean(waits),
        wait_p50=percentile(waits, 0.5),
        wait_p99=percentile(waits, 0.99),
        makespan=makespan,
        utilisation=sum(one.held for one in history.jobs) / offered if offered > 0 else 0.0,
    )


# ----------------------------------------------------------------------------------------------- building


def measured_costs(happened: Iterable[Happened]) -> Costs:
    """Medians of the starts and pauses that were seen; zero where none was."""
    starts: list[float] = []
    pauses: list[float] = []
    for mine in happened:
        for before, after in pairwise(mine):
            if (before.kind, after.kind) == ("starting", "running"):
                starts.append(after.at - before.at)
            elif (before.kind, after.kind) == ("pausing", "paused"):
                pauses.append(after.at - before.at)
    return Costs(
        start=median(starts) if starts else INSTANT.start, pause=median(pauses) if pauses else INSTANT.pause
    )


def sound(node: Node) -> Node:
    """The node without its present faults and cordon: the question is about weeks."""
    devices = tuple(replace(one, health=Health.HEALTHY, outside="") for one in node.devices)
    return replace(node, devices=devices, cordoned=False, drain=None)


def fitting(nodes: Sequence[Node], queues: Sequence[Queue], jobs: Sequence[EndedJob]) -> tuple[EndedJob, ...]:
    """Drop jobs that no state of the present pool could run: it may have been larger then."""
    snapshot = Snapshot(tuple(nodes), tuple(queues))
    gone = {work.id for work, _ in unfit(snapshot, [one.work() for one in jobs])}
    return tuple(one for one in jobs if one.job.id not in gone)


def plain(job: Job) -> Job:
    """The job with what the scheduler reads of it and nothing else: a history may be shown to others."""
    spec = job.spec
    return Job(
        id=job.id,
        user=job.user,
        submitted_at=job.submitted_at,
        phase=job.phase,
        started_at=job.started_at,
        first_started_at=job.first_started_at,
        ended_at=job.ended_at,
        spec=Spec(
            name=spec.name,
            queue=spec.queue,
            run=LEFT_OUT,
            request=_request(spec.request),
            type=spec.type,
            launch=spec.launch,
            resize=spec.resize,
            priority=spec.priority,
            checkpoint=replace(spec.checkpoint, path=LEFT_OUT[0] if spec.checkpoint.path else ""),
            max_runtime=spec.max_runtime,
            node_selector=spec.node_selector,
            affinity=spec.affinity,
        ),
    )


def _request(request: Request) -> Request:
    roles = (replace(role, run=LEFT_OUT if role.run else (), image="", pod="") for role in request.roles)
    return replace(request, roles=tuple(roles))


# ------------------------------------------------------------------------------------------------ the wire


def encode(history: History) -> bytes:
    return msgspec.json.encode(history)


def decode(text: bytes) -> History:
    """Raises BadInput where it is no history."""
    try:
        return msgspec.json.decode(text, type=History)
    except msgspec.MsgspecError as error:
        rule = f"is of another version: {error}; use the client of the server's version"
        raise BadInput([Mistake("history", rule)]) from error
