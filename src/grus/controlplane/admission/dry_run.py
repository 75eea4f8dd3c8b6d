"""Dry run of a submission: try the real scheduling decision for a job now, and undo it."""

from dataclasses import dataclass, replace

from grus.controlplane.eta.forecast_service import Expectation
from grus.controlplane.reconciler.loop import ControlLoop, Decide
from grus.model.identifiers import JobId
from grus.model.jobs import Job, Phase, Seat
from grus.model.run_prediction import Expected
from grus.model.texts.job_warnings import warnings_of
from grus.scheduler import cycle
from grus.scheduler.decisions import Decision, Decisions, Pause, Resize, Start
from grus.scheduler.explain import explain
from grus.scheduler.state.snapshot import Snapshot

NOW, LATER, NEVER = "now", "later", "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionPlan:
    """Plan for a job, as it is sent to clients."""

    fits: bool
    """True if the job fits into some state of this pool."""
    starts: str
    """now, later or never."""
    sentence: str
    launch: str = ""
    sizing: str = ""
    """Chosen size and the reason, if Grus chooses the size."""
    seats: tuple[Seat, ...] = ()
    """Placements at which it would start now."""
    affected: tuple[tuple[JobId, str, str], ...] = ()
    """Jobs that would be preempted or shrunk: id, the action, and the reason that they would be given."""
    change: str = ""
    """The cheapest change with which it would start now."""
    foreseen: Expectation | None = None
    expected: Expected | None = None
    """Expected usage and duration, from earlier runs."""
    warnings: tuple[str, ...] = ()
    """Warnings about pitfalls in the request."""


def _at_once(snapshot: Snapshot, now: float) -> Decisions:
    """Decide without waiting for any job to finish an epoch: shows which jobs are preempted in the end."""
    return cycle.decide(snapshot, now, patient=False)


def plan(loop: ControlLoop, job: Job, blocked: str, now: float, decide: Decide = _at_once) -> SubmissionPlan:
    """Decide with the job and without it; the difference is what it changes."""
    with loop.snapshot() as snapshot:
        without = {_key(action) for action in decide(snapshot, now).actions}
        snapshot.put(job, blocked)
        try:
            actions = [action for action in decide(snapshot, now).actions if _key(action) not in without]
            return replace(_told(snapshot, job, actions, now), warnings=warnings_of(job))
        finally:
            snapshot.put(replace(job, phase=Phase.STOPPED))


def _told(snapshot: Snapshot, job: Job, actions: list[Decision], now: float) -> SubmissionPlan:
    affected = tuple(found for action in actions if (found := _affected(snapshot, action)) is not None)
    launch = job.spec.launch.value
    start = next((action for action in actions if isinstance(action, Start) and action.job == job.id), None)
    if start is not None:
        return SubmissionPlan(
            fits=True,
            starts=NOW,
            sentence=start.reason,
            launch=launch,
            seats=start.seats,
            affected=affected,
        )
    why = explain(snapshot, job.id, now)
    return SubmissionPlan(
        fits=True, starts=LATER, sentence=why.sentence, launch=launch, affected=affected, change=why.change
    )


def _affected(snapshot: Snapshot, action: Decision) -> tuple[JobId, str, str] | None:
    if isinstance(action, Pause):
        return action.job, "paused", action.reason
    if isinstance(action, Resize):
        before = snapshot.job(action.job)
        staying = sum(1 for seat in action.seats if not seat.leaving)
        if before is not None and staying < len(before.staying):
            return action.job, "shrunk", action.reason
    return None


def _key(action: Decision) -> tuple[object, ...]:
    """Return the effect of an action without its reason, which may name the new job."""
    return type(action), action.job, getattr(action, "seats", ())
