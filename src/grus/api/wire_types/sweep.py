"""Wire models of sweeps: the search, its trials, the best of them."""

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from grus.api.wire_types.base import Out
from grus.api.wire_types.job import JobOut
from grus.model.sweep_search import Axis, Sweep, Value


class AxisOut(Out):
    """One parameter: one of `choices`, or a number from `low` to `high`."""

    name: str
    choices: tuple[Value, ...] = ()
    low: float | None = None
    high: float | None = None
    log: bool = False
    step: float | None = None
    whole: bool = False


class TrialOut(Out):
    """One trial, which is a job of its own."""

    number: int
    job: str
    name: str
    params: dict[str, Value] = Field(default_factory=dict)
    phase: str
    status: str
    """Phase as a word for users; `waiting` at a rung."""
    value: float | None = None
    """Best value of the metric that it reported."""
    reached: float | None = None
    """Progress so far."""
    curve: Sequence[tuple[float, float | None]] = ()
    """Progress, and the metric there; null if it was no longer a number."""
    gpus: float | int = 0
    """GPUs held now."""
    gpu_hours: float = 0.0
    seconds: float = 0.0
    grown: bool = False
    """True if it may hold more than the others."""
    why: str = ""
    """Latest verdict of its sweep; without one, the reason for its state."""


class SweepOut(Out):
    job: JobOut
    metric: str
    goal: str
    sampler: str
    rule: str
    """Early stopping rule for poor trials."""
    by: str
    """Progress metric of the trials."""
    most: float | None = None
    space: Sequence[AxisOut] = ()
    trials: Sequence[TrialOut] = ()
    best: int | None = None
    """Number of the best trial so far."""
    importance: dict[str, float] = Field(default_factory=dict)
    """Importance of each parameter, as parts of 1; empty while too little is known."""
    gpu_hours: float = 0.0


class BestOut(Out):
    """The best trial as a job file that runs it again."""

    sweep: str
    trial: int
    value: float
    document: dict[str, Any]


def axis_out(axis: Axis) -> AxisOut:
    listed = bool(axis.choices)
    return AxisOut(
        name=axis.name,
        choices=axis.choices,
        low=None if listed else axis.low,
        high=None if listed else axis.high,
        log=axis.log,
        step=axis.step,
        whole=axis.whole,
    )


def sweep_out(
    job: JobOut,
    sweep: Sweep,
    trials: Sequence[TrialOut],
    *,
    best: int | None,
    importance: Sequence[tuple[str, float]],
    gpu_hours: float,
) -> SweepOut:
    return SweepOut(
        job=job,
        metric=sweep.metric,
        goal=sweep.goal.value,
        sampler=sweep.sampler,
        rule=sweep.stopping.rule.value,
        by=sweep.stopping.by,
        most=sweep.stopping.most,
        space=[axis_out(axis) for axis in sweep.axes],
        trials=trials,
        best=best,
        importance=dict(importance),
        gpu_hours=gpu_hours,
    )
