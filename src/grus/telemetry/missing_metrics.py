"""GPUs that a source knows, and those that are missing now. Pure.

A GPU without a sample for an hour is no longer missing but gone: it is forgotten.
"""

import math
from collections.abc import Iterable

from grus.model.identifiers import DeviceId
from grus.telemetry.samples import LostMeasure, Subject

GONE = 3600.0
"""Seconds."""


class Missing:
    """Everything by name; a name is missing from `lose` until `found`."""

    def __init__(self) -> None:
        self._lost: dict[str, LostMeasure] = {}

    def lose(self, what: str, why: str, since: float) -> None:
        """Again and again as long as it is so; the moment of the first time stays."""
        before = self._lost.get(what)
        self._lost[what] = LostMeasure(what, why, since if before is None else before.since)

    def found(self, what: str) -> None:
        self._lost.pop(what, None)

    def all(self) -> tuple[LostMeasure, ...]:
        return tuple(sorted(self._lost.values()))


class Roll:
    """Time of each GPU's last sample, and its origin (an exporter's address, a target)."""

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
        """Return the time of its last sample; before any moment if there was none."""
        return self._seen[subject][1] if subject in self._seen else -math.inf

    def of(self, origin: str) -> list[Subject]:
        return [subject for subject, (place, _) in self._seen.items() if place == origin]

    def by_origin(self) -> dict[str, list[Subject]]:
        found: dict[str, list[Subject]] = {}
        for subject, (origin, _) in self._seen.items():
            found.setdefault(origin, []).append(subject)
        return found

    def gone(self, now: float) -> list[Subject]:
        """Remove the GPUs without a sample for long, and return them."""
        old = [subject for subject, (_, at) in self._seen.items() if now - at >= GONE]
        for subject in old:
            del self._seen[subject]
            del self._where[subject.device, subject.instance]
        return old


def name(subject: Subject) -> str:
    """Return a GPU's name in the list of missing ones."""
    part = f"instance {subject.instance} of " if subject.instance else ""
    return f"{part}GPU {subject.device} on {subject.node}"


def missing_of(known: Iterable[Subject], present: Iterable[Subject]) -> list[Subject]:
    """Return the known GPUs that are missing now, in a stable order."""
    return sorted(set(known) - set(present), key=str)
