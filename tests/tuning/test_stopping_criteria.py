"""When a search is given up, and what it says of it."""

import math
from collections.abc import Sequence

from grus.model.jobs import Phase
from grus.model.sweep_search import Axis, Budget, Sweep
from grus.tuning.decide_trials import Room, decide
from grus.tuning.orders import Finish, Start
from grus.tuning.stopping_criteria import HOPELESS
from grus.tuning.sweep_trials import Curve, TrialView

SWEEP = Sweep(
    axes=(Axis(name="lr", low=0.0, high=1.0),),
    metric="loss",
    sampler="random",
    budget=Budget(trials=2 * HOPELESS),
)
NAN: Curve = ((1.0, math.nan),)


def some(count: int, phase: Phase, curve: Curve = ()) -> list[TrialView]:
    return [TrialView(number=one, params=(("lr", 0.1),), phase=phase, curve=curve) for one in range(count)]


def end(trials: Sequence[TrialView]) -> Finish | None:
    orders = decide(SWEEP, trials, Room(slots=4), 0.0, 1.0)
    return next((order for order in orders if isinstance(order, Finish)), None)


def test_trials_that_diverged_do_not_end_a_search_that_has_others_to_try() -> None:
    orders = decide(SWEEP, some(HOPELESS, Phase.STOPPED, NAN), Room(slots=4), 0.0, 1.0)
    assert [type(order) for order in orders] == [Start] * 4


def test_a_search_of_which_nobody_reports_anything_is_given_up() -> None:
    assert end(some(HOPELESS - 1, Phase.SUCCEEDED)) is None
    over = end(some(HOPELESS, Phase.SUCCEEDED))
    assert over is not None
    assert not over.good
    assert "none has reported loss: is it in `grus.report(...)`?" in over.why


def test_it_says_whether_its_trials_diverged_or_failed() -> None:
    diverged, failed = end(some(10, Phase.STOPPED, NAN)), end(some(HOPELESS, Phase.FAILED))
    assert diverged is not None
    assert failed is not None
    assert (diverged.good, failed.good) == (False, False)
    assert "loss was never a number: 10 diverged" in diverged.why
    assert "5 failed, `grus logs` of one says why" in failed.why
