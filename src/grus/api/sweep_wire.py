"""Sweeps as they are shown: the search, its trials, the best of them."""

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from grus.api.job_out import JobOut
from grus.api.out import Out
from grus.model.sweeps import Axis, Sweep, Value


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
    """The phase in a word for people; `waiting` at a rung."""
    value: float | None = None
    """The best that it reported of the metric."""
    reached: float | None = None
    """How far it has come."""
    curve: Sequence[tuple[float, float | None]] = ()
    """How far it was, and the metric there; null where it was no number any more."""
    gpus: float | int = 0
    """GPUs held now."""
    gpu_hours: float = 0.0
    seconds: float = 0.0
    grown: bool = False
    """Whether it may hold more than the others."""
    why: str = ""
    """What its sweep last said of it, else why it is where it is."""


class SweepOut(Out):
    job: JobOut
    metric: str
    goal: str
    sampler: str
    rule: str
    """How trials that promise little are ended."""
    by: str
    """The figure that says how far a trial is."""
    most: float | None = None
    space: Sequence[AxisOut] = ()
    trials: Sequence[TrialOut] = ()
    best: int | None = None
    """Number of the best trial so far."""
    importance: dict[str, float] = Field(default_factory=dict)
    """By parameter, parts of 1; empty while too little is known."""
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
