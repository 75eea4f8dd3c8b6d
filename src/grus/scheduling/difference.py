"""What came of a cycle: the net change of every job that it touched, those who give first."""

from typing import TYPE_CHECKING

from grus.scheduling.decisions import Decision, Decisions, Pause, Requeue, Resize, Start
from grus.scheduling.gang import PLANNED, Place, to_seat
from grus.scheduling.reasons import paused_reason, resized_reason, started_reason
from grus.scheduling.transaction import Before

if TYPE_CHECKING:
    from grus.scheduling.cycle import Cycle
    from grus.scheduling.snapshot import Entry


def difference(cycle: "Cycle", requeued: "list[Entry]") -> Decisions:
    """The net change, those who give first."""
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


def _change(cycle: "Cycle", entry: "Entry", before: Before) -> Decision | None:
    settled = tuple(place for place in entry.places if place.born != PLANNED)
    if not before.running:
        if not entry.places or len(settled) < len(entry.places):
            return None
        seats = tuple(to_seat(entry.shape, place) for place in sorted(settled, key=_seat_order))
        return Start(entry.id, seats, started_reason(entry), cycle.backfills.get(entry))
    victim = cycle.victims.get(entry)
    preemptor = None if victim is None else victim.preemptor.id
    kept = [place for place in before.places if place in set(settled)]
    if not kept:
        return Pause(entry.id, paused_reason(entry, victim, cycle.now), preemptor)
    added = [place for place in settled if place not in set(before.places)]
    if len(kept) == len(before.places) and not added:
        return None
    given = [place for place in before.places if place not in set(kept)]
    seats = tuple(
        [to_seat(entry.shape, place) for place in sorted(kept + added, key=_seat_order)]
        + [to_seat(entry.shape, place, leaving=True) for place in (*before.leaving, *given)]
    )
    reason = resized_reason(entry, len(added), len(given), victim)
    return Resize(entry.id, seats, reason, preemptor if given else None)


def _seat_order(place: Place) -> tuple[int, int]:
    return (place.part, place.number)
