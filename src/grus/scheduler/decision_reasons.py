"""Reasons of decisions, as sentences: the change of a job, and the job for which it was made."""

from typing import TYPE_CHECKING

from grus.model.jobs import JobType
from grus.model.queues import gpus
from grus.model.resources import GPU, replica_words
from grus.scheduler.preempt.epoch_windows import hung, phase
from grus.scheduler.state.node_capacity_index import SOON

NEAR = 1.0
"""Seconds after the beginning of an epoch in which the lost work is negligible."""

if TYPE_CHECKING:
    from grus.scheduler.cycle import Victim
    from grus.scheduler.state.job_entry import Entry


def started_reason(entry: "Entry") -> str:
    """Describe the nodes on which it starts, and the right by which it does."""
    nodes = sorted({place.node.id for place in entry.places})
    queue = entry.queue
    held, quota = queue.held[SOON], queue.quota
    where = f"{_count(entry.held)} on {', '.join(nodes)}"
    if entry.never:
        never = gpus(queue.never_held)
        return f"{where}: never preempted, inside the quota of {queue.name} ({never} of {gpus(quota)} so)"
    if held <= quota:
        return f"{where}: inside the quota of {queue.name} ({gpus(held)} of {gpus(quota)})"
    return f"{where}: over quota on idle GPUs ({queue.name} now holds {gpus(held)}, quota {gpus(quota)})"


def paused_reason(entry: "Entry", victim: "Victim | None", now: float) -> str:
    """Describe the job for which it is paused, and the work that it loses as far as its period is known."""
    return _for_whom(entry, victim) + _by_rhythm(entry, now)


def _by_rhythm(entry: "Entry", now: float) -> str:
    if hung(entry.tag, now):
        return "; it had hung and loses nothing"
    found = phase(entry.tag, now)
    if found is None:
        return ""
    if found.since <= NEAR:
        return f"; it goes at the end of an epoch (one every {found.period:.0f} s)"
    return f"; it is {found.since:.0f} s into an epoch of {found.period:.0f} s"


def _for_whom(entry: "Entry", victim: "Victim | None") -> str:
    if victim is None:
        return "paused to make room"
    by = victim.preemptor
    need = f"needs {_count(by.shape.minimum)}"
    if victim.moved:
        return f"moved to make room on one node for {_named(by)}"
    if by.queue is entry.queue:
        return f"{_named(by)} has priority {by.priority} against {entry.priority} and {need}"
    right = "inside its quota" if by.queue.held[SOON] <= by.queue.quota else "below its fair share"
    return f"{entry.queue.name} was over quota; {_named(by)} of {by.queue.name} is {right} and {need}"


def resized_reason(entry: "Entry", added: int, given: int, victim: "Victim | None") -> str:
    """Explain why it grew or shrank."""
    if given and victim is not None:
        by = victim.preemptor
        return f"gave back {_seats(given)} above its minimum, for {_named(by)} of {by.queue.name}"
    if given:
        return f"gave back {_seats(given)}, as its size was set"
    if entry.job.spec.type is JobType.SERVE:
        return f"grew by {replica_words(str(added))}: there was room"
    return f"grew by {added}: GPUs were idle and {entry.queue.name} was next"


def _named(entry: "Entry") -> str:
    return f"{entry.job.spec.name} ({entry.id})"


def _seats(number: int) -> str:
    return f"{number} seat{'' if number == 1 else 's'}"


def _count(amount: int) -> str:
    return f"{gpus(amount)} GPU{'' if amount <= GPU else 's'}"
