"""Trading: move GPUs between running jobs of one queue, from those that lose least to those that gain most.

One trade takes the step up that gains most and pays for it with the cheapest steps down; it is made only when
it gains more than it loses, the cost of every change counted. The sum of the values of all sizes rises with
every trade, so trades come to an end. Only jobs that were measured trade, and only inside their queue: quotas
alone decide what queues hold.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from grus.model.jobs import Phase
from grus.model.resources import GPU
from grus.scheduler.elasticity.grow_into_spare_gpus import growth, present_size
from grus.scheduler.elasticity.throughput_outlook import SizeStep
from grus.scheduler.placement.gang_placement import PLANNED, place
from grus.scheduler.preempt.reclaim_eligibility import Piece
from grus.scheduler.preempt.victim_candidates import shrink_step
from grus.scheduler.queues.nomination import behind_preemptor
from grus.scheduler.state.node_capacity_index import SOON

if TYPE_CHECKING:
    from grus.scheduler.cycle import Cycle
    from grus.scheduler.queues.ordering import Age
    from grus.scheduler.state.job_entry import Entry

UNLIMITED = float("inf")
TRIED = 4
"""Number of jobs of a queue that may look for a place in vain before the queue is skipped for this cycle."""

MARGIN = 1.02
"""Factor by which a trade's gain must exceed its loss: predictions are not exact, nor is arithmetic."""

Cheap = tuple[float, "Age", "Entry"]
"""Candidate to shrink: the price per replica of its next step down, its age and its entry."""


def trade(cycle: "Cycle") -> None:
    """Make the trades inside each queue as long as they gain something."""
    if not cycle.snapshot.policy.trades:
        return
    for leaf in cycle.tree.leaves:
        if leaf.elastic and leaf.by_type is None and leaf.calm != leaf.version:
            traders = [entry for entry in leaf.elastic.values() if _may_trade(cycle, entry)]
            if _trade_inside(cycle, traders) and len(traders) == len(leaf.elastic):
                leaf.calm = leaf.version


def _may_trade(cycle: "Cycle", entry: "Entry") -> bool:
    """Return whether it may trade: measured, on whole GPUs, and with nothing else under way."""
    return (
        entry.outlook is not None
        and entry.running
        and entry.job.phase is Phase.RUNNING
        and not entry.leaving
        and entry not in cycle.transaction.touched
        and entry.shape.parts[entry.shape.elastic].unit % GPU == 0
        and not behind_preemptor(cycle, entry)
    )


def _terms(cycle: "Cycle", entry: "Entry") -> tuple[float | None, SizeStep | None]:
    """Return the price per replica of the next step down (None at the minimum), and the next step up."""
    if entry in cycle.transaction.touched:
        return _work_out(cycle, entry)
    if entry.terms is None:
        entry.terms = _work_out(cycle, entry)
    return entry.terms


def _work_out(cycle: "Cycle", entry: "Entry") -> tuple[float | None, SizeStep | None]:
    ladder = cycle.snapshot.ladder(entry, present_size(cycle, entry))
    lower = entry.shape.lower_size(entry.size)
    return None if lower is None else ladder.price(entry.size, lower), ladder.up(entry.size)


def _trade_inside(cycle: "Cycle", traders: "list[Entry]") -> bool:
    """Make the trades that pay; return True when nothing could be gained at any place with room."""
    least = UNLIMITED
    useless = False
    for entry in traders:
        price = _terms(cycle, entry)[0]
        if price is not None and price < least:
            least = price
            useless = useless or price <= 0
    if useless:
        _give_up_useless(cycle, traders)
    wishes = [
        (-step.each, entry.age, entry, step)
        for entry in traders
        if (step := _terms(cycle, entry)[1]) is not None and step.each > MARGIN * least
    ]
    vain = 0
    for _, _, entry, step in sorted(wishes):
        if entry in cycle.transaction.touched:
            continue  # It has given GPUs itself.
        vain += not _buy(cycle, entry, step, traders)
        if vain >= TRIED:
            break
    return not wishes and not useless


def _give_up_useless(cycle: "Cycle", traders: "list[Entry]") -> None:
    """Release to the pool replicas without which a job is better off."""
    for entry in traders:
        while (price := _terms(cycle, entry)[0]) is not None and price <= 0 < -_loss(cycle, entry):
            cycle.transaction.unseat(entry, shrink_step(entry))


def _loss(cycle: "Cycle", entry: "Entry") -> float:
    """Return the loss per replica of the next step down."""
    lower = entry.shape.lower_size(entry.size)
    assert lower is not None
    return cycle.snapshot.ladder(entry, present_size(cycle, entry)).loss(entry.size, lower)


def _buy(cycle: "Cycle", buyer: "Entry", step: SizeStep, traders: "list[Entry]") -> bool:
    """Make one step up, paid for by the cheapest steps down; return False, with nothing changed, if it does
    not pay.
    """
    transaction = cycle.transaction
    start, freed_before = transaction.mark(), transaction.freed
    asking = growth(buyer, step.size, owed=False)
    taken: list[Piece] = []
    missing = asking.amount
    for price, piece in _cheapest(cycle, buyer, traders):
        if price * MARGIN >= step.each:
            break
        transaction.unseat(piece.entry, piece.places)
        taken.append(piece)
        missing -= piece.amount
        if missing > 0 or buyer.lacks_allowance(asking.amount, SOON):
            continue
        found = place(transaction, asking.shape, asking.counts, SOON, PLANNED, buyer.places)
        if found is not None:
            transaction.seat(buyer, tuple(found), now=False)
            cycle.note_victims(buyer, taken)
            return True
    transaction.undo(start)
    transaction.freed = freed_before  # Everything is restored.
    return False


def _cheapest(cycle: "Cycle", buyer: "Entry", traders: "list[Entry]") -> Iterator[tuple[float, Piece]]:
    """Yield the steps down, the one with the lowest price per replica first."""
    heap: list[Cheap] = []
    for entry in traders:
        bought = entry.places and entry.places[-1].born == PLANNED
        if entry is not buyer and not bought and (price := _terms(cycle, entry)[0]) is not None:
            heap.append((price, entry.age, entry))
    heapify(heap)
    while heap:
        price, age, entry = heappop(heap)
        yield price, Piece(entry, shrink_step(entry), surplus=True)
        if (following := _terms(cycle, entry)[0]) is not None:
            heappush(heap, (following, age, entry))
