"""Split now or wait? The ways in which one job could run, each played forward on the pool, the best named.

The job fits no free GPU as it is. It may wait for one that is large enough, be split over several smaller
ones, or take less memory and run slower (a smaller batch, checkpointed activations, off-loading). For each
way the production scheduler is asked, in virtual time and in several worlds that differ in how long the other
jobs run, when the job would start and end and what the others lose by it. Nothing here knows how fast a way
is: that comes from a plan of the partitioner or from an estimate.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.jobs import PRIORITIES, Launch, Spec
from grus.model.queues import DEFAULT_QUEUE
from grus.model.resources import Range, Replica, Request, Role
from grus.scheduler.placement.feasibility import never_fits
from grus.scheduler.queues.policies import policy_named
from grus.scheduler.state.snapshot import Snapshot
from grus.simulator.events.run_results import Result
from grus.simulator.outcome_metrics import HOUR, mean, percentile
from grus.simulator.result_summary import span
from grus.simulator.simulator import Simulation
from grus.simulator.whatif_scenarios import Scenario
from grus.simulator.workload.job_work import NOBODY, WORKER, TraceJob

WORTH = 0.05
"""A way that ends later by no more than this is preferred if it takes less of the pool."""
WORLDS = 8
THIS = JobId("asked")
SPREAD = 0.5
"""The logarithm of other jobs' lengths is uncertain by this much (one standard deviation)."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to run the job."""

    name: str
    gpus: int
    memory: int
    """Bytes that it needs of each GPU."""
    speeds: tuple[tuple[str, float], ...]
    """Types of GPU that will do, and how fast the job is there, relative to the asked-for `seconds`."""
    slices: bool = False
    """It takes only that memory of each GPU and leaves the rest to others, instead of the whole GPU."""
    note: str = ""
    """Other differences, such as a smaller batch."""

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.speeds)

    def request(self) -> Request:
        part = Replica(gpus=0, gpu_memory=self.memory, types=self.types)
        whole = Replica(gpus=1, types=self.types)
        role = Role(WORKER, Range(self.gpus, self.gpus), part if self.slices else whole)
        return Request((role,), one_node=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedJob:
    """The job that the question is about."""

    submit: float
    seconds: float
    """Seconds of undisturbed work at speed 1."""
    queue: QueueName = DEFAULT_QUEUE
    user: UserName = NOBODY
    priority: int = PRIORITIES["train"]
    id: JobId = THIS

    def work(self, way: Alternative) -> TraceJob:
        """The job as it would be submitted for this way."""
        spec = Spec(
            name=WORKER,
            queue=self.queue,
            run=("true",),
            request=way.request(),
            launch=Launch.ONCE if way.gpus == 1 else Launch.PER_GPU,
            priority=self.priority,
        )
        return TraceJob(
            id=self.id,
            submit=self.submit,
            duration=self.seconds,
            gpus=way.gpus,
            queue=self.queue,
            user=self.user,
            priority=self.priority,
            types=way.speeds,
            reports=False,
            spec=spec,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Future:
    """Results of one execution plan, over the worlds. Times are seconds since the submission."""

    name: str
    note: str = ""
    start: float = 0.0
    """P50, as `end`."""
    end: float = 0.0
    end_late: float = 0.0
    """P90."""
    gpu_hours: float = 0.0
    """Mean of what it holds."""
    others: float | None = None
    """Mean seconds by which the other jobs end later than without it; None where that was not asked."""
    impossible: str = ""
    """Reason why this plan is impossible; then no other field is set."""


@dataclass(frozen=True, slots=True)
class Advice:
    """All ways, the best first, and what to do."""

    futures: tuple[Future, ...]
    sentence: str

    @property
    def best(self) -> Future | None:
        first = self.futures[0] if self.futures else None
        return None if first is None or first.impossible else first

    def as_json(self) -> dict[str, object]:
        best = self.best
        return {
            "recommended": best.name if best is not None else None,
            "sentence": self.sentence,
            "ways": [
                {name: None if value == float("inf") else value for name, value in asdict(one).items()}
                for one in self.futures
            ],
        }


Progress = Callable[[int, int], None]
"""Callback that receives the number of finished simulations, and their total."""


def advise(
    pool: Scenario,
    asked: ProposedJob,
    ways: Sequence[Alternative],
    *,
    worlds: int = WORLDS,
    spread: float = SPREAD,
    seed: int = 0,
    others: bool = True,
    progress: Progress = lambda _done, _all: None,
) -> Advice:
    """Play every way in the same worlds. The scenario's jobs are those that run, wait or are yet to come.

    In the first world all lengths are as given; in the others those of the scenario's jobs are drawn.
    """
    played = [replace(pool, works=drawn(pool.works, world, spread, seed)) for world in range(worlds)]
    futures = []
    total = (len(ways) + others) * worlds
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    before = [_ends(_play(world, None), asked.id, tick) for world in played] if others else []
    for way in ways:
        futures.append(_future(played, asked, way, before, tick))
    return decide(futures)


def decide(futures: Sequence[Future]) -> Advice:
    """The way that ends first; one that ends hardly later and holds clearly less of the pool comes before."""
    possible = sorted(
        (one for one in futures if not one.impossible), key=lambda one: (one.end, one.gpu_hours)
    )
    refused = [one for one in futures if one.impossible]
    if possible:
        near = [one for one in possible if one.end <= possible[0].end * (1 + WORTH)]
        best = min(near, key=lambda one: one.gpu_hours)
        possible.remove(best)
        possible.insert(0, best)
    return Advice((*possible, *refused), _sentence(possible, refused))


def drawn(works: Sequence[TraceJob], world: int, spread: float, seed: int = 0) -> tuple[TraceJob, ...]:
    """The same jobs with lengths that could be as well; as they are in world 0."""
    if world == 0 or spread <= 0:
        return tuple(works)
    chance = random.Random(f"lengths/{seed}/{world}")  # noqa: S311 - seeded on purpose, no secret
    return tuple(replace(work, duration=work.duration * chance.lognormvariate(0, spread)) for work in works)


# --------------------------------------------------------------------------------------------------- playing


def _future(
    played: Sequence[Scenario],
    asked: ProposedJob,
    way: Alternative,
    before: Sequence[dict[JobId, float]],
    tick: Callable[[], None],
) -> Future:
    work = asked.work(way)
    if why := fits_never(played[0], work.job().spec):
        return Future(name=way.name, note=way.note, impossible=why)
    starts, ends, hours, later = [], [], [], []
    for number, world in enumerate(played):
        result = _play(world, work, to_the_end=bool(before))
        ran = next(one for one in result.jobs if one.work.id == asked.id)
        never = float("inf")
        starts.append(never if ran.started is None else ran.started - asked.submit)
        ends.append(never if ran.ended is None else ran.ended - asked.submit)
        hours.append(ran.held / HOUR)
        if before:
            now = _ends(result, asked.id, tick)
            later += [now[job] - end for job, end in before[number].items() if job in now]
        else:
            tick()
    return Future(
        name=way.name,
        note=way.note,
        start=percentile(starts, 0.5),
        end=percentile(ends, 0.5),
        end_late=percentile(ends, 0.9),
        gpu_hours=mean(hours),
        others=mean(later) if before else None,
    )


def fits_never(pool: Scenario, spec: Spec) -> str:
    """Return why no state of the pool could run it; empty if one could."""
    return never_fits(Snapshot(pool.nodes, pool.queues), spec)


def _play(pool: Scenario, work: TraceJob | None, to_the_end: bool = True) -> Result:
    simulation = Simulation(
        pool.nodes,
        pool.queues,
        pool.works if work is None else (*pool.works, work),
        costs=pool.costs,
        faults=pool.faults,
        policy=policy_named(pool.policy),
    )
    if to_the_end or work is None:
        return simulation.run()
    ended = simulation.effects.ended
    seen = 0

    def over(_: Simulation) -> bool:
        nonlocal seen
        fresh, seen = ended[seen:], len(ended)
        return any(ran.work.id == work.id for ran in fresh)

    return simulation.run(until=over)


def _ends(result: Result, asked: JobId, tick: Callable[[], None]) -> dict[JobId, float]:
    tick()
    return {ran.work.id: ran.ended for ran in result.jobs if ran.ended is not None and ran.work.id != asked}


# ------------------------------------------------------------------------------------------------- sentences


def _sentence(possible: Sequence[Future], refused: Sequence[Future]) -> str:
    if not possible:
        why = "; ".join(f"{one.name}: {one.impossible}" for one in refused)
        return f"No way would do on this pool. {why}."
    best = possible[0]
    end = "when it ends" if best.end == float("inf") else "it ends after"
    said = f"{_capital(best.name)}: {end} {_words(best)}"
    rest = [f"{one.name} {_words(one)}" for one in possible[1:]]
    return f"{said}; {', '.join(rest)}." if rest else f"{said}; there is no other way."


def _words(one: Future) -> str:
    if one.end == float("inf"):
        return "cannot be foreseen" + (f" ({one.note})" if one.note else "")
    waits = f", starts after {span(one.start)}" if one.start >= 60 else ""
    late = "open" if one.end_late == float("inf") else span(one.end_late)
    return f"{span(one.end)} (P90 {late}{waits})"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
