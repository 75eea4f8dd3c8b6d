"""Sentences for decisions: what was done to a job, and for whom."""

from typing import TYPE_CHECKING

from grus.model.queues import gpus
from grus.scheduling.topology import SOON

if TYPE_CHECKING:
    from grus.scheduling.cycle import Cycle, Victim
    from grus.scheduling.snapshot import Entry


def started_reason(cycle: "Cycle", entry: "Entry") -> str:
    nodes = sorted({place.node.id for place in entry.places})
    queue = entry.queue
    held, quota = queue.held[SOON], queue.quota
    where = f"{gpus(entry.held)} GPU{_s(entry.held)} on {', '.join(nodes)}"
    if held <= quota:
        return f"{where}: inside the quota of {queue.name} ({gpus(held)} of {gpus(quota)})"
    return f"{where}: over quota on idle GPUs ({queue.name} now holds {gpus(held)}, quota {gpus(quota)})"


def paused_reason(cycle: "Cycle", entry: "Entry", victim: "Victim | None") -> str:
    if victim is None:
        return "paused to make room"
    by = victim.preemptor
    if victim.moved:
        return f"moved to make room on one node for {_named(by)}"
    if by.queue is entry.queue:
        return f"{_named(by)} has priority {by.priority} against {entry.priority} and needs {gpus(by.shape.minimum)} GPUs"
    owed = "inside its quota" if by.queue.held[SOON] <= by.queue.quota else "below its fair share"
    return f"{entry.queue.name} was over quota; {_named(by)} of {by.queue.name} is {owed} and needs {gpus(by.shape.minimum)} GPUs"


def resized_reason(cycle: "Cycle", entry: "Entry", added: int, given: int, victim: "Victim | None") -> str:
    if given and victim is not None:
        return f"gave back {given} of its GPUs above the minimum: {_named(victim.preemptor)} of {victim.preemptor.queue.name} needs them"
    if given:
        return f"gave back {given} as its size was set"
    return f"grew by {added}: GPUs were idle and {entry.queue.name} was next"


def _named(entry: "Entry") -> str:
    return f"{entry.job.spec.name} ({entry.id})"


def _s(amount: int) -> str:
    return "" if amount <= 1_000_000 else "s"
