"""Searches and trials in a few words."""

from collections.abc import Sequence

from grus.model.jobs import Phase
from grus.model.sweep_search import Axis, Budget, Rule, Stopping, Sweep
from grus.tuning.decide_trials import Room, decide
from grus.tuning.orders import Order, Start
from grus.tuning.sweep_trials import TrialView

NO_LIMIT = Budget()
AXES = (
    Axis(name="lr", low=1e-5, high=1e-1, log=True),
    Axis(name="width", choices=(64, 128)),
    Axis(name="depth", low=1, high=8, whole=True),
)


def a_sweep(
    *,
    rule: Rule = Rule.ASHA,
    sampler: str = "random",
    budget: Budget = NO_LIMIT,
    most: float | None = 9.0,
    **rest: object,
) -> Sweep:
    stopping = Stopping(rule=rule, first=1.0, most=most, factor=3)
    return Sweep(axes=AXES, metric="loss", sampler=sampler, stopping=stopping, budget=budget, **rest)  # type: ignore[arg-type] # whatever a test needs


def a_trial(number: int, *values: float, phase: Phase = Phase.RUNNING, **rest: object) -> TrialView:
    """One that reported these values after its steps 1, 2, …"""
    params = (("lr", 10 ** -(1 + number % 4)), ("width", 64 * (1 + number % 2)), ("depth", 1 + number % 8))
    curve = tuple((step + 1.0, value) for step, value in enumerate(values))
    return TrialView(number=number, params=params, phase=phase, curve=curve, **{"resumable": True, **rest})  # type: ignore[arg-type] # whatever a test needs


def held(number: int, *values: float, **rest: object) -> TrialView:
    return a_trial(number, *values, phase=Phase.PAUSED, held_back=True, **rest)


def orders(sweep: Sweep, trials: Sequence[TrialView], slots: int = 0, seconds: float = 10.0) -> list[Order]:
    return list(decide(sweep, trials, Room(slots=slots), 0.0, seconds))


def without_starts(found: Sequence[Order]) -> list[Order]:
    return [order for order in found if not isinstance(order, Start)]
