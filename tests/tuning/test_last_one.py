"""When no trial is to be made any more, one goes to its end, and is not held back again on the way."""

from collections.abc import Sequence
from dataclasses import replace

from grus.model.jobs import Phase
from grus.model.sweep_search import Axis, Budget, Rule, Stopping, Sweep
from grus.tuning.decide_trials import Room, champion, decide
from grus.tuning.orders import Order, Pause, Resume
from grus.tuning.sweep_trials import TrialView

SWEEP = Sweep(
    axes=(Axis(name="lr", low=0.0, high=1.0),),
    metric="loss",
    sampler="random",
    stopping=Stopping(rule=Rule.ASHA, first=3, most=27),
    budget=Budget(trials=3),
)


def a_trial(number: int, *curve: tuple[float, float], **changes: object) -> TrialView:
    made = TrialView(
        number=number, params=(("lr", 0.1),), phase=Phase.RUNNING, curve=curve, resumable=True, seconds=1.0
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # fields of many types


def held(number: int, *curve: tuple[float, float]) -> TrialView:
    return a_trial(number, *curve, phase=Phase.PAUSED, held_back=True)


def orders(trials: Sequence[TrialView]) -> tuple[Order, ...]:
    return decide(SWEEP, trials, Room(slots=4), 0.0, 1.0)


def test_the_best_of_those_that_wait_goes_on() -> None:
    found = orders([held(0, (3, 0.5)), held(1, (3, 0.2)), held(2, (3, 0.9))])
    assert [order.number for order in found if isinstance(order, Resume)] == [1]


def test_no_other_is_let_go_while_it_is_on_its_way() -> None:
    for phase in (Phase.PENDING, Phase.RUNNING):
        found = orders([held(0, (3, 0.5)), a_trial(1, (3, 0.2), phase=phase), held(2, (3, 0.9))])
        assert not [order for order in found if isinstance(order, Resume | Pause)]


def test_it_is_not_held_back_at_the_rungs_that_it_reaches_alone() -> None:
    found = orders([held(0, (3, 0.5)), a_trial(1, (3, 0.2), (9, 0.1)), held(2, (3, 0.9))])
    assert not [order for order in found if isinstance(order, Pause)]


def test_there_is_none_while_trials_are_to_be_made_and_none_after_one_was_complete() -> None:
    assert champion(SWEEP, [held(0, (3, 0.5))]) is None
    whole = a_trial(2, (27, 0.1), phase=Phase.SUCCEEDED)
    assert champion(SWEEP, [held(0, (3, 0.5)), held(1, (3, 0.2)), whole]) is None
