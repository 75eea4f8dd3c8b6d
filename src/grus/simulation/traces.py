"""Readers of traces: jobs that came somewhere, some time, and how long they ran.

Two kinds of CSV, told apart by their heading, and this pool's own history. Every mistake of a file is told,
each with its line; a file with one is not half read. Blank lines are passed over.

    timestamp,duration,num_gpus,gpu_time,vc        as published of Microsoft's Philly clusters (or `cluster`)
    submit,duration,gpus[,queue,user,priority,min,max,type,checkpoint,max_runtime]
"""

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from grus.api.units import parse_seconds
from grus.model.errors import BadInput, Mistake
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.jobs import PRIORITIES, JobType
from grus.model.queues import DEFAULT_QUEUE
from grus.model.resources import GPU, Range
from grus.simulation.work import Work

MOST_MISTAKES = 100
"""More are counted, not listed."""
MOST_GPUS = 1_000_000
LONGEST = 100 * 365 * 86400.0

PHILLY = ("timestamp", "duration", "num_gpus")
PHILLY_MORE = ("gpu_time", "vc", "cluster", "user")
GENERIC = ("submit", "duration", "gpus")
GENERIC_MORE = ("queue", "user", "priority", "min", "max", "type", "checkpoint", "max_runtime")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file, cells by column."""

    number: int
    cells: Mapping[str, str]

    def read(
        self, column: str, parse: Callable[[str], Any], mistakes: list[Mistake], default: Any = None
    ) -> Any:
        """The cell, or the default if there is none; a mistake is noted and the default returned."""
        text = self.cells.get(column, "").strip()
        if not text and default is not None:
            return default
        try:
            return parse(text)
        except ValueError as error:
            mistakes.append(Mistake(column, str(error), text or "nothing", self.number))
        return default


def read_trace(text: Iterable[str], *, node_gpus: int = 8) -> list[Work]:
    """The jobs of a CSV file, in order of submission. Raises BadInput with every mistake.

    `node_gpus`: a rigid job of at most so many GPUs wants them on one node.
    """
    rows = csv.reader(text)
    heading, number = _heading(rows)
    philly = set(PHILLY) <= set(heading)
    _check_heading(heading, number, philly)
    mistakes: list[Mistake] = []
    works: list[Work] = []
    make = _philly_work if philly else _generic_work
    for row in rows:
        if not row or not any(cell.strip() for cell in row):
            continue
        if len(row) != len(heading):
            rule = f"must have {len(heading)} cells like the heading, has {len(row)}"
            mistakes.append(Mistake("line", rule, ",".join(row)[:80], rows.line_num))
            continue
        line = Line(rows.line_num, dict(zip(heading, row, strict=True)))
        before = len(mistakes)
        made = make(line, mistakes, node_gpus)
        if len(mistakes) == before:
            works.append(made)
    if not works and not mistakes:
        mistakes.append(Mistake("file", "has no jobs", line=rows.line_num))
    refuse(mistakes)
    return numbered(works)


def refuse(mistakes: Sequence[Mistake]) -> None:
    """Raise them all, if there are any; of a great many the first, and how many more there are."""
    if len(mistakes) > MOST_MISTAKES:
        more = Mistake("file", f"and {len(mistakes) - MOST_MISTAKES} mistakes more")
        raise BadInput([*mistakes[:MOST_MISTAKES], more])
    if mistakes:
        raise BadInput(list(mistakes))


def numbered(works: Iterable[Work]) -> list[Work]:
    """In order of submission, with ids in that order."""
    ordered = sorted(works, key=lambda work: (work.submit, work.line or 0))
    return [replace(work, id=JobId(f"t{number:06}")) for number, work in enumerate(ordered)]


# ------------------------------------------------------------------------------------------------ heading


def _heading(rows: Any) -> tuple[list[str], int]:
    for row in rows:
        if row and any(cell.strip() for cell in row):
            return [cell.strip().lower().lstrip("\ufeff") for cell in row], rows.line_num
    raise BadInput(
        [Mistake("file", "is empty; it must begin with a heading such as submit,duration,gpus", line=1)]
    )


def _check_heading(heading: Sequence[str], line: int, philly: bool) -> None:
    needed, more = (PHILLY, PHILLY_MORE) if philly else (GENERIC, GENERIC_MORE)
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


def _philly_work(line: Line, mistakes: list[Mistake], node_gpus: int) -> Work:
    gpus = line.read("num_gpus", _whole, mistakes, None) or 1
    queue = line.cells.get("vc") or line.cells.get("cluster") or DEFAULT_QUEUE
    return Work(
        id=JobId(""),
        submit=line.read("timestamp", _moment, mistakes) or 0.0,
        duration=line.read("duration", _seconds, mistakes) or 1.0,
        gpus=gpus,
        queue=QueueName(queue),
        user=UserName(line.cells.get("user") or queue),
        one_node=gpus <= node_gpus,
        line=line.number,
    )


def _generic_work(line: Line, mistakes: list[Mistake], node_gpus: int) -> Work:
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
    return Work(
        id=JobId(""),
        submit=line.read("submit", _moment, mistakes) or 0.0,
        duration=line.read("duration", _seconds, mistakes) or 1.0,
        gpus=gpus,
        size=size if size is None or not size.rigid else None,
        queue=QueueName(line.cells.get("queue", "").strip() or DEFAULT_QUEUE),
        user=UserName(line.cells.get("user", "").strip()),
        priority=line.read("priority", _priority, mistakes, usual),
        type=kind,
        one_node=gpus <= node_gpus,
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
    try:
        return JobType(text)
    except ValueError:
        raise ValueError(f"must be one of {', '.join(JobType)}") from None
