"""In what two runs differ: what they were given, what they reached, what they left behind. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from grus.model.artefacts import Artefact
from grus.model.resources import GPU
from grus.model.results import Result, words_of
from grus.model.sweeps import Value

Cell = Value | None
"""What one run has under a name; None where it has nothing."""
SET, OTHER = "set", "set to another value"
"""What is said of environment variables, whose values may be secret."""


class Part(StrEnum):
    """What a difference is about, in the order in which people are shown them."""

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

    part: Part
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
        (Part.PARAMETERS, dict(first.params), dict(second.params)),
        (Part.METRICS, _metrics(first), _metrics(second)),
        (Part.CODE, _code(first), _code(second)),
        (Part.DATA, {"data": first.data or None}, {"data": second.data or None}),
        (Part.ARTEFACTS, _artefacts(first), _artefacts(second)),
        (Part.PROFILE, _profile(first), _profile(second)),
        (Part.JOB, _job(first), _job(second)),
    ):
        made += _lines(part, given, other)
        if part is Part.CODE:
            made += _environment(first, second)
    return tuple(made)


def _lines(part: Part, first: Mapping[str, Cell], second: Mapping[str, Cell]) -> Iterator[Difference]:
    names = dict.fromkeys([*first, *second])
    ordered = sorted(names) if part in (Part.PARAMETERS, Part.METRICS) else names
    for name in ordered:
        line = Difference(part, name, first.get(name), second.get(name))
        if line.first is not None or line.second is not None:
            yield line


def _environment(first: Result, second: Result) -> Iterator[Difference]:
    """By name; that two values differ is said, the values are not."""
    ours, theirs = dict(first.env), dict(second.env)
    for name in sorted({*ours, *theirs}):
        other = SET if ours.get(name, theirs.get(name)) == theirs.get(name) else OTHER
        yield Difference(
            Part.CODE, f"env {name}", SET if name in ours else None, other if name in theirs else None
        )


def _metrics(one: Result) -> dict[str, Cell]:
    """The last value of each figure, and its extremes where they are others."""
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


def _digests(kind: str, artefacts: tuple[Artefact, ...]) -> dict[str, Cell]:
    return {f"{kind} {artefact.name}": artefact.digest for artefact in artefacts}


def _profile(one: Result) -> dict[str, Cell]:
    """What was measured of it; the memory is the most on one GPU."""
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
