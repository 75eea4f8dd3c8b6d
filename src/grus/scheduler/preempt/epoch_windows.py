"""Epoch periods: the work that a job would lose by being paused, by its tag, and the moment when it loses
least.

A training that saves at the end of each epoch loses its work since the present epoch began. So among equals
the one nearest to a boundary is preempted, and if its boundary is ahead and near, it may reach it: it
computes meanwhile, only the job that it makes room for waits, and never longer than `LONGEST_WAIT` after that
job began to wait. A tag reaches the snapshot only when it differs by something that a decision looks at
(`is_news`). Pure functions of values.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from grus.model import saving
from grus.model.activity_labels import Tag, WorkloadKind
from grus.model.jobs import resizes_live

if TYPE_CHECKING:
    from grus.scheduler.preempt.reclaim_eligibility import CapacityRequest, Piece
    from grus.scheduler.state.job_entry import Entry

LONGEST_WAIT = 60.0
"""Seconds from the start of a request's wait in which it lets others finish their epochs; of the order of the
grace period that a pause takes anyway, and of the minimum run time.
"""
SHORTEST = 5.0
"""Seconds: shorter periods are left to the pause itself, in which a worker finishes its step."""
AT_IT = 0.5
"""Seconds before the best moment that count as being at it: waking up takes time."""
SAFELY = (1.0, 0.02)
"""Seconds, and part of a period, after a boundary, whichever is more, until an epoch's work is surely saved:
a job that is paused a moment too early loses all of it, one that is paused a moment too late loses that
moment.
"""
PERIOD_NEWS = 0.05
"""Part of a period by which its length, or the moment of its next beginning, must differ to be published
again.
"""
MEMORY_NEWS = 0.05
"""Part of the published memory by which the peak must differ."""
USE_NEWS = 0.1
"""Minimum difference of utilization (0 to 1)."""
LASTING = 1e12
"""`expires` of a tag in the snapshot: the component that set it removes it, since time alone reports
nothing.
"""


class Phase(NamedTuple):
    """Position of a job in its period, in seconds."""

    since: float
    """Seconds since an epoch's work was safe: the loss of a job that saves at each boundary."""
    ahead: float
    """Seconds until the work of the next epoch is safe."""

    @property
    def period(self) -> float:
        return self.since + self.ahead

    def lost(self, wait: float) -> float:
        """Return the work that it would lose if it were paused after so many seconds."""
        return self.since + wait if wait < self.ahead else (wait - self.ahead) % self.period


def phase(tag: Tag | None, now: float) -> Phase | None:
    """Return the position of a training in its epoch; None if unknown, or if epochs are too short to
    matter.
    """
    if (
        tag is None
        or tag.kind not in (WorkloadKind.TRAINING, WorkloadKind.RETRAINING)
        or hung(tag, now)
        or not tag.live(now)
    ):
        return None
    if tag.period is None or tag.boundary is None or tag.period < SHORTEST:
        return None
    since = (now - tag.boundary - safely(tag.period)) % tag.period
    return Phase(0.0, tag.period) if tag.period - since < AT_IT else Phase(since, tag.period - since)


def safely(period: float) -> float:
    """Return the seconds after the beginning of an epoch when the work of the last one is surely saved."""
    return max(SAFELY[0], SAFELY[1] * period)


def hung(tag: Tag | None, now: float) -> bool:
    """Return whether it makes no progress though it holds its GPUs."""
    return tag is not None and tag.hung_since is not None and tag.live(now)


def safe_since(entry: "Entry", now: float, until: float) -> float:
    """Return the moment up to which a job's work is safe if it is preempted at its best moment between now
    and `until`; the seconds that the other job would wait for that moment count like lost ones.
    """
    if hung(entry.tag, now):
        return now
    found = phase(entry.tag, now)
    if found is None or not saves(entry):
        return entry.saved_at
    wait = found.ahead if now + found.ahead <= until else found.since
    return max(entry.saved_at, now - min(found.since, wait))


def saves(entry: "Entry") -> bool:
    """Return whether the job is known to save its work: else an ended epoch is lost like any other work."""
    return saving.saves(entry.job)


def resizes_from_zero(entry: "Entry") -> bool:
    """Return True if a change of its size loses all its work: it restarts, and does not save."""
    return not resizes_live(entry.job) and not saves(entry)


def wait_until(asking: "CapacityRequest", now: float) -> float:
    """Return the time until which a request lets others finish their epochs. Growth does not wait, nor does a
    non-preemptible request: there a person waits.
    """
    if not asking.minimum or asking.entry.never:
        return now
    job = asking.entry.job
    return max(now, max(job.submitted_at, job.ended_at or 0.0) + LONGEST_WAIT)


def moment(amount: int, taken: "Iterable[Piece]", now: float, until: float) -> float:
    """Return the moment when all of these should make room for a request of that size: the sum of GPU-seconds
    that they lose and that it waits is least. The later moments are beginnings of epochs, so time alone
    never delays it: the best moment stays the best until it comes.
    """
    held: dict[Entry, int] = {}
    for piece in taken:
        held[piece.entry] = held.get(piece.entry, 0) + piece.amount
    known = [(gpus, found) for entry, gpus in held.items() if (found := phase(entry.tag, now)) is not None]
    waiting = amount + sum(held.values()) - sum(gpus for gpus, _ in known)

    def cost(wait: float) -> tuple[float, float]:
        return waiting * wait + sum(gpus * found.lost(wait) for gpus, found in known), wait

    waits = [found.ahead for _, found in known if now + found.ahead <= until]
    return now + min([0.0, *waits], key=cost)


# ------------------------------------------------------------------------------------------------- news


def is_news(told: Tag | None, tag: Tag | None, now: float) -> bool:
    """Return whether a tag differs from the published one by something that decisions look at."""
    if told is None or tag is None:
        return told is not tag
    if (told.kind, told.hung_since is None) != (tag.kind, tag.hung_since is None):
        return True
    return _other_rhythm(told, tag, now) or _other_needs(told, tag)


def _other_rhythm(told: Tag, tag: Tag, now: float) -> bool:
    before, after = told.next_boundary(now), tag.next_boundary(now)
    if before is None or after is None:
        return before is not after
    assert told.period is not None, "a boundary is one of a period"
    assert tag.period is not None, "a boundary is one of a period"
    apart = abs(after - before) % tag.period
    apart = min(apart, tag.period - apart)
    return max(apart, abs(tag.period - told.period)) > PERIOD_NEWS * told.period


def _other_needs(told: Tag, tag: Tag) -> bool:
    if _known(told) != _known(tag):
        return True
    memory = abs((tag.peak_memory or 0) - (told.peak_memory or 0))
    use = abs((tag.utilisation or 0.0) - (told.utilisation or 0.0))
    return memory > MEMORY_NEWS * (told.peak_memory or 0) or use > USE_NEWS


def _known(tag: Tag) -> tuple[bool, bool]:
    return (tag.peak_memory is None, tag.utilisation is None)
