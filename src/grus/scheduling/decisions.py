"""What `decide` answers: a list of changes, each with its reason, and when to ask again."""

from dataclasses import dataclass, replace

from grus.model.identifiers import JobId
from grus.model.jobs import Job, Seat
from grus.model.resources import GPU


@dataclass(frozen=True, slots=True)
class Start:
    """Start, or resume, a job on these seats. All of them are free now."""

    job: JobId
    seats: tuple[Seat, ...]
    reason: str
    backfill_until: float | None = None
    """Set when the job was let past a reservation; it is paused if it still runs then."""
    guest_of: JobId | None = None
    """With whom it shares that GPU, as a guest."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Take everything from a job for the sake of another; it keeps its place and resumes by itself."""

    job: JobId
    reason: str
    preemptor: JobId | None = None
    """For whom; the paused job waits behind it."""


@dataclass(frozen=True, slots=True)
class Resize:
    """Give a running job this membership: staying seats as they are, new ones, and leaving ones marked."""

    job: JobId
    seats: tuple[Seat, ...]
    reason: str
    preemptor: JobId | None = None
    """For whom it gives seats back; it does not grow before that one has them."""


@dataclass(frozen=True, slots=True)
class Share:
    """Let a running job hold another part of the one GPU that it is on. Its worker goes on as it is."""

    job: JobId
    share: int
    """Micro-GPUs from now on."""
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
    """Decide again then, even if nothing happens: a guard, a back-off or a reservation runs out."""
    put_off: tuple[JobId, ...] = ()
    """Jobs that will have to make room, but are let finish their epochs first; in order of their ids."""


def with_share(job: Job, share: int) -> Job:
    """The job when it holds that much of its GPU; with a whole one it is nobody's guest any more."""
    seats = tuple(replace(seat, share=share) for seat in job.seats)
    return replace(job, seats=seats, guest_of=None if share == GPU else job.guest_of)


def new_seats(job: Job, wanted: tuple[Seat, ...], generation: int) -> tuple[Seat, ...]:
    """What a job holds after a resize: the wanted seats, new ones born now, and every seat held so far still
    there at least as leaving."""
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
