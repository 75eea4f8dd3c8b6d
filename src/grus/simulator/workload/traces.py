"""Readers of traces: past arrivals of jobs, and their durations.

There are three kinds of CSV, distinguished by their heading; this pool's own history is in `job_history`.
Every error of a file is reported, each with its line; a file with one is not half read. Blank lines are
skipped.

    timestamp,duration,num_gpus,gpu_time,vc        as published of Microsoft's Philly clusters (or `cluster`)
    name,time,application,num_replicas,batch_size  as published with Pollux; needs its measurements too
    submit,duration,gpus[,queue,user,priority,min,max,type,checkpoint,max_runtime]
"""

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from grus.model.errors import BadInput, Mistake
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.jobs import PRIORITIES, JobType
from grus.model.queues import DEFAULT_QUEUE
from grus.model.resources import GPU, Range
from grus.model.texts.units import parse_seconds
from grus.simulator.workload.job_work import Speedup, TraceJob

MOST_MISTAKES = 100
"""More are counted, not listed."""
MOST_GPUS = 1_000_000
LONGEST = 100 * 365 * 86400.0

PHILLY = ("timestamp", "duration", "num_gpus")
PHILLY_MORE = ("gpu_time", "vc", "cluster", "user")
GENERIC = ("submit", "duration", "gpus")
GENERIC_MORE = ("queue", "user", "priority", "min", "max", "type", "checkpoint", "max_runtime")
POLLUX = ("name", "time", "application", "num_replicas", "batch_size")
MOST_NAME = 63
"""Characters of a queue's or user's name."""


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One line of a file, cells by column."""

    number: int
    cells: Mapping[str, str]

    def read(
        self, column: str, parse: Callable[[str], Any], mistakes: list[Mistake], default: Any = None
    ) -> Any:
        """Return the cell, or the default if there is none; an error is recorded and the default returned."""
        text = self.cells.get(column, "").strip()
        if not text and default is not None:
            return default
        try:
            return parse(text)
        except ValueError as error:
            mistakes.append(Mistake(column, str(error), text or "nothing", self.number))
        return default


class ApplicationCurves(Protocol):
    """Performance of applications; `pollux_jobs.PolluxCurves` is one implementation."""

    def knows(self, name: str, /) -> bool: ...

    def request(self, name: str, gpus: int, batch: int, /) -> tuple[float, Range | None, Speedup]:
        """Duration on so many GPUs, possible sizes, speeds. Raises ValueError with the broken rule."""


@dataclass(frozen=True, slots=True)
class TraceContext:
    """Facts that a line does not contain: GPUs of the largest node, and the performance of applications."""

    node_gpus: int
    curves: ApplicationCurves | None


def read_trace(
    text: Iterable[str],
    *,
    node_gpus: int = 8,
    curves: Callable[[], ApplicationCurves] | None = None,
    judge: Callable[[list[TraceJob]], list[Mistake]] | None = None,
) -> list[TraceJob]:
    """Read the jobs of a CSV file, in order of submission. Raises BadInput with every error.

    `node_gpus`: a rigid job of at most so many GPUs wants them on one node. `curves`: gives the measurements
    of the applications; called for a workload of Pollux only. `judge`: for a file with errors, finds the
    other errors of the jobs of its valid lines.
    """
    mistakes: list[Mistake] = []
    rows = _rows(text, mistakes)
    number, heading = _heading(rows, mistakes)
    make = _kind(heading, number)
    around = TraceContext(node_gpus, curves() if curves is not None and make is _pollux_work else None)
    works: list[TraceJob] = []
    last = number
    for last, row in rows:
        if len(row) != len(heading):
            rule = f"must have {len(heading)} cells like the heading, has {len(row)}"
            mistakes.append(Mistake("line", rule, ",".join(row)[:80], last))
            continue
        before = len(mistakes)
        made = make(TraceRow(last, dict(zip(heading, row, strict=True))), mistakes, around)
        if len(mistakes) == before:
            works.append(made)
    if not works and not mistakes:
        mistakes.append(Mistake("file", "has no jobs", line=last))
    if mistakes and works and judge is not None:
        mistakes = sorted(mistakes + judge(works), key=lambda mistake: mistake.line or 0)
    refuse(mistakes)
    return numbered(works)


def _rows(text: Iterable[str], mistakes: list[Mistake]) -> Iterator[tuple[int, list[str]]]:
    """Yield rows that are not blank, with the line on which each begins. A row that is not CSV is an
    error.
    """
    # Strict: a quote that is never closed would else swallow the rest of the file silently.
    rows = csv.reader(text, strict=True)
    begun = 1
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            mistakes.append(Mistake("line", f"is not CSV: {error}", line=begun))
        else:
            if any(cell.strip() for cell in row):
                yield begun, row
        begun = rows.line_num + 1


def refuse(mistakes: Sequence[Mistake]) -> None:
    """Raise them all, if there are any; of a great many the first, and how many more there are."""
    if len(mistakes) > MOST_MISTAKES:
        more = Mistake("file", f"and {len(mistakes) - MOST_MISTAKES} mistakes more")
        raise BadInput([*mistakes[:MOST_MISTAKES], more])
    if mistakes:
        raise BadInput(list(mistakes))


def numbered(works: Iterable[TraceJob]) -> list[TraceJob]:
    """Return the jobs in order of submission, with ids in that order."""
    ordered = sorted(works, key=lambda work: (work.submit, work.line or 0))
    return [replace(work, id=JobId(f"t{number:06}")) for number, work in enumerate(ordered)]


# ------------------------------------------------------------------------------------------------ heading


def _heading(rows: Iterator[tuple[int, list[str]]], mistakes: list[Mistake]) -> tuple[int, list[str]]:
    for number, row in rows:
        return number, [cell.strip().lower().lstrip("\ufeff") for cell in row]
    refuse(mistakes)
    raise BadInput(
        [Mistake("file", "is empty; it must begin with a heading such as submit,duration,gpus", line=1)]
    )


def _kind(heading: Sequence[str], line: int) -> "Make":
    """The reader of lines for this heading, once that is in order."""
    named = set(heading)
    if len(named & set(POLLUX)) > len(named & set(GENERIC)) and "application" in named:
        _check_heading(heading, line, POLLUX, ())
        return _pollux_work
    if set(PHILLY) <= named:
        _check_heading(heading, line, PHILLY, PHILLY_MORE)
        return _philly_work
    _check_heading(heading, line, GENERIC, GENERIC_MORE)
    return _generic_work


def _check_heading(heading: Sequence[str], line: int, needed: Sequence[str], more: Sequence[str]) -> None:
    known = ", ".join((*needed, *more))
    mistakes = [
        Mistake("heading", f"names an unknown column; there are {known}", name or "nothing", line)
        for name in heading
        if name not in (*needed, *more)
    ]
    mistakes += [
        Mistake("heading", f"must name the column {name}", line=line)
        for name in needed
        if name not in heading
    ]
    mistakes += [
        Mistake("heading", "names a column twice", name, line)
        for name in sorted(set(heading))
        if heading.count(name) > 1
    ]
    refuse(mistakes)


# -------------------------------------------------------------------------------------------------- lines


Make = Callable[[TraceRow, list[Mistake], TraceContext], TraceJob]


def _philly_work(line: TraceRow, mistakes: list[Mistake], around: TraceContext) -> TraceJob:
    gpus = line.read("num_gpus", _whole, mistakes, None) or 1
    queue = line.read("vc", _name, mistakes, "") or line.read("cluster", _name, mistakes, DEFAULT_QUEUE)
    return TraceJob(
        id=JobId(""),
        submit=line.read("timestamp", _moment, mistakes) or 0.0,
        duration=line.read("duration", _seconds, mistakes) or 1.0,
        gpus=gpus,
        queue=QueueName(queue),
        user=UserName(line.read("user", _name, mistakes, queue)),
        one_node=gpus <= around.node_gpus,
        line=line.number,
    )


def _pollux_work(line: TraceRow, mistakes: list[Mistake], around: TraceContext) -> TraceJob:
    before = len(mistakes)
    name = line.read("application", _name, mistakes, "")
    gpus = line.read("num_replicas", _whole, mistakes) or 1
    batch = line.read("batch_size", _whole_batch, mistakes) or 1
    submit = line.read("time", _moment, mistakes) or 0.0
    work = TraceJob(id=JobId(""), submit=submit, duration=1.0, gpus=gpus, line=line.number)
    if around.curves is None or not around.curves.knows(name):
        rule = "has no measurements; say where they are: --applications FOLDER with a folder for each"
        mistakes.append(Mistake("application", rule, name or "nothing", line.number))
        return work
    if len(mistakes) > before:
        return work
    try:
        duration, size, speedup = around.curves.request(name, gpus, batch)
    except ValueError as error:
        mistakes.append(Mistake("num_replicas", str(error), f"{gpus} at batch {batch}", line.number))
        return work
    # The application is the job's user: so jobs of one application count as similar.
    return replace(work, duration=duration, size=size, speedup=speedup, user=UserName(name), one_node=False)


def _generic_work(line: TraceRow, mistakes: list[Mistake], around: TraceContext) -> TraceJob:
    gpus = line.read("gpus", _gpus, mistakes) or 1
    low, high = line.read("min", _whole, mistakes, 0), line.read("max", _whole, mistakes, 0)
    size = None
    if low or high:
        size = Range(low or min(int(gpus), high), high or max(int(gpus), low))
        if size.low > size.high:
            mistakes.append(Mistake("min", f"must be at most max, {size.high}", str(size.low), line.number))
        if gpus < 1:
            mistakes.append(
                Mistake("gpus", "must be whole for a job with min or max", f"{gpus:g}", line.number)
            )
    kind = line.read("type", _type, mistakes, JobType.TRAIN)
    usual = PRIORITIES["dev" if kind is JobType.DEV else "train"]
    return TraceJob(
        id=JobId(""),
        submit=line.read("submit", _moment, mistakes) or 0.0,
        duration=line.read("duration", _seconds, mistakes) or 1.0,
        gpus=gpus,
        size=size if size is None or not size.rigid else None,
        queue=QueueName(line.read("queue", _name, mistakes, DEFAULT_QUEUE)),
        user=UserName(line.read("user", _name, mistakes, "")),
        priority=line.read("priority", _priority, mistakes, usual),
        type=kind,
        one_node=gpus <= around.node_gpus,
        save_every=line.read("checkpoint", _seconds, mistakes, 0.0) or None,
        max_runtime=line.read("max_runtime", _seconds, mistakes, 0.0) or None,
        line=line.number,
    )


# -------------------------------------------------------------------------------------------------- cells


def _number(text: str, rule: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(rule) from None
    if not math.isfinite(number):
        raise ValueError(rule)
    return number


def _moment(text: str) -> float:
    """Seconds, or a date with a time (UTC unless it says otherwise)."""
    rule = "must be a time: seconds, or a date such as 2017-10-09 07:01:55"
    if not text:
        raise ValueError(rule)
    if "-" in text[1:] and ":" in text:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(rule) from None
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    return _number(text, rule)


def _seconds(text: str) -> float:
    """A length of time above zero: seconds, or as people write it (30m)."""
    rule = "must be a length of time above zero: seconds, or such as 30m"
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parse_seconds(text)
        except ValueError:
            raise ValueError(rule) from None
    if not 0 < seconds <= LONGEST:
        raise ValueError(rule)
    return seconds


def _whole(text: str) -> int:
    rule = f"must be a whole number of GPUs from 1 to {MOST_GPUS}"
    number = _number(text, rule)
    if not number.is_integer() or not 1 <= number <= MOST_GPUS:
        raise ValueError(rule)
    return int(number)


def _whole_batch(text: str) -> int:
    rule = "must be a whole number from 1"
    number = _number(text, rule)
    if not number.is_integer() or number < 1:
        raise ValueError(rule)
    return int(number)


def _name(text: str) -> str:
    if len(text) > MOST_NAME or not text.isprintable():
        raise ValueError(f"must be at most {MOST_NAME} printable characters")
    return text


def _gpus(text: str) -> float:
    rule = "must be a whole number of GPUs, or a fraction of one above zero"
    number = _number(text, rule)
    if not 0 < number <= MOST_GPUS or (number > 1 and not number.is_integer()) or round(number * GPU) < 1:
        raise ValueError(rule)
    return int(number) if number.is_integer() else number


def _priority(text: str) -> int:
    if text in PRIORITIES:
        return PRIORITIES[text]
    rule = f"must be a whole number from 0 to 1000, or one of {', '.join(PRIORITIES)}"
    number = _number(text, rule)
    if not number.is_integer() or not 0 <= number <= 1000:
        raise ValueError(rule)
    return int(number)


def _type(text: str) -> JobType:
    # A sweep has no workers of its own: its trials are rows like any other.
    types = [type_ for type_ in JobType if type_ is not JobType.SWEEP]
    if text not in types:
        raise ValueError(f"must be one of {', '.join(types)}")
    return JobType(text)
