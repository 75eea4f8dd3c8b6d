"""Applied decisions: turn the scheduler's decision into the job's next state. Pure: job + decision + now →
new job and event, or None.

None means that the decision no longer applies to the job as it stands; the next pass decides again.
Applying a decision never drops a placement: one that is given back is marked as leaving until the death of
its worker is confirmed.
"""

from dataclasses import replace

from grus.controlplane.jobs.lifecycle import JobChange, change, ending
from grus.controlplane.jobs.user_actions import saving_words
from grus.controlplane.jobs.worker_group_membership import team
from grus.model.jobs import (
    HOLDING,
    Desired,
    Exit,
    ExitCause,
    Job,
    PauseCause,
    Phase,
    adapts,
    resizes_live,
)
from grus.model.saving import saves
from grus.model.texts.plural_words import counted
from grus.scheduler.decisions import Decision, Pause, Requeue, Resize, Share, Start, new_seats, with_share

SETTLING = 60.0
"""Seconds after the start of a job that may have to be restarted to grow, in which it does not grow: a
restart should pay, and its workers may still prove able to resize by themselves.
"""


def rule(job: Job, decision: Decision, now: float) -> JobChange | None:
    """Return the change that applies this decision to the job."""
    if job.desired is not Desired.RUN:
        return None
    match decision:
        case Start():
            return _start(job, decision, now)
        case Pause():
            return _pause(job, decision, now)
        case Resize():
            return _resize(job, decision, now)
        case Share():
            return _share(job, decision, now)
        case Requeue():
            return _requeue(job, decision, now)


def gives_first(decision: Decision) -> int:
    """Sort key: decisions that free GPUs are written before those that take them, so that a crash between
    them leaves GPUs idle, not allocated twice.
    """
    match decision:
        case Requeue():
            return 0
        case Pause():
            return 1
        case Resize():
            return 2 if any(seat.leaving for seat in decision.seats) else 3
        case Share():
            return 3
        case Start():
            return 4


def _start(job: Job, decision: Start, now: float) -> JobChange | None:
    if job.phase not in (Phase.PENDING, Phase.PAUSED) or job.seats:
        return None
    started = replace(
        job,
        phase=Phase.STARTING,
        attempt=job.attempt + 1,
        generation=1,
        team=0,
        team_at=None,
        broken=0,
        seats=tuple(replace(seat, born=1, leaving=False) for seat in decision.seats),
        started_at=now,
        first_started_at=now if job.first_started_at is None else job.first_started_at,
        paused_by=None,
        made_room_for=None,
        backfill_until=decision.backfill_until,
        guest_of=decision.guest_of,
        not_before=now + SETTLING if job.spec.request.elastic and not adapts(job.spec) else 0.0,
        exit=None,
    )
    return change(started, "starting", now, decision.reason)


def _pause(job: Job, decision: Pause, now: float) -> JobChange | None:
    if job.phase not in (Phase.STARTING, Phase.RUNNING) or ending(job):
        return None
    paused = replace(
        job, phase=Phase.PAUSING, paused_by=PauseCause.SCHEDULER, made_room_for=decision.preemptor
    )
    text = decision.reason if saves(job) else f"{decision.reason}; {saving_words(job, now)}"
    return change(paused, "pausing", now, text, reason=decision.reason)


def _resize(job: Job, decision: Resize, now: float) -> JobChange | None:
    if job.phase not in (Phase.STARTING, Phase.RUNNING) or ending(job):
        return None
    if not resizes_live(job):  # it saves and restarts with other GPUs
        return _pause(job, Pause(job.id, decision.reason, decision.preemptor), now)
    generation = job.generation + 1
    seats = new_seats(job, decision.seats, generation)
    if seats == job.seats:
        return None
    resized = replace(job, seats=seats, generation=generation, made_room_for=decision.preemptor)
    if job.team:
        if not team(resized):  # their work would be lost with them
            return _pause(job, Pause(job.id, decision.reason, decision.preemptor), now)
        if len(team(resized)) < len(team(job)):
            resized = replace(resized, team=job.team + 1, team_at=now)
    before, after = len(job.staying), len(resized.staying)
    verb = "grows" if after > before else "shrinks" if after < before else "moves"
    text = f"{verb} from {before} to {counted(after, 'worker')}: {decision.reason}"
    return change(resized, "resized", now, text, reason=decision.reason)


def _share(job: Job, decision: Share, now: float) -> JobChange | None:
    if job.phase not in (Phase.STARTING, Phase.RUNNING) or ending(job) or len(job.seats) != 1:
        return None
    return change(with_share(job, decision.share), "shared", now, decision.reason)


def _requeue(job: Job, decision: Requeue, now: float) -> JobChange | None:
    if job.phase not in HOLDING or ending(job):
        return None
    leaving = tuple(replace(seat, leaving=True) for seat in job.seats)
    lost = Exit(ExitCause.LOST, None, decision.reason)
    return change(replace(job, exit=lost, seats=leaving), "ending", now, decision.reason)
