"""Defragmentation: move running jobs together, so that one that needs a whole node gets it.

Only for a request inside quota, only preemptible jobs, and only if everything moved provably fits elsewhere:
the whole rearrangement is tried before any job is changed.
"""

from typing import TYPE_CHECKING

from grus.model.resources import GPU
from grus.scheduler.placement.gang_placement import PLANNED, place
from grus.scheduler.preempt.preemption import NODES_TRIED
from grus.scheduler.preempt.reclaim_eligibility import CapacityRequest, Piece
from grus.scheduler.state.node_capacity_index import SOON, NodeState

if TYPE_CHECKING:
    from grus.scheduler.cycle import Cycle
    from grus.scheduler.state.job_entry import Entry


def defragment(cycle: "Cycle", asking: CapacityRequest) -> bool:
    """Clear a node for the request by moving its jobs; return False, with nothing changed, if no node can be
    cleared.
    """
    shape = asking.shape
    kinds = shape.kinds
    free = max(cycle.pool.whole_free_of(group, shape.nodes, SOON) for group in shape.groups) * GPU
    if free < asking.amount or asking.entry.breaks(asking.amount, cycle.capacity, SOON):
        return False
    roomiest = sorted(
        cycle.pool.each(shape.nodes), key=lambda n: (-sum(n.counts[SOON].get(k, 0) for k in kinds), n.index)
    )
    return any(_clear(cycle, asking, node) for node in roomiest[:NODES_TRIED])


def _clear(cycle: "Cycle", asking: CapacityRequest, node: NodeState) -> bool:
    transaction = cycle.transaction
    start = transaction.mark()
    moved: list[Piece] = []
    for entry in _movable(cycle, node):
        moved.append(Piece(entry, entry.places, False))
        transaction.unseat(entry, entry.places)
        found, _ = cycle.find_places(asking, SOON, PLANNED)
        if found is None:
            continue
        transaction.seat(asking.entry, tuple(found), now=False)
        if all(_settle_elsewhere(cycle, piece) for piece in moved):
            cycle.note_victims(asking.entry, moved, moved=True)
            return True
        break
    transaction.undo(start)
    return False


def _movable(cycle: "Cycle", node: NodeState) -> "list[Entry]":
    here = [
        entry
        for leaf in cycle.tree.leaves
        for entry in leaf.running.values()
        if entry.running and not entry.never and any(place.node is node for place in entry.places)
    ]
    return sorted(here, key=lambda entry: (entry.held, entry.age))


def _settle_elsewhere(cycle: "Cycle", piece: Piece) -> bool:
    entry = piece.entry
    counts = entry.shape.counts()
    found = place(cycle.transaction, entry.shape, counts, SOON, PLANNED)
    if found is None:
        return False
    cycle.transaction.seat(entry, tuple(found), now=False)
    return True
