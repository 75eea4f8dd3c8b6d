"""Decisions about the recorded run, made again. Their reasons are texts, and are compared apart."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import msgspec

from grus.model.jobs import Seat
from grus.scheduler import cycle
from grus.scheduler.decisions import Decisions
from grus.scheduler.state.snapshot import Snapshot
from grus.simulator.recorded.decision_recorder import Action, RecordedDecision, flat
from grus.simulator.recorded.replay import Replay, replay
from tests.golden.record import FILE


@cache
def again() -> tuple[Replay, list[RecordedDecision]]:
    """The comparison with the run as it was, reasons left out, and all that is decided now."""
    decided: list[RecordedDecision] = []

    def decide(snapshot: Snapshot, now: float) -> Decisions:
        found = cycle.decide(snapshot, now)
        decided.append(RecordedDecision(now, tuple(map(flat, found.actions)), found.wake_at))
        return replace(found, actions=tuple(replace(one, reason="") for one in found.actions))

    return replay(map(_without_reasons, FILE.read_bytes().splitlines()), decide), decided


def _without_reasons(line: bytes) -> bytes:
    """A reworded reason is no other decision."""
    found = msgspec.json.decode(line)
    for one in (found.get("put", {}).get("job"), *found.get("decide", {}).get("actions", ())):
        if one is not None:
            one["reason"] = ""
    return msgspec.json.encode(found)


def structure() -> str:
    """Numbers of compared decisions, then each decision."""
    compared, decided = again()
    lines = [f"{name} {value}" for name, value in compared.as_json().items()]
    for asked in decided:
        lines.append(f"at {asked.now}" + ("" if asked.wake_at is None else f", again at {asked.wake_at}"))
        lines += [f"  {line}" for action in asked.actions for line in _action(action)]
    return "".join(f"{line}\n" for line in lines)


def texts() -> str:
    return "".join(
        f"at {asked.now} {action.does} {action.job}: {action.reason}\n"
        for asked in again()[1]
        for action in asked.actions
    )


def _action(action: Action) -> Iterator[str]:
    more = {
        "preemptor": action.preemptor,
        "backfill until": action.backfill_until,
        "guest of": action.guest_of,
        "share": action.share or None,
    }
    said = [f"{name} {value}" for name, value in more.items() if value is not None]
    yield ", ".join([f"{action.does} {action.job}", *said])
    yield from (f"  {_seat(seat)}" for seat in action.seats)


def _seat(seat: Seat) -> str:
    where = " ".join(seat.devices) or seat.node
    return f"{seat.role}.{seat.index} on {where}, {seat.share}" + (" leaving" if seat.leaving else "")
