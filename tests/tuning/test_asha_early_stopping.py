import pytest

from grus.model.jobs import Phase
from grus.model.sweep_search import Goal, Rule, Stopping
from grus.tuning.asha_early_stopping import bracket, foretold, verdict
from grus.tuning.learning_curve import continued
from grus.tuning.rungs import Ladder, ladder, rungs
from tests.tuning.builders import a_sweep, a_trial, held


def test_rungs_lie_a_factor_apart_and_well_before_the_end() -> None:
    assert rungs(Stopping(first=1.0, most=27.0)) == (1.0, 3.0, 9.0)
    assert rungs(Stopping(most=81.0)) == (3.0, 9.0, 27.0)
    assert rungs(Stopping(most=9.0)) == (1.0, 3.0)
    assert rungs(Stopping(first=11.0, most=100.0)) == (11.0, 33.0)
    assert rungs(Stopping(rule=Rule.NONE, most=27.0)) == ()


def test_of_three_at_a_rung_the_best_goes_on_whatever_is_best() -> None:
    trials = [held(0, 1.0), held(1, 2.0), held(2, 3.0)]
    assert verdict(a_sweep(), trials).ahead == (0,)
    assert verdict(a_sweep(goal=Goal.MAXIMIZE), trials).ahead == (2,)


def test_those_that_came_further_go_on_first() -> None:
    low = [held(number, float(number)) for number in range(3)]
    high = [held(number, 10.0, 10.0, float(number)) for number in (3, 4, 5)]
    ended = [a_trial(number, 20.0, phase=Phase.STOPPED) for number in range(6, 12)]
    assert verdict(a_sweep(), [*low, *high, *ended]).ahead[:1] == (3,)


def test_a_trial_on_its_way_is_not_paused_for_a_few_newcomers() -> None:
    others = [held(1, 1.0), held(2, 3.0)]
    assert 0 not in verdict(a_sweep(), [a_trial(0, 2.0, 1.9), *others]).out
    many = [held(number, 1.0) for number in range(3, 9)]
    assert 0 in verdict(a_sweep(), [a_trial(0, 2.0, 1.9), *others, *many]).out


def test_a_trial_that_was_resumed_is_not_paused_before_it_is_heard() -> None:
    others = [held(1, 1.0), held(2, 3.0)]
    assert 0 in verdict(a_sweep(), [a_trial(0, 2.0), *others]).out
    assert 0 not in verdict(a_sweep(), [a_trial(0, 2.0, fresh=True), *others]).out


def test_the_first_to_arrive_is_not_ended_for_want_of_others() -> None:
    assert verdict(a_sweep(), [a_trial(0, 2.0, resumable=False)]).out == {}


def test_the_median_rule_ends_what_is_worse_than_most_others_were() -> None:
    others = [a_trial(number, 1.0, 1.0, phase=Phase.SUCCEEDED) for number in range(5)]
    sweep = a_sweep(rule=Rule.MEDIAN)
    assert list(verdict(sweep, [*others, a_trial(5, 2.0, 2.0)]).out) == [5]
    assert verdict(sweep, [*others, a_trial(5, 2.0, 0.9)]).out == {}
    assert verdict(sweep, [*others[:4], a_trial(5, 2.0, 2.0)]).out == {}


def test_brackets_of_hyperband_are_judged_each_by_itself() -> None:
    sweep = a_sweep(rule=Rule.HYPERBAND, most=27.0)
    by_bracket = {one: [n for n in range(300) if bracket(sweep, n) == one] for one in range(4)}
    assert all(by_bracket.values())
    assert len(by_bracket[0]) > len(by_bracket[3])
    last = by_bracket[3][:6]
    assert verdict(sweep, [a_trial(number, float(number)) for number in last]).out == {}
    first = by_bracket[0][:6]
    assert len(verdict(sweep, [a_trial(number, float(number)) for number in first]).out) >= 4


def test_auto_believes_a_rung_as_far_as_it_foretold_the_next() -> None:
    true = [held(number, float(number), float(number), float(number)) for number in range(6)]
    false = [held(number, float(number), 0.0, float((number * 5) % 6)) for number in range(6)]
    newcomer = a_trial(6, 2.5)
    assert foretold(ladder(a_sweep(), true), 0) == 1.0
    assert foretold(ladder(a_sweep(), false), 0) < 0.5
    assert 6 in verdict(a_sweep(rule=Rule.AUTO), [*true, newcomer]).out
    assert 6 not in verdict(a_sweep(rule=Rule.AUTO), [*false, newcomer]).out
    assert 6 in verdict(a_sweep(rule=Rule.ASHA), [*false, newcomer]).out


def test_a_rung_is_not_believed_less_because_those_that_passed_it_are_alike() -> None:
    passed: dict[int, tuple[float, ...]] = {
        number: (float(number), float(there)) for number, there in enumerate((2, 0, 1, 4, 3, 5))
    }
    left = {number: (float(number),) for number in range(6, 30)}
    alone = foretold(Ladder((1.0, 3.0), passed), 0)
    assert alone < foretold(Ladder((1.0, 3.0), {**passed, **left}), 0) < 1.0


def test_a_rung_that_foretold_all_is_believed_whatever_is_lost_in_rounding() -> None:
    for count in range(3, 30):
        same = {number: (float(number), float(number)) for number in range(count)}
        assert foretold(Ladder((1.0, 3.0), {**same, 99: (99.0,)}), 0) == pytest.approx(1.0)


def test_no_rule_ends_nobody() -> None:
    assert verdict(a_sweep(rule=Rule.NONE), [a_trial(number, float(number)) for number in range(9)]).out == {}


def test_values_of_different_rungs_are_made_comparable() -> None:
    """All fall by 10 from rung to rung: who stands at 12 is worth 2, better than one who has come to 3."""
    falling = {number: (10.0 + number, float(number)) for number in range(3, 9)}
    found = continued(Ladder((1.0, 3.0), {**falling, 0: (12.0,)}))
    assert found[0] == pytest.approx(2.0, abs=1e-9)
    assert found[3] == 3.0


def test_a_rung_that_says_nothing_makes_all_alike() -> None:
    values = {number: (float(number), 5.0) for number in range(40)}
    found = continued(Ladder((1.0, 3.0), {**values, 100: (0.0,), 101: (39.0,)}))
    assert found[101] - found[100] < 5.0
