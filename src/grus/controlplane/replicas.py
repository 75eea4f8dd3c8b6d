"""Replicas of a served model: each answers by itself, so the end of one is not the end of the others. Pure.

    answers → ends, in whatever way → waits (1, 2, 4 … seconds) → another boots in the same seat

As long as one of them lives, the attempt goes on and the others are replaced one by one, for ever. When none
does, the attempt is over and the job starts again as a whole, with the same pauses; its GPUs are free
meanwhile. Whoever has lived long begins anew with the shortest pause.
"""

from collections.abc import Sequence
from dataclasses import replace

from grus.controlplane import ends
from grus.controlplane.ends import Statuses
from grus.controlplane.launching import Member, members
from grus.model.jobs import LONGEST_BACK_OFF, Job, JobType, back_off
from grus.model.ports import WorkerStatus

STEADY = LONGEST_BACK_OFF
"""Seconds after which what ended before counts no more."""


def apart(job: Job) -> bool:
    """Whether its workers need nothing of each other."""
    return job.spec.type is JobType.SERVE


def firm(job: Job, staying: Sequence[Member], own: Statuses) -> list[Member]:
    """Those on whom the attempt depends: of replicas the living ones, as long as there are any."""
    if not apart(job) or not any(ends.alive(own.get(member.id)) for member in staying):
        return list(staying)
    return [member for member in staying if ends.alive(own.get(member.id))]


def replaced(job: Job, own: Statuses, now: float) -> tuple[Job, str] | None:
    """The job with others in the place of those that have ended and whose pause is over, and what to say."""
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
    notes = [f"{ends.name(member, staying)} ended ({ends.how(own[member.id])})" for member in due]
    changed = replace(job, generation=generation, seats=tuple(anew.get(seat, seat) for seat in job.seats))
    whom = "another starts in its place" if len(due) == 1 else "others start in their places"
    return changed, f"{'; '.join(notes)}; {whom}"


def next_look(job: Job, own: Statuses) -> float | None:
    """When the next one is to be replaced."""
    return min((_again_at(member, own[member.id]) for member in _ended(job, own)), default=None)


def failures_after(job: Job, now: float) -> int:
    """How often the whole job has failed in a row, this time included."""
    lived = now - (job.started_at or now)
    return 1 if lived >= STEADY else job.failures + 1


def _ended(job: Job, own: Statuses) -> list[Member]:
    if not apart(job):
        return []
    return [one for one in members(job) if not one.leaving and ends.over(own.get(one.id))]


def _failures(member: Member, status: WorkerStatus) -> int:
    """Workers that have ended here in a row, this one included."""
    ended, started = status.ended_at, status.started_at
    lived = 0.0 if ended is None or started is None else ended - started
    return 1 if lived >= STEADY else member.seats[0].tries + 1


def _again_at(member: Member, status: WorkerStatus) -> float:
    return (status.ended_at or 0.0) + back_off(_failures(member, status))
