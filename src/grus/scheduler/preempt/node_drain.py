"""Draining: jobs leave drained nodes, as far as they lose nothing by it.

An elastic job gives back its GPUs there and keeps the others. A job that saves its work is paused, and
restarts on another node when there is room. A job that does not save, a session and a non-preemptible job run
to their end there.
"""

from typing import TYPE_CHECKING

from grus.model import saving
from grus.model.jobs import Job
from grus.scheduler.placement.gang_placement import Place
from grus.scheduler.preempt.epoch_windows import resizes_from_zero
from grus.scheduler.preempt.victim_candidates import shrink_step

if TYPE_CHECKING:
    from grus.scheduler.cycle import Cycle
    from grus.scheduler.state.job_entry import Entry


def leave_drained(cycle: "Cycle") -> None:
    """Remove jobs that have to leave from their placements; the reason of each goes to `cycle.parted`."""
    if not cycle.pool.draining:
        return
    there = [entry for entry in cycle.snapshot.holders() if entry.running and on_drained(entry)]
    for entry in sorted(there, key=lambda one: one.age):
        if not movable(entry):
            continue
        cycle.parted[entry] = drain_words(on_drained(entry)[0])
        _shrink(cycle, entry)
        if on_drained(entry):
            cycle.transaction.unseat(entry, entry.places)


def on_drained(entry: "Entry") -> tuple[Place, ...]:
    return tuple(place for place in entry.places if place.node.drain is not None)


def movable(entry: "Entry") -> bool:
    """Return True if it loses no work by a pause, and may be paused."""
    return movable_job(entry.job)


def movable_job(job: Job) -> bool:
    """Return the same for a job that is in no snapshot."""
    return not job.spec.never_preempted and saving.saves(job)


def _shrink(cycle: "Cycle", entry: "Entry") -> None:
    """Give back an elastic job's GPUs on drained nodes, if its minimum has room on the others."""
    if entry.shape.elastic < 0 or resizes_from_zero(entry):
        return
    mark = cycle.transaction.mark()
    while on_drained(entry):
        step = shrink_step(entry, cycle.pool.draining)
        if not step or not any(place.node.drain is not None for place in step):
            cycle.transaction.undo(mark)
            return
        cycle.transaction.unseat(entry, step)


def drain_words(place: Place) -> str:
    """Return the reason that it has to leave, with the administrator's message."""
    drain = place.node.drain
    said = f": {drain.message}" if drain is not None and drain.message else ""
    return f"node {place.node.id} is being drained{said}"
