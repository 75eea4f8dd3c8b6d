"""The life of a job as spans, from its events; and the parts of it that were repeated. Pure.

A span is a time in which phase, attempt and allocation do not change. Events record the job's allocation from
then on; if an old one does not, the request is used instead while it runs. Without events (they are kept for
a while only) the record of the job itself gives its last attempt.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from grus.model.interfaces import Event
from grus.model.jobs import HOLDING, Job, PauseCause, Phase
from grus.model.metrics_history import STEP, Reported
from grus.model.phases import phase_after
from grus.model.resources import GPU
from grus.model.saving import SESSION, saves
from grus.reports.history_types import JobPast, Span

Ended = Callable[[str], float | None]
"""End time of the job of an id; None if it has not ended, or the time is unknown."""


def spans(job: Job, events: Sequence[Event], asked: float, until: float, ended: Ended) -> tuple[Span, ...]:
    """Return the spans of its life from its submission to `until`, or to its end; `asked` are the fewest GPUs
    that it runs with.
    """
    known = [event for event in events if event.at < until]
    if not any(event.kind == "submitted" for event in known):
        return tuple(_by_record(job, asked, until, ended))
    found: list[Span] = []
    for event, end in zip(known, [*(event.at for event in known[1:]), until], strict=True):
        before = found[-1] if found else None
        phase = _phase(event, before)
        if phase in (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED):
            break
        found.append(
            Span(
                start=event.at,
                end=max(end, event.at),
                phase=phase,
                attempt=event.attempt,
                gpus=_held(event, phase, before, asked),
                began=event.kind,
            )
        )
    return tuple(_merged(_with_waits(job, found, ended)))


def _phase(event: Event, before: Span | None) -> Phase:
    if before is None:
        return Phase.PENDING
    return phase_after(event.kind, before.phase) or before.phase


def _held(event: Event, phase: Phase, before: Span | None, asked: float) -> float:
    if phase not in HOLDING:
        return 0.0
    if event.held is not None:
        return event.held / GPU
    return before.gpus if before is not None and before.gpus else asked


def _by_record(job: Job, asked: float, until: float, ended: Ended) -> Iterator[Span]:
    """Yield the spans that its record shows without its events: its submission, and its last attempt."""
    end = until if job.ended_at is None else min(until, job.ended_at)
    start = end if job.started_at is None else min(end, job.started_at)
    waits = Span(
        start=job.submitted_at, end=start, phase=Phase.PENDING, attempt=0, gpus=0.0, began="submitted"
    )
    if start > job.submitted_at:
        yield from _with_waits(job, [waits], ended)
    if end > start:
        held = job.held / GPU or asked
        yield Span(
            start=start, end=end, phase=Phase.RUNNING, attempt=job.attempt, gpus=held, began="starting"
        )


def _with_waits(job: Job, found: Sequence[Span], ended: Ended) -> Iterator[Span]:
    """Yield the same spans, marked by whether the job would have started if there had been free GPUs."""
    ready = _ready(job, ended)
    for number, span in enumerate(found):
        if span.phase is Phase.PAUSED:
            last = number == len(found) - 1
            by_person = job.paused_by not in (None, PauseCause.SCHEDULER) if last else False
            resumed = not last and found[number + 1].began == "resumed"
            yield replace(span, waits=not (by_person or resumed))
        elif span.phase is Phase.PENDING:
            if span.start < ready < span.end:
                yield replace(span, end=ready)
                yield replace(span, start=ready, waits=True)
            else:
                yield replace(span, waits=span.start >= ready)
        else:
            yield span


def _ready(job: Job, ended: Ended) -> float:
    """Return the time at which all jobs that it comes after had ended; infinity while one of them has not."""
    ends = [ended(other) for other in job.spec.after]
    known = [end for end in ends if end is not None]
    return max([job.submitted_at, *known]) if len(known) == len(ends) else float("inf")


def _merged(found: Iterator[Span]) -> Iterator[Span]:
    """Merge spans: drop empty ones, and edges at which nothing changed."""
    before: Span | None = None
    for span in found:
        if span.end <= span.start:
            continue
        if before is not None and _alike(before, span):
            before = replace(before, end=span.end)
            continue
        if before is not None:
            yield before
        before = span
    if before is not None:
        yield before


def _alike(one: Span, other: Span) -> bool:
    return (one.phase, one.attempt, one.gpus, one.waits) == (
        other.phase,
        other.attempt,
        other.gpus,
        other.waits,
    )


# --------------------------------------------------------------------------------------- done again


class Interval(NamedTuple):
    start: float
    end: float


def restarted(past: JobPast) -> list[Interval]:
    """Return the intervals in which it held GPUs to get back to its earlier progress: in every attempt but
    the first, the time until its workers ran, and from then on until its step had passed that of all attempts
    before.

    A job that counts no steps and does not save its work restarts from zero: it is back after as long as the
    longest attempt before. For others without steps only the time until their workers ran is counted.
    """
    found: list[Interval] = []
    reached: float | None = None
    from_zero = not saves(past.job) and SESSION not in past.job.spec.run
    longest = 0.0
    for attempt in sorted({span.attempt for span in past.held}):
        held = [span for span in past.held if span.attempt == attempt]
        running = [span for span in held if span.phase is Phase.RUNNING]
        up = running[0].start if running else held[-1].end
        steps = _steps(past.curves.reports, attempt)
        if attempt > 1:
            back = up if reached is None or not steps else _passed(steps, reached, up, held[-1].end)
            if from_zero and reached is None:
                back = min(up + longest, held[-1].end)
            if back > held[0].start:
                found.append(Interval(held[0].start, back))
        longest = max(longest, held[-1].end - up)
        reached = max([*(step for _, step in steps), *([] if reached is None else [reached])], default=None)
    return found


Steps = list[tuple[float, float]]
"""Moments, and the step that the job was at, in order."""


def _steps(reports: Sequence[Reported], attempt: int) -> Steps:
    told = [(one.at, one.figure(STEP)) for one in reports if one.attempt == attempt]
    return [(at, step) for at, step in told if step is not None]


def _passed(steps: Steps, reached: float, up: float, end: float) -> float:
    """Return when an attempt was at `reached`, interpolated between its reports; its end if it never was."""
    for number, (at, step) in enumerate(steps):
        if step < reached:
            continue
        before = steps[number - 1] if number else _origin(steps, up)
        if before is None or step <= before[1]:
            return at
        part = (reached - before[1]) / (step - before[1])
        return max(up, before[0] + part * (at - before[0]))
    return end


def _origin(steps: Steps, up: float) -> tuple[float, float] | None:
    """Return the origin of an attempt when its workers were up, by the speed of its first two reports."""
    if len(steps) < 2 or steps[1][0] <= steps[0][0]:
        return None
    speed = (steps[1][1] - steps[0][1]) / (steps[1][0] - steps[0][0])
    return up, max(0.0, steps[0][1] - speed * max(0.0, steps[0][0] - up))
