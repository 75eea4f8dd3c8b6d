"""Differences between the sides of a comparison besides the environment. Pure.

Grave: the work itself was not the same, so a difference says nothing about the environments. A comparison
stops at it unless it is asked to continue, and then says so before every figure.

Loud: the machines, or other processes on them, were not the same. That may be the intended comparison (a
cluster against a laptop), but then a difference is not the platform's alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from grus.compare import run_metrics
from grus.compare.records import RunRecord
from grus.compare.result_directory import Comparison, Side
from grus.compare.run_metrics import MeasuredRun

OTHERS = 0.10
"""The part of a node's cores that others used from which on it is said."""
UNKNOWN = "not told"


@dataclass(frozen=True, slots=True, kw_only=True)
class Confound:
    what: str
    grave: bool
    found: tuple[tuple[str, str], ...]
    """The trait's value for each label."""
    advice: str

    def __str__(self) -> str:
        each = "; ".join(f"{label}: {value}" for label, value in self.found)
        return f"{self.what} differs ({each}): {self.advice}"


@dataclass(frozen=True, slots=True)
class _Trait:
    what: str
    grave: bool
    of: Callable[[RunRecord], str]
    advice: str


def _joined(values: Sequence[object]) -> str:
    return ", ".join(str(value) for value in values) or UNKNOWN


def _data(record: RunRecord) -> str:
    return _joined([f"{one.path} {one.digest[:12] or 'is not there'}" for one in record.data])


def _memory(amount: float | None) -> str:
    return UNKNOWN if amount is None else f"{amount / 2**30:.1f} GiB"


_TRAITS = (
    _Trait("code", True, lambda r: r.code.digest[:12], "run both from one job file and one state of it"),
    _Trait("data", True, _data, "copy the same data to both, or name one place that both see"),
    _Trait("command", True, lambda r: " ".join(r.argv), "run both from one job file"),
    _Trait(
        "batch",
        True,
        lambda r: _joined([f"{value:g}" for value in run_metrics.said(r, "batch")]),
        "set the batch in the command, not by what the machine allows",
    ),
    _Trait(
        "precision",
        True,
        lambda r: _joined(run_metrics.words(r, "precision")),
        "set the precision in the command, not by what the GPU can do",
    ),
    _Trait("GPU count", True, lambda r: str(len(r.given)), "ask for the same number of GPUs"),
    _Trait("sampling period", True, lambda r: f"{r.period:g} s", "peaks depend on it: use one"),
    _Trait(
        "GPU model",
        False,
        lambda r: _joined(sorted({gpu.name for gpu in r.node.gpus if gpu.index in r.given})),
        "part of the difference is the GPU's, not the platform's",
    ),
    _Trait("GPU driver", False, lambda r: r.node.driver or UNKNOWN, "install the same one to rule it out"),
    _Trait("CPU model", False, lambda r: r.node.cpu_model or UNKNOWN, "data loading may differ by it"),
    _Trait("cores allowed", False, lambda r: f"{r.node.allowed:g}", "give both the same number of cores"),
    _Trait(
        "memory",
        False,
        lambda r: _memory(r.node.memory_allowed or r.node.memory),
        "more memory caches more data",
    ),
    _Trait("Python", False, lambda r: r.node.python or UNKNOWN, "the sampler's own; look at the workload's"),
    _Trait("file system", False, lambda r: r.node.filesystem or UNKNOWN, "reading data may differ by it"),
)


def find(found: Comparison) -> tuple[Confound, ...]:
    """All that is known from the runs so far, grave ones first."""
    sides = [(side, _records(side)) for side in found.sides]
    seen = [(side, runs) for side, runs in sides if runs]
    confounds = [one for trait in _TRAITS if (one := _differs(trait, seen)) is not None]
    confounds += [one for side, _ in seen if (one := _others(side)) is not None]
    return tuple(sorted(confounds, key=lambda one: not one.grave))


def grave(found: Comparison) -> tuple[Confound, ...]:
    return tuple(one for one in find(found) if one.grave)


def untold(found: Comparison) -> tuple[str, ...]:
    """Return the traits that no side reported, so that their equality is unknown."""
    runs = [record for side in found.sides for record in _records(side)]
    names = {
        "batch": any(run_metrics.said(record, "batch") for record in runs),
        "precision": any(run_metrics.words(record, "precision") for record in runs),
        "data": any(record.data for record in runs),
    }
    return tuple(name for name, known in names.items() if not known) if runs else ()


def _records(side: Side) -> list[RunRecord]:
    return [run.record for run in side.runs if run.record is not None]


def _differs(trait: _Trait, seen: Sequence[tuple[Side, Sequence[RunRecord]]]) -> Confound | None:
    """Between the sides, or between the runs of one."""
    values = [(side.label, sorted({trait.of(record) for record in runs})) for side, runs in seen]
    if len({value for _, each in values for value in each}) < 2:
        return None
    shown = tuple((label, " and ".join(each)) for label, each in values)
    return Confound(what=trait.what, grave=trait.grave, found=shown, advice=trait.advice)


def _others(side: Side) -> Confound | None:
    """Return foreign load on the node as a confound if it was more than a little."""
    busy = [
        (others, run.record.node.cores)
        for run in side.runs
        if run.sound and run.record is not None
        for others in [run_metrics.others_mean(MeasuredRun(record=run.record, ending=run.ending))]
        if others is not None
    ]
    most = max(busy, key=lambda one: one[0] / max(1, one[1]), default=None)
    if most is None or most[0] < OTHERS * max(1, most[1]):
        return None
    shown = ((side.label, f"up to {most[0]:.1f} of {most[1]} cores"),)
    advice = "ask for the node exclusively, or repeat when it is quiet"
    return Confound(what="others' load on the node", grave=False, found=shown, advice=advice)
