"""The life of a job as a strip: stretches of time in one state at one size, and its attempts. Pure.

Everything is read out of the job's events. A stretch ends when the state, the attempt, the rendezvous round
or the number of GPUs changes. Logs from before sizes were recorded have stretches without a number.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from grus.model.interfaces import Event
from grus.model.jobs import TERMINAL
from grus.model.texts.units import gpu_number

MOST = 400
"""Stretches that are shown; of a longer life the last ones."""


class TimelineState(StrEnum):
    """States of a job in a stretch of its life; the words are those of the style sheet."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"
    """It saves its work, or its processes are being ended; its GPUs are still held."""
    PAUSED = "paused"
    OVER = "over"


AFTER = {
    "submitted": TimelineState.PENDING,
    "starting": TimelineState.STARTING,
    "running": TimelineState.RUNNING,
    "pausing": TimelineState.ENDING,
    "stopping": TimelineState.ENDING,
    "ending": TimelineState.ENDING,
    "paused": TimelineState.PAUSED,
    "retrying": TimelineState.PENDING,
    "requeued": TimelineState.PENDING,
    "enlarged": TimelineState.PENDING,
    **{phase.value: TimelineState.OVER for phase in TERMINAL},
}
"""The state that an event begins; the others change nothing of it."""
FAILURES = frozenset({"retrying", "requeued", "enlarged", "failed"})
HOLDING = frozenset({TimelineState.STARTING, TimelineState.RUNNING, TimelineState.ENDING})
ENDS = frozenset({TimelineState.PAUSED, TimelineState.PENDING, TimelineState.OVER})
"""States that begin when an attempt is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    begin: float
    end: float
    state: TimelineState
    attempt: int
    generation: int
    gpus: float | int | None
    """Held; None where it was not written down."""
    text: str
    """The cause of its begin, in the event's words."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A moment at which something went wrong: a worker was lost, or an attempt failed."""

    at: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt, from its start until its processes were gone."""

    number: int
    begin: float
    end: float | None
    """None while it lasts."""
    running: float
    """Seconds between `running` and the first word of its end."""
    sizes: tuple[float | int, ...]
    """GPUs, one entry a change."""
    outcome: str
    """The kind of the event that ended it; empty while it lasts."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """A life in order, without gaps. `end` is when it was over, None while the last stretch lasts."""

    stretches: tuple[Stretch, ...] = ()
    losses: tuple[Loss, ...] = ()
    end: float | None = None
    cut: bool = False
    """True if the beginning is left out."""

    @property
    def begin(self) -> float:
        return self.stretches[0].begin if self.stretches else 0.0

    @property
    def top(self) -> float:
        """Most GPUs that it held at once."""
        return max((stretch.gpus or 0 for stretch in self.stretches), default=0)


def strip(events: Sequence[Event], now: float) -> Strip:
    """Build the strip from the events of one job, in the order of their numbers."""
    marks = _marks(events)
    if not marks:
        return Strip()
    over = marks[-1].state is TimelineState.OVER
    last = [] if over else [replace(marks[-1], begin=max(now, marks[-1].begin))]
    found = _merged(
        [replace(mark, end=max(mark.begin, following.begin)) for mark, following in pairwise([*marks, *last])]
    )
    shown = found[-MOST:]
    return Strip(
        stretches=tuple(shown),
        losses=tuple(_losses(events, since=shown[0].begin)) if shown else (),
        end=marks[-1].begin if over else None,
        cut=len(found) > MOST,
    )


def _losses(events: Iterable[Event], since: float) -> Iterator[Loss]:
    """Yield losses of work: workers lost while the others continued, and attempts that did not end well."""
    lost = 0
    for event in events:
        more = (event.lost or 0) > lost
        lost = max(lost, event.lost or 0)
        if event.at >= since and (more or event.kind in FAILURES):
            yield Loss(event.at, event.text)


def attempts(strip: Strip, events: Sequence[Event]) -> tuple[Attempt, ...]:
    """The attempts that the strip shows, the last one first."""
    ends = {
        event.attempt: event
        for event in events
        if AFTER.get(event.kind) in ENDS and event.kind != "submitted"
    }
    by_number: dict[int, list[Stretch]] = {}
    for stretch in strip.stretches:
        if stretch.state in HOLDING:
            by_number.setdefault(stretch.attempt, []).append(stretch)
    return tuple(_attempt(number, by_number[number], ends.get(number)) for number in sorted(by_number)[::-1])


def _attempt(number: int, own: Sequence[Stretch], end: Event | None) -> Attempt:
    over = end if end is not None and end.at >= own[-1].begin else None
    sizes = [stretch.gpus for stretch in own if stretch.gpus]
    return Attempt(
        number=number,
        begin=own[0].begin,
        end=None if over is None else over.at,
        running=sum(one.end - one.begin for one in own if one.state is TimelineState.RUNNING),
        sizes=tuple(size for before, size in pairwise([None, *sizes]) if size is not None and size != before),
        outcome="" if over is None else over.kind,
        text="" if over is None else over.text,
    )


def _marks(events: Iterable[Event]) -> list[Stretch]:
    """Return the stretch that begins at each event; their ends are not known yet."""
    marks: list[Stretch] = []
    for event in events:
        before = marks[-1] if marks else None
        if before is not None and before.state is TimelineState.OVER:
            break
        state = _state(event, before)
        held = None if event.held is None else gpu_number(event.held)
        marks.append(
            Stretch(
                begin=event.at,
                end=event.at,
                state=state,
                attempt=event.attempt,
                generation=event.generation,
                gpus=held if state in HOLDING else 0,
                text=event.text,
            )
        )
    return marks


def _state(event: Event, before: Stretch | None) -> TimelineState:
    if event.kind == "resumed":  # while it is still pausing, the pause continues
        return (
            TimelineState.ENDING
            if before is not None and before.state is TimelineState.ENDING
            else TimelineState.PENDING
        )
    kept = TimelineState.PENDING if before is None else before.state
    return AFTER.get(event.kind, kept)


def _merged(stretches: Sequence[Stretch]) -> list[Stretch]:
    """Neighbors that differ in nothing that is seen as one; of those without length only the last stays."""
    found: list[Stretch] = []
    for one in stretches:
        if found and _looks(found[-1]) == _looks(one):
            found[-1] = replace(found[-1], end=one.end)
        elif one.end > one.begin or one is stretches[-1]:
            found.append(one)
    return found


def _looks(one: Stretch) -> tuple[object, ...]:
    return one.state, one.attempt, one.generation, one.gpus
