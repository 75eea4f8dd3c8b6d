"""Comparison with a static split, in which each queue owns its part of the pool: the same jobs, simulated.

The ended jobs are simulated once on the pool as it is and once on the split, with the sizes, speeds and costs
that were measured. The measured figures are shown beside the two: their distance from the simulated pool
shows how reliable the comparison is.
"""

from collections.abc import Sequence
from dataclasses import replace

from grus.api.scaling_wire import ScalabilityOut, SplitOut, SplitSideOut
from grus.model.errors import BadInput
from grus.model.nodes import Node
from grus.model.resources import GPU
from grus.reports.history_types import JobPast, PoolHistory
from grus.reports.scaling_efficiency import scalability
from grus.simulator import result_summary
from grus.simulator.outcome_metrics import MeasuredTimes
from grus.simulator.whatif_scenarios import (
    Runner,
    Scenario,
    ScenarioChange,
    compare,
    one_by_one,
    static_split,
)
from grus.simulator.workload.history_trace import (
    MOST_JOBS,
    EndedJob,
    History,
    TabulatedSpeedup,
    fitting,
    measured,
    measured_costs,
    plain,
    sound,
)
from grus.simulator.workload.job_history import HistoryEvent, seconds_run, work_of

MEASURED = "measured"
WORLDS = 5
"""Possible worlds that are looked at for advice to buy, for its interval."""
MOST_WORK = 20_000
"""Jobs in all worlds together up to which so many are looked at; one if there are more."""


# ------------------------------------------------------------------------------------------- the history


def of_past(past: PoolHistory, found: ScalabilityOut | None = None) -> History:
    """The jobs that were submitted and ended in this time; `found` if their speeds are known already."""
    speedups = measured_speedups(scalability(past) if found is None else found)
    nodes = tuple(map(sound, past.nodes))
    ran = [one for one in past.jobs if _ended_within(past, one)][-MOST_JOBS:]
    jobs = fitting(nodes, past.queues, [_ended_job(one, speedups.get(one.id, ())) for one in ran])
    costs = measured_costs(_happened(one) for one in ran)
    return History(
        since=past.since,
        until=past.until,
        nodes=nodes,
        queues=past.queues,
        jobs=jobs,
        left_out=sum(one.job.spec.has_workers for one in past.jobs) - len(jobs),
        whole=past.whole,
        start_cost=costs.start,
        pause_cost=costs.pause,
    )


def _ended_within(past: PoolHistory, one: JobPast) -> bool:
    """A sweep runs nothing itself; its trials are jobs of their own."""
    job = one.job
    if not job.spec.has_workers or job.submitted_at < past.since:
        return False
    if job.ended_at is None or job.ended_at > past.until:
        return False
    return seconds_run(_happened(one), job.started_at, job.ended_at) > 0.0


def _happened(one: JobPast) -> list[HistoryEvent]:
    return [
        HistoryEvent(event.at, event.kind, None if event.working is None else event.working / GPU)
        for event in one.events
    ]


def _ended_job(one: JobPast, speedup: tuple[tuple[float, float], ...]) -> EndedJob:
    work = work_of(one.job, _happened(one), TabulatedSpeedup(speedup) if speedup else None)
    return EndedJob(
        job=plain(one.job),
        seconds=work.duration,
        waited=sum(span.seconds for span in one.spans if span.waits),
        held=sum(span.gpu_seconds for span in one.spans),
        speedup=speedup,
    )


def measured_speedups(found: ScalabilityOut) -> dict[str, tuple[tuple[float, float], ...]]:
    """GPUs and speed-up of each job that was measured at more than one size."""
    return {
        job: tuple((float(point.gpus), point.speedup) for point in one.fit)
        for one in found.speedups
        if one.fit
        for job in one.jobs
    }


# ----------------------------------------------------------------------------------------- what would be


def split(history: History, *, buying: bool = True, runner: Runner = one_by_one) -> SplitOut | None:
    """None where no job has ended, or the jobs do not fit the split."""
    present, was = history.scenario(), measured(history)
    if was is None:
        return None
    try:
        found = replace(compare(present, ScenarioChange(), static=True, runner=runner), measured=was)
        advice = _advice(present, was, runner) if buying else ""
    except BadInput:
        return None
    sides = [
        measured_side(was),
        *(SplitSideOut.from_model(side.outcomes[0], name=side.name) for side in found.sides),
    ]
    return SplitOut(
        shares={
            queue.name: queue.quota.total // GPU
            for queue in static_split(present).queues
            if queue.quota.total
        },
        sides=tuple(sides),
        left_out=history.left_out,
        sentence=result_summary.against_static(found),
        buying=advice,
        model=result_summary.model(found, history.costs),
    )


def _advice(present: Scenario, was: MeasuredTimes, runner: Runner) -> str:
    """Say whether one node more, like the largest, would pay."""
    seeds = WORLDS if 2 * WORLDS * len(present.works) <= MOST_WORK else 1
    more = ScenarioChange(add_nodes=one_more(present.nodes))
    found = compare(present, more, seeds=seeds, static=False, runner=runner)
    return result_summary.answer(replace(found, measured=was))


def one_more(nodes: Sequence[Node]) -> str:
    """A node like the largest one, as `--add-nodes` names it."""
    largest = max(nodes, key=lambda node: (len(node.devices), node.id))
    return f"1x{len(largest.devices)}x{largest.devices[0].type}"


def measured_side(was: MeasuredTimes) -> SplitSideOut:
    """The jobs as they were."""
    return SplitSideOut.from_model(was, name=MEASURED, preemptions=None)
