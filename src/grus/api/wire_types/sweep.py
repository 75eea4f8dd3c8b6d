"""Wire models of sweeps: the search, its trials, the best of them."""

import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import Field

from grus.api.wire_types.base import Convert, Derived, GpuCount, GpuHours, Out, Source
from grus.api.wire_types.job import JobOut, job_out
from grus.model.sweep_search import Value
from grus.model.texts.job_text import status_word


class AxisOut(Out):
    """One parameter: one of `choices`, or a number from `low` to `high`."""

    name: str
    choices: tuple[Value, ...] = ()
    low: Annotated[float | None, Derived(lambda axis: None if axis.choices else axis.low)] = None
    high: Annotated[float | None, Derived(lambda axis: None if axis.choices else axis.high)] = None
    log: bool = False
    step: float | None = None
    whole: bool = False


def _finite(curve: Iterable[tuple[float, float]]) -> list[tuple[float, float | None]]:
    return [(at, value if math.isfinite(value) else None) for at, value in curve]


class TrialOut(Out):
    """One trial, which is a job of its own."""

    number: int
    job: Annotated[str, Source("job.id")]
    name: Annotated[str, Source("job.spec.name")]
    params: Annotated[dict[str, Value], Convert(dict)] = Field(default_factory=dict)
    phase: Annotated[str, Source("job.phase")]
    status: Annotated[str, Derived(lambda trial: "waiting" if trial.held_back else status_word(trial.job))]
    """Phase as a word for users; `waiting` at a rung."""
    value: float | None = None
    """Best value of the metric that it reported."""
    reached: Annotated[float | None, Derived(lambda trial: trial.curve[-1][0] if trial.curve else None)] = (
        None
    )
    """Progress so far."""
    curve: Annotated[Sequence[tuple[float, float | None]], Convert(_finite)] = ()
    """Progress, and the metric there; null if it was no longer a number."""
    gpus: Annotated[GpuCount, Source("job.held")] = 0
    """GPUs held now."""
    gpu_hours: GpuHours = 0.0
    seconds: float = 0.0
    grown: Annotated[bool, Source("job.grown")] = False
    """True if it may hold more than the others."""
    why: Annotated[str, Derived(lambda trial: trial.job.verdict or trial.job.reason)] = ""
    """Latest verdict of its sweep; without one, the reason for its state."""


class SweepOut(Out):
    job: Annotated[JobOut, Convert(job_out)]
    metric: Annotated[str, Source("sweep.metric")]
    goal: Annotated[str, Source("sweep.goal")]
    sampler: Annotated[str, Source("sweep.sampler")]
    rule: Annotated[str, Source("sweep.stopping.rule")]
    """Early stopping rule for poor trials."""
    by: Annotated[str, Source("sweep.stopping.by")]
    """Progress metric of the trials."""
    most: Annotated[float | None, Source("sweep.stopping.most")] = None
    space: Annotated[Sequence[AxisOut], Source("sweep.axes")] = ()
    trials: Sequence[TrialOut] = ()
    best: Annotated[int | None, Derived(lambda view: view.best and view.best.number)] = None
    """Number of the best trial so far."""
    importance: Annotated[dict[str, float], Convert(dict)] = Field(default_factory=dict)
    """Importance of each parameter, as parts of 1; empty while too little is known."""
    gpu_hours: GpuHours = 0.0


class BestOut(Out):
    """The best trial as a job file that runs it again."""

    sweep: str
    trial: int
    value: float
    document: dict[str, Any]
