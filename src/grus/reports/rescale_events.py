"""Resizes of jobs, and their effects: read from the jobs' events alone. Pure.

An event records its job's allocation from then on and the part of it that computes together (`working`). A
grow is over when the new workers compute with the others, a shrink when the released GPUs are free. A job
whose workers form no worker group does not report when they have joined: then the duration is unknown.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from grus.model.identifiers import JobId
from grus.model.interfaces import Event
from grus.model.resources import GPU
from grus.reports.history_types import JobPast

FAILED = "failed"
FAILURES = frozenset({FAILED, "retrying", "requeued", "enlarged"})
"""Kinds of events with which an attempt ended because a worker did."""
ENDS = FAILURES | {"paused", "succeeded", "stopped"}
"""Kinds with which an attempt ended."""
RUNNING, RESIZED, TEAM = "running", "resized", "team"


class ResizeKind(StrEnum):
    GROW = "grow"
    SHRINK = "shrink"
    MOVE = "move"
    """The same number of GPUs, but others."""
    RESTART = "restart"
    """It ended, and began again with another size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """A change of size. Moments and seconds; GPUs."""

    job: JobId
    at: float
    how: ResizeKind
    before: float
    after: float
    worked: bool | None
    """True if it continued at its new size; None if that could not be seen."""
    seconds: float | None
    """Time until it had adapted; None if there is no report of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A worker was lost while others computed with it."""

    job: JobId
    at: float
    workers: int
    left: float
    """GPUs of those who went on at once."""
    seconds: float | None
    """Seconds until as many computed together as before; None if that never came."""


def resizes(job: JobPast) -> list[Resize]:
    """Every change of its size, in order."""
    found: list[Resize] = []
    for life in attempts(job.events):
        found += _live(job.id, life)
    return sorted([*found, *_restarts(job)], key=lambda one: one.at)


def losses(job: JobPast) -> list[Loss]:
    """Workers that were lost without ending the attempt."""
    found = []
    for life in attempts(job.events):
        for place, (before, event) in enumerate(pairwise(life), start=1):
            gone = (event.lost or 0) - (before.lost or 0)
            if gone <= 0 or not event.working:
                continue
            again = next((one for one in life[place:] if _working(one) >= _working(before)), None)
            seconds = None if again is None else again.at - event.at
            found.append(Loss(job=job.id, at=event.at, workers=gone, left=_working(event), seconds=seconds))
    return found


def restarts(job: JobPast) -> int:
    """Count the attempts that had run and ended because a worker did, so that the job had to restart. A final
    failure does not count: a lost worker and a wrong program cannot be distinguished then.
    """
    return sum(
        any(event.kind == RUNNING for event in life) and life[-1].kind in FAILURES - {FAILED}
        for life in attempts(job.events)
    )


def course(job: JobPast) -> list[tuple[float, float]]:
    """GPUs that computed together, from each moment on at which that changed."""
    found: list[tuple[float, float]] = []
    for event in job.events:
        if event.working is not None and (not found or found[-1][1] != _working(event)):
            found.append((event.at, _working(event)))
    return found


def attempts(events: Sequence[Event]) -> list[list[Event]]:
    """The events of each attempt that says what it held, in order."""
    found: dict[int, list[Event]] = {}
    for event in events:
        if event.attempt > 0 and event.working is not None and not _over(found.get(event.attempt)):
            found.setdefault(event.attempt, []).append(event)
    return [found[number] for number in sorted(found)]


def _over(life: list[Event] | None) -> bool:
    """Return whether the attempt has ended: later events come while the job waits."""
    return life is not None and life[-1].kind in ENDS


# ------------------------------------------------------------------------------------------ while it runs


def _live(job: JobId, life: list[Event]) -> Iterator[Resize]:
    in_teams = any(event.kind == TEAM for event in life)
    for place, (before, event) in enumerate(pairwise(life), start=1):
        now, held = _working(before), _held(event) - _held(before)
        if event.kind != RESIZED or not now:  # what changes before anybody works is a start with another size
            continue
        later = life[place + 1 :]
        if held > 0:
            yield _grown(job, event, now, now + held, later, in_teams)
        elif _working(event) < now:
            yield _shrunk(job, event, now, later)
        else:
            yield Resize(
                job=job,
                at=event.at,
                how=ResizeKind.MOVE,
                before=now,
                after=now,
                worked=_went_on(later),
                seconds=None,
            )


def _grown(
    job: JobId, event: Event, before: float, after: float, later: list[Event], in_teams: bool
) -> Resize:
    reached = _first(_until_next(later), lambda one: _working(one) >= after) if in_teams else None
    worked = True if reached is not None else False if _failed(later) else None
    if not in_teams:
        worked = _went_on(later)
    seconds = None if reached is None else reached.at - event.at
    return Resize(
        job=job, at=event.at, how=ResizeKind.GROW, before=before, after=after, worked=worked, seconds=seconds
    )


def _shrunk(job: JobId, event: Event, before: float, later: list[Event]) -> Resize:
    after = _working(event)
    free = _first(_until_next(later), lambda one: one.kind not in ENDS and _held(one) <= after)
    worked = True if free is not None else _went_on(later)
    seconds = None if free is None else free.at - event.at
    return Resize(
        job=job,
        at=event.at,
        how=ResizeKind.SHRINK,
        before=before,
        after=after,
        worked=worked,
        seconds=seconds,
    )


def _until_next(later: list[Event]) -> Iterator[Event]:
    """Yield the events before the next change of its size."""
    for event in later:
        if event.kind == RESIZED:
            return
        yield event


def _went_on(later: list[Event]) -> bool | None:
    """Return whether it had any outcome except a failure; None if there are no later events."""
    return None if not later else not _failed(later)


def _failed(later: list[Event]) -> bool:
    """Return whether the attempt failed before its size changed again."""
    return any(event.kind in FAILURES for event in _until_next(later))


# ---------------------------------------------------------------------------------------- between attempts


def _restarts(job: JobPast) -> Iterator[Resize]:
    """Yield attempts that run with another size than the one before them had at its end. The duration counts
    the shutdown and the restart; the wait in between for free GPUs, or for a person, does not count.
    """
    for last, life in pairwise(attempts(job.events)):
        ran = [event for event in last if event.working]
        again = next((event for event in life if event.kind == RUNNING), None)
        if not ran or again is None or _working(again) == _working(ran[-1]):
            continue
        left = last[last.index(ran[-1]) + 1] if ran[-1] is not last[-1] else ran[-1]
        yield Resize(
            job=job.id,
            at=left.at,
            how=ResizeKind.RESTART,
            before=_working(ran[-1]),
            after=_working(again),
            worked=True,
            seconds=(last[-1].at - left.at) + (again.at - life[0].at),
        )


def _first(events: Iterable[Event], holds: Callable[[Event], bool]) -> Event | None:
    return next((event for event in events if holds(event)), None)


def _working(event: Event) -> float:
    return (event.working or 0) / GPU


def _held(event: Event) -> float:
    return (event.held or 0) / GPU
