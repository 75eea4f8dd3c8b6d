"""Net changes of a cycle: one for every job that it touched, those that give GPUs first."""

from typing import TYPE_CHECKING

from grus.scheduler.decision_reasons import paused_reason, resized_reason, started_reason
from grus.scheduler.decisions import Decision, Decisions, Pause, Requeue, Resize, Share, Start
from grus.scheduler.placement.gang_placement import PLANNED, Place, to_seat
from grus.scheduler.state.transaction import SavedEntry

if TYPE_CHECKING:
    from grus.scheduler.cycle import Cycle
    from grus.scheduler.state.job_entry import Entry


def difference(cycle: "Cycle", requeued: "list[Entry]") -> Decisions:
    """Return the net changes, those that give GPUs first."""
    giving: list[Decision] = [
        Requeue(entry.id, f"its GPU {entry.broken} is not healthy any more") for entry in requeued
    ]
    taking: list[Decision] = []
    gone = set(requeued)
    for entry, before in cycle.transaction.touched.items():
        if entry in gone or entry in cycle.put_off:
            continue
        decision = _change(cycle, entry, before)
        if isinstance(decision, Pause) or (
            isinstance(decision, Resize) and len(decision.seats) <= len(before.places) + len(before.leaving)
        ):
            giving.append(decision)
        elif decision is not None:
            taking.append(decision)
    put_off = tuple(sorted(entry.id for entry in cycle.put_off))
    return Decisions(tuple(giving + taking), cycle.wake_at, put_off)


def _change(cycle: "Cycle", entry: "Entry", before: SavedEntry) -> Decision | None:
    settled = tuple(place for place in entry.places if place.born != PLANNED)
    if not before.running:
        if not entry.places or len(settled) < len(entry.places):
            return None
        seats = tuple(to_seat(entry.shape, place) for place in sorted(settled, key=_seat_order))
        if (lodging := cycle.lodgings.get(entry)) is not None:
            return Start(entry.id, seats, lodging.reason, guest_of=lodging.other.id)
        return Start(entry.id, seats, started_reason(entry), cycle.backfills.get(entry))
    victim = cycle.victims.get(entry)
    preemptor = None if victim is None else victim.preemptor.id
    if entry.shape.shares and (share := _other_share(entry, before)):
        lodging = cycle.lodgings.get(entry)
        return Share(entry.id, share, "has its GPU for itself again" if lodging is None else lodging.reason)
    kept = [place for place in before.places if place in set(settled)]
    if not kept:
        reason = cycle.parted.get(entry) or paused_reason(entry, victim, cycle.now)
        return Pause(entry.id, reason, preemptor)
    added = [place for place in settled if place not in set(before.places)]
    if len(kept) == len(before.places) and not added:
        return None
    given = [place for place in before.places if place not in set(kept)]
    seats = tuple(
        [to_seat(entry.shape, place) for place in sorted(kept + added, key=_seat_order)]
        + [to_seat(entry.shape, place, leaving=True) for place in (*before.leaving, *given)]
    )
    left = cycle.parted.get(entry, "") if given else ""
    reason = (
        f"gave back its seats there: {left}"
        if left
        else resized_reason(entry, len(added), len(given), victim)
    )
    return Resize(entry.id, seats, reason, preemptor if given else None)


def _other_share(entry: "Entry", before: SavedEntry) -> int:
    """Return the new share of its one GPU, if it differs from before; else 0."""
    if len(entry.places) != 1 or len(before.places) != 1 or entry.places == before.places:
        return 0
    now = entry.places[0]
    return now.share if before.places[0] == now._replace(share=before.places[0].share) else 0


def _seat_order(place: Place) -> tuple[int, int]:
    return (place.part, place.number)
