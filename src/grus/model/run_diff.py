"""Differences between two runs: their inputs, their metrics, their outputs. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from grus.model.artifacts import Artifact
from grus.model.resources import GPU
from grus.model.results import Result, words_of
from grus.model.sweep_search import Value

Cell = Value | None
"""Value of a run under a name; None if it has none."""
SET, OTHER = "set", "set to another value"
"""Words shown for environment variables, whose values may be secret."""


class DifferenceKind(StrEnum):
    """Subject of a difference, in the order in which users see them."""

    PARAMETERS = "parameters"
    METRICS = "metrics"
    CODE = "code"
    DATA = "data"
    ARTEFACTS = "artefacts"
    PROFILE = "profile"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class Difference:
    """One line of a comparison; also of what is the same, so that a reader sees what was compared."""

    part: DifferenceKind
    name: str
    first: Cell
    second: Cell

    @property
    def same(self) -> bool:
        # 1 and true are equal to Python, and two different parameters to people.
        return self.first == self.second and isinstance(self.first, bool) == isinstance(self.second, bool)


def differences(first: Result, second: Result) -> tuple[Difference, ...]:
    """Everything that either of them has, by part and then in the order of names."""
    made: list[Difference] = []
    for part, given, other in (
        (DifferenceKind.PARAMETERS, dict(first.params), dict(second.params)),
        (DifferenceKind.METRICS, _metrics(first), _metrics(second)),
        (DifferenceKind.CODE, _code(first), _code(second)),
        (DifferenceKind.DATA, {"data": first.data or None}, {"data": second.data or None}),
        (DifferenceKind.ARTEFACTS, _artefacts(first), _artefacts(second)),
        (DifferenceKind.PROFILE, _profile(first), _profile(second)),
        (DifferenceKind.JOB, _job(first), _job(second)),
    ):
        made += _lines(part, given, other)
        if part is DifferenceKind.CODE:
            made += _environment(first, second)
    return tuple(made)


def _lines(
    part: DifferenceKind, first: Mapping[str, Cell], second: Mapping[str, Cell]
) -> Iterator[Difference]:
    names = dict.fromkeys([*first, *second])
    ordered = sorted(names) if part in (DifferenceKind.PARAMETERS, DifferenceKind.METRICS) else names
    for name in ordered:
        line = Difference(part, name, first.get(name), second.get(name))
        if line.first is not None or line.second is not None:
            yield line


def _environment(first: Result, second: Result) -> Iterator[Difference]:
    """Yield the differences by name; they show that two values differ, but not the values."""
    ours, theirs = dict(first.env), dict(second.env)
    for name in sorted({*ours, *theirs}):
        other = SET if ours.get(name, theirs.get(name)) == theirs.get(name) else OTHER
        yield Difference(
            DifferenceKind.CODE,
            f"env {name}",
            SET if name in ours else None,
            other if name in theirs else None,
        )


def _metrics(one: Result) -> dict[str, Cell]:
    """Return the last value of each metric, and its extremes where they differ from it."""
    made: dict[str, Cell] = {}
    for metric in one.metrics:
        made[metric.name] = metric.last
        if metric.least != metric.most:
            made[f"{metric.name} (least)"] = metric.least
            made[f"{metric.name} (most)"] = metric.most
    return made


def _code(one: Result) -> dict[str, Cell]:
    return {
        "code": one.code or None,
        "command": words_of(one.command) or None,
        "image": one.image or None,
        "workdir": one.workdir or None,
    }


def _artefacts(one: Result) -> dict[str, Cell]:
    return {**_digests("input", one.inputs), **_digests("output", one.outputs)}


def _digests(kind: str, artefacts: tuple[Artifact, ...]) -> dict[str, Cell]:
    return {f"{kind} {artefact.name}": artefact.digest for artefact in artefacts}


def _profile(one: Result) -> dict[str, Cell]:
    """Return the measurements of a run; the memory is the maximum on one GPU."""
    run = one.profile
    return {
        "fingerprint": one.fingerprint or None,
        "seconds": one.seconds,
        "GPU-hours": one.gpu_seconds / 3600,
        "most GPUs": one.most_held / GPU,
        "peak memory": None if run is None else run.peak_memory,
        "utilisation": None if run is None else run.mean_utilisation,
        "host memory": None if run is None else run.host_memory,
        "cores": None if run is None else run.cpu,
        "energy": None if run is None else run.energy,
        "kind": None if run is None else run.kind.value,
    }


def _job(one: Result) -> dict[str, Cell]:
    return {
        "name": one.name,
        "user": one.user,
        "queue": one.queue,
        "type": one.type.value,
        "state": one.phase.value,
        "attempts": one.attempts,
        "sweep": None if one.trial is None else one.trial.sweep,
        "trial": None if one.trial is None else one.trial.number,
    }
