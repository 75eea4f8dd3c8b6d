"""Who is known to a source, and what of it is missing now. Pure.

A GPU that has not been heard of for an hour is no longer missing but gone: it is forgotten.
"""

import math
from collections.abc import Iterable

from grus.model.identifiers import DeviceId
from grus.telemetry.samples import Lost, Subject

GONE = 3600.0
"""Seconds."""


class Missing:
    """Everything by name; a name is missing from `lose` until `found`."""

    def __init__(self) -> None:
        self._lost: dict[str, Lost] = {}

    def lose(self, what: str, why: str, since: float) -> None:
        """Again and again as long as it is so; the moment of the first time stays."""
        before = self._lost.get(what)
        self._lost[what] = Lost(what, why, since if before is None else before.since)

    def found(self, what: str) -> None:
        self._lost.pop(what, None)

    def all(self) -> tuple[Lost, ...]:
        return tuple(sorted(self._lost.values()))


class Roll:
    """When each GPU was last heard of, and where it is from (an exporter's address, a target)."""

    def __init__(self) -> None:
        self._seen: dict[Subject, tuple[str, float]] = {}
        self._where: dict[tuple[DeviceId | None, str], Subject] = {}

    def see(self, subject: Subject, origin: str, at: float) -> Subject | None:
        """Returns whom it replaces, if the same GPU was known on a node of another name."""
        key = (subject.device, subject.instance)
        before = self._where.get(key)
        self._where[key] = subject
        self._seen[subject] = (origin, max(at, self.last(subject)))
        if before is None or before == subject:
            return None
        self._seen.pop(before, None)
        return before

    def last(self, subject: Subject) -> float:
        """When it was last heard of; longer ago than any moment if never."""
        return self._seen[subject][1] if subject in self._seen else -math.inf

    def of(self, origin: str) -> list[Subject]:
        return [subject for subject, (place, _) in self._seen.items() if place == origin]

    def by_origin(self) -> dict[str, list[Subject]]:
        found: dict[str, list[Subject]] = {}
        for subject, (origin, _) in self._seen.items():
            found.setdefault(origin, []).append(subject)
        return found

    def gone(self, now: float) -> list[Subject]:
        """Those not heard of for long, taken off the roll."""
        old = [subject for subject, (_, at) in self._seen.items() if now - at >= GONE]
        for subject in old:
            del self._seen[subject]
            del self._where[subject.device, subject.instance]
        return old


def name(subject: Subject) -> str:
    """How a GPU is called among the lost."""
    part = f"instance {subject.instance} of " if subject.instance else ""
    return f"{part}GPU {subject.device} on {subject.node}"


def missing_of(known: Iterable[Subject], present: Iterable[Subject]) -> list[Subject]:
    """Who was known and is not there now, in a lasting order."""
    return sorted(set(known) - set(present), key=str)
