"""What would become of a job if it were submitted now: the real decision, tried and undone."""

from dataclasses import dataclass, replace

from grus.api.warnings import warnings_of
from grus.controlplane.forecasting import Expectation
from grus.controlplane.loop import ControlLoop, Decide
from grus.model.expecting import Expected
from grus.model.identifiers import JobId
from grus.model.jobs import Job, Phase, Seat
from grus.scheduling import cycle
from grus.scheduling.decisions import Decision, Decisions, Pause, Resize, Start
from grus.scheduling.explain import explain
from grus.scheduling.snapshot import Snapshot

NOW, LATER, NEVER = "now", "later", "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answer, in the words of the wire."""

    fits: bool
    """Whether some state of this pool could run it."""
    starts: str
    """now, later or never."""
    sentence: str
    launch: str = ""
    sizing: str = ""
    """What it would get and why, where Grus chooses the size."""
    seats: tuple[Seat, ...] = ()
    """Where it would start now."""
    affected: tuple[tuple[JobId, str, str], ...] = ()
    """Jobs that would give way: id, paused or shrunk, and the reason that they would be told."""
    change: str = ""
    """The cheapest change with which it would start now."""
    foreseen: Expectation | None = None
    expected: Expected | None = None
    """What it may be expected to take, from earlier runs."""
    warnings: tuple[str, ...] = ()
    """Traps in what was asked for."""


def _at_once(snapshot: Snapshot, now: float) -> Decisions:
    """What is decided when nobody is let finish an epoch: who will have to give way in the end."""
    return cycle.decide(snapshot, now, patient=False)


def plan(loop: ControlLoop, job: Job, blocked: str, now: float, decide: Decide = _at_once) -> Plan:
    """Decide with the job and without it; the difference is what it changes."""
    with loop.snapshot() as snapshot:
        without = {_key(action) for action in decide(snapshot, now).actions}
        snapshot.put(job, blocked)
        try:
            actions = [action for action in decide(snapshot, now).actions if _key(action) not in without]
            return replace(_told(snapshot, job, actions, now), warnings=warnings_of(job))
        finally:
            snapshot.put(replace(job, phase=Phase.STOPPED))


def _told(snapshot: Snapshot, job: Job, actions: list[Decision], now: float) -> Plan:
    affected = tuple(found for action in actions if (found := _affected(snapshot, action)) is not None)
    launch = job.spec.launch.value
    start = next((action for action in actions if isinstance(action, Start) and action.job == job.id), None)
    if start is not None:
        return Plan(
            fits=True,
            starts=NOW,
            sentence=start.reason,
            launch=launch,
            seats=start.seats,
            affected=affected,
        )
    why = explain(snapshot, job.id, now)
    return Plan(
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
    """What an action does, without its reason, which may name the newcomer."""
    return type(action), action.job, getattr(action, "seats", ())
