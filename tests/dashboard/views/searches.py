"""Sweeps to draw."""

from grus.dashboard.views.sweep_search_data import SweepSnapshot, TrialRow
from grus.model.identifiers import JobId
from grus.model.jobs import Phase
from grus.model.sweep_search import Axis, Sweep, Value

RATE = Axis(name="lr", low=1e-4, high=1.0, log=True)
WIDTH = Axis(name="width", choices=(64, 128, 256))


def a_trial(number: int, value: float | None, phase: Phase = Phase.SUCCEEDED, **params: Value) -> TrialRow:
    curve = () if value is None else ((1.0, value + 1.0), (3.0, value))
    given = tuple((params or {"lr": 0.01, "width": 64}).items())
    return TrialRow(
        number=number, job=JobId(f"j{number}"), params=given, phase=phase, value=value, curve=curve
    )


def a_search(*trials: TrialRow, sweep: Sweep | None = None, best: int | None = None) -> SweepSnapshot:
    return SweepSnapshot(sweep=sweep or Sweep(axes=(RATE, WIDTH), metric="loss"), trials=trials, best=best)
