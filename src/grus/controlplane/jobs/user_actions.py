"""User actions on a job: pause, resume, stop, scale. Pure: job + action + now → new job and event, or None.

None means that the job is already as requested: every action can be repeated. An action that the job's state
forbids raises Conflict with a sentence that names the state. An action never frees a placement; only
`lifecycle` does.
"""

from dataclasses import replace

from grus.controlplane.jobs.lifecycle import JobChange, change
from grus.model.errors import BadInput, Conflict, Mistake
from grus.model.identifiers import UserName
from grus.model.jobs import (
    HOLDING,
    Desired,
    Exit,
    ExitCause,
    Job,
    JobType,
    PauseCause,
    Phase,
    worker_per_seat,
)
from grus.model.resources import Range, replica_words
from grus.model.saving import lost_by_pause, saves
from grus.model.texts.units import render_seconds

LOST = "its processes end and what is only in their memory is lost"
"""Warning for a session: a stopped process frees no GPU memory, so a session that is paused ends."""
SWEEP_SAVES = "its trials are saving their work"
SWEEP_LOSES = "its trials have no checkpoint, so their work is lost and they restart from zero"


def saving_words(job: Job, now: float) -> str:
    """Describe the effect of a pause on the work of a running job."""
    if not job.spec.has_workers:
        return SWEEP_SAVES if saves(job) else SWEEP_LOSES
    if job.spec.type is JobType.SERVE:
        return "its replicas end"
    if saves(job):
        return "it is saving its work"
    if job.spec.type is JobType.DEV:
        return LOST
    lost = render_seconds(round(lost_by_pause(job, now)))
    return f"it has no checkpoint, so {lost} of work are lost and it restarts from zero"


def loss_words(job: Job) -> str:
    """Describe what a pause would lose now, without its amount; empty if it loses nothing."""
    if saves(job) or job.phase not in HOLDING:
        return ""
    if not job.spec.has_workers:
        return SWEEP_LOSES
    return LOST if job.spec.type is JobType.DEV else "all its work is lost and it restarts from zero"


def pause(job: Job, who: str, now: float, cause: PauseCause = PauseCause.PERSON) -> JobChange | None:
    """Pause until somebody resumes it. A running job is asked to save and end; a waiting one stops
    waiting.
    """
    _refuse_ended(job, "pause")
    if job.desired is Desired.STOP:
        raise Conflict(f"job {job.id} is being stopped; it cannot be paused any more")
    if job.desired is Desired.PAUSE:
        return None
    asked = replace(job, desired=Desired.PAUSE, paused_by=cause)
    if job.phase in HOLDING:
        if job.phase is not Phase.PAUSING:
            asked = replace(asked, phase=Phase.PAUSING)
        text = f"paused by {who}; {saving_words(job, now)}"
        return change(asked, "pausing", now, text, reason=f"paused by {who}")
    until = "its sweep" if cause in (PauseCause.SWEEP, PauseCause.RUNG) else "somebody"
    return change(
        replace(asked, phase=Phase.PAUSED), "paused", now, f"paused by {who}, until {until} resumes it"
    )


def resume(job: Job, who: str, now: float) -> JobChange | None:
    """Resume the job, at the place in line that its time of submission gives it."""
    _refuse_ended(job, "resume")
    if job.desired is Desired.STOP:
        raise Conflict(f"job {job.id} is being stopped; it cannot be resumed any more")
    if job.desired is Desired.RUN:
        return None
    wanted = replace(job, desired=Desired.RUN)
    if not job.spec.has_workers:
        # A sweep whose trials are still pausing runs again at once; its trials are resumed one by one.
        phase = job.phase if job.phase is Phase.PAUSING else Phase.PENDING
        return change(replace(wanted, phase=phase), "resumed", now, f"resumed by {who}; so are its trials")
    if job.phase is Phase.PAUSING:  # it ends this attempt, and then starts again by itself
        wanted = replace(wanted, paused_by=PauseCause.SCHEDULER)
        return change(
            wanted, "resumed", now, f"resumed by {who} while it was pausing; it starts again by itself"
        )
    wanted = replace(wanted, phase=Phase.PENDING, paused_by=None)
    return change(wanted, "resumed", now, f"resumed by {who}; it waits for GPUs")


def stop(job: Job, who: str, now: float) -> JobChange | None:
    """Stop for good. GPUs are free when all its processes are gone."""
    if job.phase is Phase.STOPPED or job.desired is Desired.STOP:
        return None
    _refuse_ended(job, "stop")
    asked = replace(job, desired=Desired.STOP)
    if job.phase in HOLDING:
        what = "its processes" if job.spec.has_workers else "its trials"
        return change(asked, "stopping", now, f"stopped by {who}; {what} are ending")
    over = replace(asked, phase=Phase.STOPPED, ended_at=now, exit=Exit(ExitCause.STOPPED))
    return change(
        over, "stopped", now, f"stopped by {who} before it ran" if not job.attempt else f"stopped by {who}"
    )


def scale(job: Job, size: Range | None, who: UserName, now: float) -> JobChange | None:
    """Pin the number of replicas of the elastic role, or narrow its range; None restores the spec's own."""
    _refuse_ended(job, "scale")
    if not job.spec.has_workers:
        raise Conflict(f"job {job.id} is a sweep and has no workers; only its trials can be scaled")
    role = job.spec.request.elastic
    if role is None:
        raise Conflict(
            f"job {job.id} has a fixed size; only a job that asks for a range (gpu: 2..8) can be scaled"
        )
    if not worker_per_seat(job.spec):
        how = job.spec.launch.value
        raise Conflict(f"job {job.id} is launched {how}; only launch per-gpu can change its size")
    if size is not None:
        _check_size(job, role.replicas, size)
    if size == job.size:
        return None
    told = size or role.replicas
    words = replica_words(told) if job.spec.type is JobType.SERVE else str(told)
    text = f"scaled to {words} {'' if size else '(as submitted) '}by {who}"
    # The reason of the job's state has not changed yet.
    asked = replace(job, size=size)
    if job.phase in HOLDING:
        asked = replace(asked, not_before=0.0)  # a user's action need not wait until growing pays
    return change(asked, "scaled", now, text, reason=job.reason)


def _check_size(job: Job, range_: Range, size: Range) -> None:
    allowed = job.spec.request.allowed
    rule = f"must lie within {range_}"
    if range_.low <= size.low <= size.high <= range_.high:
        if any(size.low <= number <= size.high for number in allowed):
            return
        rule = f"must contain one of the sizes it can use: {', '.join(map(str, allowed))}"
    raise BadInput([Mistake("size", rule, str(size))])


def _refuse_ended(job: Job, wish: str) -> None:
    if job.terminal:
        raise Conflict(f"job {job.id} has already {_ended(job.phase)}; there is nothing to {wish}")


def _ended(phase: Phase) -> str:
    return {Phase.STOPPED: "been stopped"}.get(phase, phase.value)
