"""Decisions: the answer of `decide`. A list of changes, each with its reason, and the time of the next
decision.
"""

from dataclasses import dataclass, replace

from grus.model.identifiers import JobId
from grus.model.jobs import Job, Seat
from grus.model.resources import GPU


@dataclass(frozen=True, slots=True)
class Start:
    """Start, or resume, a job with these placements. All of them are free now."""

    job: JobId
    seats: tuple[Seat, ...]
    reason: str
    backfill_until: float | None = None
    """Deadline of a job that was backfilled past a reservation; it is paused if it still runs then."""
    guest_of: JobId | None = None
    """Primary job with which it shares that GPU, as the secondary."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Take all GPUs of a job for another one; it keeps its place in line and resumes by itself."""

    job: JobId
    reason: str
    preemptor: JobId | None = None
    """Preempting job; the paused job waits behind it."""


@dataclass(frozen=True, slots=True)
class Resize:
    """Give a running job this membership: staying placements as they are, new ones, and leaving ones
    marked.
    """

    job: JobId
    seats: tuple[Seat, ...]
    reason: str
    preemptor: JobId | None = None
    """Job for which it gives GPUs back; it does not grow before that job has them."""


@dataclass(frozen=True, slots=True)
class Share:
    """Change the share of a running job on its one GPU. Its worker continues unchanged."""

    job: JobId
    share: int
    """New share in micro-GPUs."""
    reason: str


@dataclass(frozen=True, slots=True)
class Requeue:
    """End an attempt whose device is no longer healthy; the job waits again and is not charged."""

    job: JobId
    reason: str


Decision = Start | Pause | Resize | Share | Requeue


@dataclass(frozen=True, slots=True)
class Decisions:
    """The net difference of one cycle, victims first."""

    actions: tuple[Decision, ...] = ()
    wake_at: float | None = None
    """Time of the next decision, even if nothing happens: a guard, a back-off or a reservation runs out."""
    put_off: tuple[JobId, ...] = ()
    """Jobs that will have to make room, but may finish their epochs first; in order of their ids."""


def with_share(job: Job, share: int) -> Job:
    """Return the job with that share of its GPU; with a whole GPU it is no longer a secondary job."""
    seats = tuple(replace(seat, share=share) for seat in job.seats)
    return replace(job, seats=seats, guest_of=None if share == GPU else job.guest_of)


def new_seats(job: Job, wanted: tuple[Seat, ...], generation: int) -> tuple[Seat, ...]:
    """Return the placements of a job after a resize: the wanted ones, with new ones born now, and every
    previous one still present, at least as leaving.
    """
    held = {_place(seat): seat for seat in job.seats}
    kept = {}
    new = []
    for seat in wanted:
        before = held.get(_place(seat))
        if before is None:
            new.append(replace(seat, born=generation, leaving=False))
        else:
            kept[_place(seat)] = replace(before, leaving=seat.leaving or before.leaving)
    old = [kept.get(place, replace(seat, leaving=True)) for place, seat in held.items()]
    return tuple(old + new)


def _place(seat: Seat) -> tuple[object, ...]:
    return seat.role, seat.index, seat.born, seat.node, seat.devices
