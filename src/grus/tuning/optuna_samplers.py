"""Optuna's samplers by ask-and-tell, each time from the records: the study lives only for one call.

Optuna is an extra (`tuning`) and heavy, so it is imported at the first call.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from grus.model.sweep_search import Axis, Params, Sweep, Value
from grus.tuning.importance import worth
from grus.tuning.sweep_trials import TrialView

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial


def tpe(sweep: Sweep, trials: Sequence[TrialView], number: int) -> Params:
    """Sample by a tree-structured Parzen estimator; trials that still run count as poor, so that few points
    are alike.
    """
    from optuna.samplers import TPESampler

    return _ask(sweep, trials, TPESampler(seed=_seed(sweep, number), constant_liar=True))


def gp(sweep: Sweep, trials: Sequence[TrialView], number: int) -> Params:
    """Sample by a Gaussian process; needs torch."""
    from optuna.samplers import GPSampler

    return _ask(sweep, trials, GPSampler(seed=_seed(sweep, number)))


def _seed(sweep: Sweep, number: int) -> int:
    return int(np.random.SeedSequence([sweep.seed, number]).generate_state(1)[0])


def _ask(sweep: Sweep, trials: Sequence[TrialView], sampler: "BaseSampler") -> Params:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=sampler)
    space = {axis.name: distribution(axis) for axis in sweep.axes}
    told = _told(sweep, trials)
    study.add_trials([_frozen(trial, told.get(trial.number), space) for trial in trials])
    asked = study.ask(space)
    return tuple((axis.name, _plain(axis, asked.params[axis.name])) for axis in sweep.axes)


def distribution(axis: Axis) -> "BaseDistribution":
    """Return the axis as an Optuna distribution."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if axis.choices:
        return CategoricalDistribution(axis.choices)
    if axis.whole:
        step = 1 if axis.step is None or axis.log else int(axis.step)
        return IntDistribution(int(axis.low), int(axis.high), log=axis.log, step=step)
    return FloatDistribution(axis.low, axis.high, log=axis.log, step=None if axis.log else axis.step)


def _told(sweep: Sweep, trials: Sequence[TrialView]) -> dict[int, float]:
    """Return the value passed to Optuna for each trial that has one: the estimate at the highest rung, less
    is better. A diverged trial is as bad as the worst other one.
    """
    values = worth(sweep, trials)
    worst = max((value for value in values.values() if math.isfinite(value)), default=0.0)
    return {number: min(value, worst) for number, value in values.items()}


def _frozen(trial: TrialView, value: float | None, space: "dict[str, BaseDistribution]") -> "FrozenTrial":
    """Return a trial as Optuna keeps it. One that ended without a value has failed."""
    from optuna.trial import TrialState, create_trial

    state = (
        TrialState.COMPLETE if value is not None else TrialState.FAIL if trial.ended else TrialState.RUNNING
    )
    return create_trial(state=state, value=value, params=dict(trial.params), distributions=space)


def _plain(axis: Axis, value: object) -> Value:
    if axis.choices:
        return next(choice for choice in axis.choices if choice == value and type(choice) is type(value))
    assert isinstance(value, int | float)
    return int(value) if axis.whole else float(value)
