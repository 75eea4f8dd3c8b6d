"""The text in which exporters tell their metrics to Prometheus, read line by line. Pure.

Lines that are no metric (comments, and what people paste around a capture) are passed over: one bad line
must not hide a machine.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

_LINE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)\s*(?:\{(.*)\}\s*|\s+)(\S+)(?:\s+(-?\d+))?\s*")
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPED = re.compile(r"\\(.)")


class MetricSample(NamedTuple):
    """One value of one metric."""

    name: str
    labels: Mapping[str, str]
    value: float
    at: float | None = None
    """Seconds, where the exporter itself says when it was true."""


def rows(text: str, names: Collection[str]) -> Iterator[MetricSample]:
    """The values of these metrics, in the order of the text. NaN and infinity are no values."""
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found is None or found[1] not in names:
            continue
        value = number(found[3])
        labels = read_labels(found[2] or "")
        if value is not None and labels is not None:
            yield MetricSample(found[1], labels, value, int(found[4]) / 1000 if found[4] else None)


def number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def read_labels(text: str) -> dict[str, str] | None:
    """None if they cannot be read. A label with an empty value says nothing, and is left out."""
    labels = {}
    place = 0
    while place < len(text):
        found = _LABEL.match(text, place)
        if found is None:
            return None
        if found[2]:
            labels[found[1]] = _ESCAPED.sub(_unescaped, found[2])
        place = found.end()
    return labels


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]
