"""Traces recorded by others: CSV files as `sar` and `nvidia-smi` fill them, one kind of figure per file.

    cpu-PLACE.csv      time,id,%user,%system,%idle
    memory-PLACE.csv   time,id,kbmemfree,kbmemused,%memused,…
    gpu-PLACE.csv      id,gpu0,mem0,gpu1,mem1,…

A file's columns show its kind; its name shows the place and the conditions of the recording. Such clocks have
twelve hours and no date, so only the time between two samples can be known. Another file may state figures
that somebody computed (`memory_Comparison.csv`): a name per line, or a name, a value, a unit.
"""

import csv
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from grus.model.errors import BadInput, Mistake

Values = NDArray[np.float64]

HALF_DAY = 43200.0
_CLOCK = re.compile(r"(\d{1,2}):(\d\d):(\d\d)(?: ([AP])M)?")
_KINDS_IN_NAMES = frozenset({"cpu", "gpu", "mem", "memory", "use", "usage", "util"})
_CONDITIONS = frozenset({"single", "with", "without", "load", "idle"})


class TraceResource(StrEnum):
    CPU = "CPU"
    MEMORY = "memory"
    GPU = "GPU"


_NEEDED = {
    TraceResource.CPU: frozenset({"%user", "%system", "%idle"}),
    TraceResource.MEMORY: frozenset({"kbmemfree", "kbmemused", "%memused"}),
    TraceResource.GPU: frozenset({"gpu0"}),
}
"""Columns that identify a file's kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One file: columns of one kind, a row a sample."""

    file: str
    holds: TraceResource
    place: str
    condition: str
    """Condition by its name: `with load`, `single`; empty for none."""
    columns: dict[str, Values]
    clock: Values | None
    """Seconds of the day by its own clock, as labelled; None where it has none."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def steps(self) -> Values | None:
        """Return the seconds from each sample to the next, as far as a clock of twelve hours shows them."""
        return None if self.clock is None else np.diff(self.clock) % HALF_DAY

    @property
    def jumps(self) -> tuple[int, ...]:
        """Samples (from 1) before which the clock's label jumps by half a day; midnight is no such jump."""
        if self.clock is None:
            return ()
        steps = np.diff(self.clock)
        return tuple(int(place) + 2 for place in np.flatnonzero((steps < 0) & (steps > -1.5 * HALF_DAY)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFigure:
    """A figure that somebody else worked out of such traces."""

    place: str
    name: str
    value: float
    unit: str
    """Empty where none is stated."""
    percent: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSet:
    folder: str
    traces: tuple[Trace, ...]
    stated: tuple[PublishedFigure, ...]

    @property
    def places(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(trace.place for trace in self.traces))

    def of(self, place: str, holds: TraceResource, condition: str | None = None) -> list[Trace]:
        return [
            trace
            for trace in self.traces
            if trace.place == place
            and trace.holds is holds
            and (condition is None or trace.condition == condition)
        ]


def are_in(folder: Path) -> bool:
    """Return whether the folder holds traces that can be read."""
    return folder.is_dir() and any(_holds(_header(path)) for path in folder.glob("*.csv"))


def read(folder: Path) -> TraceSet:
    """All traces of a folder; raises BadInput with every line that is not as its header says."""
    mistakes: list[Mistake] = []
    traces, tables = [], []
    for path in sorted(folder.glob("*.csv")):
        rows = _rows(path)
        holds = _holds([cell.lower() for cell in rows[0]]) if rows else None
        if holds is not None:
            traces.append(_trace(path, holds, rows, mistakes))
        elif rows:
            tables.append(rows)
    if mistakes:
        raise BadInput(mistakes)
    stated = [one for rows in tables for one in _stated(rows)]
    full = {short: one.place for one in stated for short in _names_of(one.place)}
    traces = [replace(trace, place=full.get(trace.place, trace.place)) for trace in traces]
    return TraceSet(folder=folder.name, traces=tuple(traces), stated=tuple(stated))


def _rows(path: Path) -> list[list[str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return [[cell.strip() for cell in row] for row in csv.reader(file) if any(row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput([Mistake(path.name, f"cannot be read: {error}")]) from None


def _header(path: Path) -> list[str]:
    rows = _rows(path)
    return [cell.lower() for cell in rows[0]] if rows else []


def _holds(header: list[str]) -> TraceResource | None:
    return next((holds for holds, needed in _NEEDED.items() if needed.issubset(header)), None)


def _trace(path: Path, holds: TraceResource, rows: list[list[str]], mistakes: list[Mistake]) -> Trace:
    header = [cell.lower() for cell in rows[0]]
    columns: dict[str, list[float]] = {name: [] for name in header if name not in ("time", "id")}
    clock: list[float] = []
    for line, row in enumerate(rows[1:], start=2):
        try:
            if len(row) != len(header):
                raise ValueError(f"has {len(row)} cells, and the header {len(header)}")
            for name, cell in zip(header, row, strict=True):
                if name == "time":
                    clock.append(_seconds(cell))
                elif name != "id":
                    columns[name].append(float(cell))
        except ValueError as error:
            mistakes.append(Mistake(path.name, str(error), ",".join(row)[:60], line))
    if len(rows) < 3:
        mistakes.append(Mistake(path.name, "needs two samples at least: nothing can be read off fewer"))
    place, condition = _named(path.stem)
    return Trace(
        file=path.name,
        holds=holds,
        place=place,
        condition=condition,
        columns={name: np.asarray(values) for name, values in columns.items()},
        clock=np.asarray(clock) if clock else None,
    )


def _seconds(text: str) -> float:
    """Return the seconds of the day; raises ValueError."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise ValueError("must have a time such as 02:46:35 PM")
    hour, minute, second = int(found[1]), int(found[2]), int(found[3])
    if found[4]:
        hour = hour % 12 + (12 if found[4] == "P" else 0)
    return hour * 3600.0 + minute * 60 + second


def _named(stem: str) -> tuple[str, str]:
    """Return a file's place and conditions from its name: `cpu-with-load-os` is `os`, `with load`."""
    words = [word for word in re.split(r"[-_ ]+", stem.lower()) if word not in _KINDS_IN_NAMES]
    place = [word for word in words if word not in _CONDITIONS]
    return " ".join(place) or stem, " ".join(word for word in words if word in _CONDITIONS)


def _stated(rows: list[list[str]]) -> list[PublishedFigure]:
    """Lines with a value belong to the last line without one."""
    found, place = [], ""
    for row in rows:
        name, cells = row[0], [*row[1:], "", "", ""]
        if not any(cells):
            place = name
            continue
        try:
            value = float(cells[0])
        except ValueError:
            continue
        percent = float(cells[2]) if cells[2] else None
        found.append(
            PublishedFigure(place=place, name=name.rstrip(":"), value=value, unit=cells[1], percent=percent)
        )
    return found


def _names_of(name: str) -> tuple[str, str]:
    """Return the names by which files may refer to it: `OpenShift` is `openshift` or `os`."""
    return name.lower(), "".join(letter for letter in name if letter.isupper()).lower()
