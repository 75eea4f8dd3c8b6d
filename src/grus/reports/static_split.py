"""Before and after: the same jobs on a static split, where each queue owns its part of the pool; simulated.

Jobs that have ended are played again, once on the pool as it is and once on the split, with the sizes and
speeds that they showed and with what starts and pauses were seen to cost. What really happened stands beside
the two: how far the simulated pool is from it says how much the comparison is worth.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from grus.api.scaling_wire import ScalabilityOut, SplitOut, SplitSideOut
from grus.api.wire import EventOut, JobOut, parse_time
from grus.model.cluster import Node
from grus.model.errors import BadInput
from grus.model.queues import Queue
from grus.model.resources import GPU
from grus.reports.past import Past
from grus.reports.scalability import scalability
from grus.scheduling.snapshot import Snapshot
from grus.simulation import answers
from grus.simulation.effects import Costs
from grus.simulation.history import Happened, Happening, seconds_run, work_of, works_shown
from grus.simulation.outcomes import Outcome, mean, percentile
from grus.simulation.simulator import unfit
from grus.simulation.traces import numbered
from grus.simulation.what_if import (
    PRESENT,
    STATIC,
    Change,
    Comparison,
    Runner,
    Scenario,
    compare,
    one_by_one,
    static_split,
)
from grus.simulation.work import Speedup, Work

MEASURED = "measured"
WORLDS = 5
"""Possible worlds that are looked at for advice to buy, for its interval."""
MOST_WORK = 20_000
"""Jobs in all worlds together up to which so many are looked at; one if there are more."""


@dataclass(frozen=True, slots=True)
class Tabled:
    """A speed-up by what was fitted: on the lines between sizes, in proportion below the smallest, and no
    faster beyond the largest."""

    points: tuple[tuple[float, float], ...]

    def __call__(self, gpus: float, /) -> float:
        first, last = self.points[0], self.points[-1]
        if gpus <= first[0]:
            return first[1] * gpus / first[0]
        for (low, slow), (high, fast) in pairwise(self.points):
            if gpus <= high:
                return slow + (fast - slow) * (gpus - low) / (high - low)
        return last[1]


@dataclass(frozen=True, slots=True)
class Lived:
    """How one job really fared, in seconds."""

    submitted: float
    ended: float
    waited: float
    """Without GPUs while it would have started if there had been room."""


@dataclass(frozen=True, slots=True)
class Before:
    """Everything that the comparison needs."""

    present: Scenario
    lived: tuple[Lived, ...]
    left_out: int
    """Jobs of which nobody knows how long they are: they did not end, or never ran."""


# ------------------------------------------------------------------------------------------- what there was


def of_past(past: Past) -> Before:
    """The jobs of a past, as a server knows them."""
    speedups = tabled(scalability(past))
    works: list[Work] = []
    lived: list[Lived] = []
    happened: list[Happened] = []
    for one in past.jobs:
        mine = [
            Happening(event.at, event.kind, None if event.working is None else event.working / GPU)
            for event in one.events
        ]
        ended, job = one.job.ended_at, one.job
        if job.submitted_at < past.since or ended is None or ended > past.until:
            continue
        if seconds_run(mine, job.started_at, ended) > 0.0:
            works.append(work_of(job, mine, speedups.get(job.id)))
            happened.append(mine)
            waited = sum(span.seconds for span in one.spans if span.waits)
            lived.append(Lived(job.submitted_at, ended, waited))
    return _before(past.nodes, past.queues, works, lived, happened, len(past.jobs) - len(works))


def of_shown(
    nodes: Sequence[Node],
    queues: Sequence[Queue],
    jobs: Sequence[JobOut],
    events: Sequence[EventOut],
    speedups: Mapping[str, Speedup],
) -> Before:
    """The same from what a server shows."""
    by_job: dict[str, list[EventOut]] = {}
    for event in events:
        if event.job is not None:
            by_job.setdefault(event.job, []).append(event)
    works = works_shown(jobs, events, speedups)
    shown = {job.id: job for job in jobs}
    lived = [_lived(shown[work.id], by_job.get(work.id, [])) for work in works]
    happened = [
        [Happening(parse_time(event.at), event.kind) for event in by_job.get(work.id, [])] for work in works
    ]
    return _before(tuple(nodes), tuple(queues), works, lived, happened, len(jobs) - len(works))


def _lived(job: JobOut, events: Sequence[EventOut]) -> Lived:
    """Without its events all time before its start counts as waited."""
    submitted, ended = parse_time(job.submitted_at), parse_time(job.ended_at or job.submitted_at)
    told = [event for event in events if event.gpus is not None or event.kind == "submitted"]
    if len(told) < 2:
        started = job.first_started_at or job.started_at
        return Lived(submitted, ended, parse_time(started) - submitted if started else 0.0)
    waited = sum(
        parse_time(after.at) - parse_time(before.at) for before, after in pairwise(told) if not before.gpus
    )
    return Lived(submitted, ended, waited)


def _before(
    nodes: Sequence[Node],
    queues: Sequence[Queue],
    works: Sequence[Work],
    lived: Sequence[Lived],
    happened: Sequence[Happened],
    left_out: int,
) -> Before:
    """Without jobs that no state of the present pool could run: it may have been larger then."""
    snapshot = Snapshot(tuple(nodes), tuple(queues))
    gone = {work.id for work, _ in unfit(snapshot, works)}
    kept = [pair for pair in zip(works, lived, strict=True) if pair[0].id not in gone]
    present = Scenario(
        name=PRESENT,
        nodes=tuple(nodes),
        queues=tuple(queues),
        works=tuple(numbered(work for work, _ in kept)),
        costs=measured_costs(happened),
    )
    return Before(present, tuple(one for _, one in kept), left_out + len(gone))


def tabled(found: ScalabilityOut) -> dict[str, Speedup]:
    """By job: its speed-up, where it was measured at more than one size."""
    return {
        job: Tabled(tuple((float(point.gpus), point.speedup) for point in one.fit))
        for one in found.speedups
        if one.fit
        for job in one.jobs
    }


def measured_costs(happened: Iterable[Happened]) -> Costs:
    """What starts and pauses usually took; as simulations take it where none was seen."""
    starts: list[float] = []
    pauses: list[float] = []
    for mine in happened:
        for before, after in pairwise(mine):
            if (before.kind, after.kind) == ("starting", "running"):
                starts.append(after.at - before.at)
            elif (before.kind, after.kind) == ("pausing", "paused"):
                pauses.append(after.at - before.at)
    usual = Costs()
    return Costs(
        start=median(starts) if starts else usual.start, pause=median(pauses) if pauses else usual.pause
    )


# ----------------------------------------------------------------------------------------- what would be


def split(before: Before, *, buying: bool = True, runner: Runner = one_by_one) -> SplitOut | None:
    """None where no job has ended, or the jobs do not fit the split."""
    present = before.present
    if not present.works:
        return None
    try:
        found = compare(present, Change(), static=True, runner=runner)
        advice = _advice(present, runner) if buying else ""
    except BadInput:
        return None
    sides = [_measured(before.lived), *(_side(side.name, side.outcomes[0]) for side in found.sides)]
    return SplitOut(
        shares={
            queue.name: queue.quota.total // GPU
            for queue in static_split(present).queues
            if queue.quota.total
        },
        sides=tuple(sides),
        left_out=before.left_out,
        sentence=answers.against_static(found),
        buying=advice,
    )


def _advice(present: Scenario, runner: Runner) -> str:
    """Whether one node more, like the largest, would pay."""
    largest = max(present.nodes, key=lambda node: (len(node.devices), node.id))
    more = Change(add_nodes=f"1x{len(largest.devices)}x{largest.devices[0].type}")
    seeds = WORLDS if 2 * WORLDS * len(present.works) <= MOST_WORK else 1
    found: Comparison = compare(present, more, seeds=seeds, static=False, runner=runner)
    return answers.answer(found)


def _measured(lived: Sequence[Lived]) -> SplitSideOut:
    """What really happened to these jobs."""
    times = [one.ended - one.submitted for one in lived]
    waits = [one.waited for one in lived]
    return SplitSideOut(
        name=MEASURED,
        jobs=len(lived),
        completion_mean=mean(times),
        completion_p50=percentile(times, 0.5),
        completion_p99=percentile(times, 0.99),
        wait_mean=mean(waits),
        wait_p99=percentile(waits, 0.99),
        makespan=max(one.ended for one in lived) - min(one.submitted for one in lived),
    )


def _side(name: str, outcome: Outcome) -> SplitSideOut:
    return SplitSideOut(
        name=name,
        jobs=outcome.jobs,
        completion_mean=outcome.jct_mean,
        completion_p50=outcome.jct_p50,
        completion_p99=outcome.jct_p99,
        wait_mean=outcome.wait_mean,
        wait_p99=outcome.wait_p99,
        makespan=outcome.makespan,
        utilisation=outcome.utilisation,
        preemptions=outcome.preemptions,
    )


SIDES = (MEASURED, PRESENT, STATIC)
"""In this order."""
