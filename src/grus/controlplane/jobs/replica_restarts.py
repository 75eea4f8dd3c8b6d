"""Replicas of a served model: each answers independently, so the end of one is not the end of the others.
Pure.

    answers → ends, for any reason → waits (1, 2, 4 … seconds) → another boots in the same placement

As long as one of them lives, the attempt continues and the others are replaced one by one, without limit.
When none does, the attempt is over and the job starts again as a whole, with the same pauses; its GPUs are
free meanwhile. A replica that has lived long starts again with the shortest pause.
"""

from collections.abc import Sequence
from dataclasses import replace

from grus.controlplane.workers import exit_status
from grus.controlplane.workers.exit_status import Statuses
from grus.controlplane.workers.worker_launch_spec import Member, members
from grus.model.interfaces import WorkerStatus
from grus.model.jobs import LONGEST_BACK_OFF, Job, JobType, job_backoff

STEADY = LONGEST_BACK_OFF
"""Seconds after which earlier failures no longer count."""


def apart(job: Job) -> bool:
    """Return whether its workers are independent of each other."""
    return job.spec.type is JobType.SERVE


def firm(job: Job, staying: Sequence[Member], own: Statuses) -> list[Member]:
    """Return the members on which the attempt depends: of replicas the living ones, as long as there
    are any.
    """
    if not apart(job) or not any(exit_status.alive(own.get(member.id)) for member in staying):
        return list(staying)
    return [member for member in staying if exit_status.alive(own.get(member.id))]


def replaced(job: Job, own: Statuses, now: float) -> tuple[Job, str] | None:
    """Return the job with new replicas in place of ended ones whose pause is over, and the text of the
    event.
    """
    due = [member for member in _ended(job, own) if now >= _again_at(member, own[member.id])]
    if not due:
        return None
    staying = [member for member in members(job) if not member.leaving]
    generation = job.generation + 1
    anew = {
        seat: replace(seat, born=generation, tries=_failures(member, own[member.id]))
        for member in due
        for seat in member.seats
    }
    notes = [
        f"{exit_status.name(member, staying)} ended ({exit_status.how(own[member.id])})" for member in due
    ]
    changed = replace(job, generation=generation, seats=tuple(anew.get(seat, seat) for seat in job.seats))
    whom = "another starts in its place" if len(due) == 1 else "others start in their places"
    return changed, f"{'; '.join(notes)}; {whom}"


def next_look(job: Job, own: Statuses) -> float | None:
    """Return the time at which the next one is replaced."""
    return min((_again_at(member, own[member.id]) for member in _ended(job, own)), default=None)


def failures_after(job: Job, now: float) -> int:
    """Return how many times in a row the whole job has failed, this time included."""
    lived = now - (job.started_at or now)
    return 1 if lived >= STEADY else job.failures + 1


def _ended(job: Job, own: Statuses) -> list[Member]:
    if not apart(job):
        return []
    return [one for one in members(job) if not one.leaving and exit_status.over(own.get(one.id))]


def _failures(member: Member, status: WorkerStatus) -> int:
    """Workers that have ended here in a row, this one included."""
    ended, started = status.ended_at, status.started_at
    lived = 0.0 if ended is None or started is None else ended - started
    return 1 if lived >= STEADY else member.seats[0].tries + 1


def _again_at(member: Member, status: WorkerStatus) -> float:
    return (status.ended_at or 0.0) + job_backoff(_failures(member, status))
