"""Forecast of the starts and ends of jobs: the live snapshot, played forward many times with the real
scheduler.

One world is one future. Every job in it gets a length drawn from the law of similar jobs; jobs that may yet
come are those that came in some recent stretch of time; and the simulator calls the production `decide` from
the present on. A job's wait in each world, together with the law of its own length, gives chances for its
start and its end.

A function of its input: same present, same knowledge, same seed, same answer. The length of a world is
bounded in moments, not in seconds; a caller who has little time asks for fewer worlds (`enough`).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from grus.model.identifiers import JobId
from grus.model.jobs import HOLDING, Desired, Job
from grus.model.nodes import Node
from grus.model.queues import Queue
from grus.scheduler import cycle
from grus.scheduler.decisions import Decisions, Start
from grus.scheduler.placement.feasibility import never_fits
from grus.scheduler.queues.policies import GRUS, policy_named
from grus.scheduler.queues.user_limits import UserLimits
from grus.scheduler.state.snapshot import Snapshot, waits
from grus.simulator.events.decision_executor import Costs
from grus.simulator.forecasting.durations import Durations
from grus.simulator.forecasting.expected_duration import Expected, ForecastJob, expected
from grus.simulator.forecasting.quantiles import Chances, chances_of
from grus.simulator.simulator import Decide, Simulation, Underway
from grus.simulator.workload.job_history import gpus_asked
from grus.simulator.workload.job_work import TraceJob

DAY = 86400.0
WORLDS = 32
HORIZON = 30 * DAY
"""Later than that is as good as never."""
SHORTEST_REACH, LONGEST_REACH = DAY / 4, 2 * DAY
"""Shortest and longest time in which new jobs come in a world: three times the time in which the pool does
the work that waits now.
"""
LOOK_BACK = 14
"""Days of which the arrivals of a world are taken."""
MOST_MOMENTS = 50_000
MORE_MOMENTS = 200
"""Moments that are played after the last start: pauses soon after it show, and ends far away cost nothing."""
GRID = np.arange(0.5, 50.0) / 50.0
"""Chances at which the law of a length is read to be joined with the waits."""

OPEN = "it waits for jobs whose ends are unknown"
NEVER = "it did not start in any future that was tried"


@dataclass(frozen=True, slots=True)
class Present:
    """The complete state of one moment; cheaply copied from a live snapshot, since every part is a value."""

    now: float
    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    jobs: tuple[ForecastJob, ...]
    policy: str = GRUS.name
    user_limits: UserLimits = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Forecast:
    """Forecast of one job at one moment."""

    job: JobId
    at: float
    start: Chances | None = None
    """None of a job that runs already, or of which it cannot be said."""
    end: Chances | None = None
    unknown: str = ""
    """Reason why a part of the forecast is unknown; empty if all is known."""


Enough = Callable[[int], bool]
"""Callback that receives the number of played worlds and returns whether those are enough."""


def forecast(
    present: Present,
    durations: Durations,
    *,
    asked: Iterable[JobId] | None = None,
    arrivals: Sequence[TraceJob] = (),
    worlds: int = WORLDS,
    seed: int = 0,
    costs: Costs | None = None,
    decide: Decide = cycle.decide,
    enough: Enough = lambda _: False,
) -> dict[JobId, Forecast]:
    """Forecast the start and end of each given job (of all that run or wait, if none is named).

    `arrivals` are jobs that came in the past, in order of submission, with the lengths that they had.
    """
    question = _Question.about(present, durations, asked)
    coming = _fitting(present, arrivals)
    rng = np.random.default_rng(seed)
    lengths = {job: known.draws(_strata(rng, worlds)) for job, known in question.expected.items()}
    reach = _reach(question)
    seen = _EtaSamples()
    for number in range(worlds):
        world = _World(question, {job: drawn[number] for job, drawn in lengths.items()})
        works = _arrivals(coming, present.now, reach, rng)
        seen.take(question, world.play(works, costs or Costs(), decide))
        if enough(number + 1):
            break
    return {job: _told(question, seen, job) for job in question.asked}


def _strata(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Chances that cover all of 0 to 1 evenly, in an order that is this job's own."""
    return (rng.permutation(count) + rng.random(count)) / count


# ---------------------------------------------------------------------------------------------- the question


@dataclass(frozen=True, slots=True)
class _Question:
    """The present with what is expected of each of its jobs."""

    present: Present
    expected: Mapping[JobId, Expected]
    asked: tuple[JobId, ...]
    standing: Mapping[JobId, ForecastJob]

    @classmethod
    def about(cls, present: Present, durations: Durations, asked: Iterable[JobId] | None) -> "_Question":
        standing = {one.job.id: one for one in present.jobs}
        told = {job: expected(one, durations, present.now) for job, one in standing.items()}
        moving = [job for job, one in standing.items() if _goes_on(one.job)]
        wanted = moving if asked is None else [job for job in asked if job in standing]
        return cls(present, told, tuple(wanted), standing)

    def open_ended(self, waiting: JobId) -> bool:
        """True if what another job of unknown end has, or gets first, may be what this one waits for."""
        return any(one.unknown for job, one in self.expected.items() if job != waiting)


def _goes_on(job: Job) -> bool:
    """Return whether it runs or waits by itself: not stopped, not paused by a person."""
    return job.desired is Desired.RUN and (job.phase in HOLDING or waits(job))


# ------------------------------------------------------------------------------------------------- one world


def steady(gpus: float, /) -> float:  # noqa: ARG001 - that is what it says
    """Return the speed at any size: lengths of the past include the effect of the sizes that jobs had."""
    return 1.0


@dataclass(slots=True)
class _Future:
    """Results of the jobs in one world."""

    starts: dict[JobId, float] = field(default_factory=dict)
    delays: dict[JobId, float] = field(default_factory=dict)
    """Seconds until its end beyond those that it had still to run."""


class _World:
    """One future."""

    def __init__(self, question: _Question, lengths: Mapping[JobId, float]) -> None:
        self._question = question
        self._now = question.present.now
        self._lengths = lengths
        self._future = _Future()
        self._unstarted = {job for job in question.asked if not question.standing[job].job.seats}
        self._after = {one.job.id: set(one.after) for one in question.present.jobs if one.after}
        self._ended = 0
        self._moments = 0
        self._since_last_start = 0

    def play(self, works: Sequence[TraceJob], costs: Costs, decide: Decide) -> _Future:
        present = self._question.present
        now = [self._underway(one) for one in present.jobs if not one.after and _counts(one.job)]
        simulation = Simulation(
            present.nodes,
            present.queues,
            works,
            costs=costs,
            underway=now,
            begin=self._now,
            watch=self._note,
            policy=policy_named(present.policy),
            user_limits=present.user_limits,
            decide=decide,
        )
        for one in present.jobs:
            if one.outlook is not None:
                simulation.snapshot.expect(one.job.id, one.outlook)
        simulation.run(until=self._over)
        self._read(simulation)
        return self._future

    def _underway(self, one: ForecastJob) -> Underway:
        job = one.job
        length = self._lengths[job.id]
        if job.desired is not Desired.RUN:  # It is about to leave.
            length = one.ran + job.spec.checkpoint.grace
        request = job.spec.request
        elastic = request.elastic
        work = TraceJob(
            id=job.id,
            submit=job.submitted_at,
            duration=length,
            gpus=gpus_asked(request),
            size=None if elastic is None else elastic.replicas,
            queue=job.spec.queue,
            user=job.user,
            speedup=steady,
            reports=False,
            grace=job.spec.checkpoint.grace,
            spec=job.spec,
        )
        return Underway(job, work, one.ran)

    def _note(self, simulation: Simulation, decisions: Decisions) -> None:
        for action in decisions.actions:
            if isinstance(action, Start):
                self._future.starts.setdefault(action.job, simulation.now)
                if action.job in self._unstarted:
                    self._unstarted.discard(action.job)
                    self._since_last_start = 0

    def _over(self, simulation: Simulation) -> bool:
        self._moments += 1
        self._since_last_start += 1
        if self._after and len(simulation.effects.ended) > self._ended:
            self._release(simulation)
        self._ended = len(simulation.effects.ended)
        if self._moments >= MOST_MOMENTS or simulation.now - self._now > HORIZON:
            return True
        return not self._unstarted and self._since_last_start > MORE_MOMENTS

    def _release(self, simulation: Simulation) -> None:
        """Let those in whose predecessors have all ended."""
        gone = {ran.work.id for ran in simulation.effects.ended[self._ended :]}
        for job, awaited in list(self._after.items()):
            awaited -= gone
            if not awaited:
                del self._after[job]
                simulation.admit(self._underway(self._question.standing[job]))

    def _read(self, simulation: Simulation) -> None:
        ended = {ran.work.id: ran.ended for ran in simulation.effects.ended}
        for job in self._question.asked:
            left = self._lengths[job] - self._question.expected[job].ran
            end = ended.get(job)
            run = simulation.effects.runs.get(job)
            if end is None and run is not None and run.rate > 0.0:
                end = run.ends_at()
            if end is not None:
                self._future.delays[job] = max(0.0, end - self._now - left)


def _counts(job: Job) -> bool:
    """Return whether the scheduler deals with it: it has GPUs, or waits for them."""
    return bool(job.seats) or waits(job)


# ---------------------------------------------------------------------------------------------- who may come


def _fitting(present: Present, works: Sequence[TraceJob]) -> list[TraceJob]:
    """Those that this pool and these queues could run; the others would not be let in today."""
    snapshot = Snapshot(present.nodes, present.queues)
    judged: dict[object, bool] = {}
    kept = []
    for work in works:
        if work.submit < present.now - LOOK_BACK * DAY:
            continue
        spec = work.job().spec
        sort = (spec.queue, spec.request, spec.priority, spec.node_selector)
        if sort not in judged:
            queue = snapshot.tree.by_name.get(spec.queue)
            judged[sort] = queue is not None and queue.leaf and not never_fits(snapshot, spec)
        if judged[sort]:
            kept.append(work)
    return kept


def _reach(question: _Question) -> float:
    """Return the seconds for which new jobs matter: a job that comes after all waiting ones have started
    delays none.
    """
    gpus = sum(len(node.devices) for node in question.present.nodes)
    work = sum(
        float(np.mean(question.expected[job].lengths(GRID))) * gpus_asked(one.job.spec.request)
        for job, one in question.standing.items()
        if not one.job.seats and not question.expected[job].unknown
    )
    return min(LONGEST_REACH, max(SHORTEST_REACH, 3 * work / max(1, gpus)))


def _arrivals(past: Sequence[TraceJob], now: float, reach: float, rng: np.random.Generator) -> list[TraceJob]:
    """Arrivals as they were from a day of the past on, at the same time of day; bursts stay bursts."""
    if not past:
        return []
    days = int(min(LOOK_BACK, (now - past[0].submit) // DAY))
    if days < 1:
        return []
    times = np.array([work.submit for work in past])
    found: list[TraceJob] = []
    for passed in range(math.ceil(reach / DAY)):
        back = int(rng.integers(1, days + 1)) * DAY
        begin = now - back
        low, high = np.searchsorted(times, (begin, begin + min(DAY, reach - passed * DAY)))
        shift = back + passed * DAY
        found += [
            replace(work, id=JobId(f"new-{passed}-{number}"), submit=work.submit + shift)
            for number, work in enumerate(past[low:high])
        ]
    return found


# ---------------------------------------------------------------------------------------------- the answers


class _EtaSamples:
    """Starts and delays of every asked job, world by world; infinite where there was none."""

    def __init__(self) -> None:
        self.starts: dict[JobId, list[float]] = {}
        self.delays: dict[JobId, list[float]] = {}

    def take(self, question: _Question, future: _Future) -> None:
        for job in question.asked:
            self.starts.setdefault(job, []).append(future.starts.get(job, float("inf")))
            self.delays.setdefault(job, []).append(future.delays.get(job, float("inf")))


def _told(question: _Question, seen: _EtaSamples, job: JobId) -> Forecast:
    present, one, known = question.present, question.standing[job], question.expected[job]
    starts = np.array(seen.starts.get(job, ()))
    delays = np.array(seen.delays.get(job, ()))
    start = None if one.job.seats or not len(starts) else chances_of(starts)
    if start is not None and start.at[0] == float("inf"):
        return Forecast(job, present.now, unknown=OPEN if question.open_ended(job) else NEVER)
    if known.unknown or not len(delays):
        return Forecast(job, present.now, start, unknown=known.unknown)
    left = known.lengths(GRID) - known.ran
    ends = present.now + (delays[:, None] + np.maximum(left, 0.0)[None, :]).ravel()
    return Forecast(job, present.now, start, chances_of(ends))
