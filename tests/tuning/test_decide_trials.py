import math

import pytest

from grus.model.jobs import Phase
from grus.model.sweep_search import Budget, Goal, Rule
from grus.tuning.orders import Finish, Pause, Resume, ScaleTrial, Start, Stop
from tests.tuning.builders import a_sweep, a_trial, held, orders, without_starts


def test_what_is_free_is_filled_and_one_more_waits_in_the_line() -> None:
    assert [type(order) for order in orders(a_sweep(), [], slots=3)] == [Start] * 3
    busy = [a_trial(0, phase=Phase.RUNNING), a_trial(1, phase=Phase.RUNNING)]
    assert [order.number for order in orders(a_sweep(), busy) if isinstance(order, Start)] == [2]
    assert orders(a_sweep(), [*busy, a_trial(2, phase=Phase.PENDING)]) == []


def test_no_more_run_at_once_than_parallel_says() -> None:
    busy = [a_trial(number) for number in range(3)]
    assert orders(a_sweep(parallel=3), busy, slots=5) == []
    assert len(orders(a_sweep(parallel=4), busy, slots=5)) == 1


def test_a_trial_that_is_not_among_the_best_waits_at_its_rung_and_its_gpu_is_handed_on() -> None:
    found = orders(a_sweep(), [held(0, 1.0), held(1, 2.0), a_trial(2, 3.0)])
    assert [type(order) for order in found] == [Pause, Resume]
    assert [order.number for order in found if isinstance(order, Pause | Resume)] == [2, 0]


def test_a_trial_that_cannot_resume_is_ended_instead() -> None:
    others = [held(number, float(number)) for number in range(5)]
    found = without_starts(orders(a_sweep(), [*others, a_trial(5, 9.0, resumable=False)]))
    assert any(isinstance(order, Stop) and order.number == 5 for order in found)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_trial_that_diverged_is_ended_and_never_the_best(value: float) -> None:
    sweep = a_sweep(budget=Budget(target=-1e9))
    (stop,) = without_starts(orders(sweep, [a_trial(0, value)]))
    assert isinstance(stop, Stop)
    assert "diverged" in stop.why


def test_a_trial_that_never_reports_is_ended_after_the_patience() -> None:
    sweep = a_sweep(patience=60.0)
    assert without_starts(orders(sweep, [a_trial(0, seconds=59.0)])) == []
    (stop,) = without_starts(orders(sweep, [a_trial(0, seconds=60.0)]))
    assert isinstance(stop, Stop)
    assert "grus.report(loss=…)" in stop.why


def test_a_search_of_which_no_trial_ever_reports_gives_up() -> None:
    ended = [a_trial(number, phase=Phase.SUCCEEDED) for number in range(5)]
    (finish,) = orders(a_sweep(), ended)
    assert isinstance(finish, Finish)
    assert not finish.good


def test_a_trial_has_a_budget_of_its_own() -> None:
    sweep = a_sweep(budget=Budget(trial_gpu_seconds=100.0))
    (stop,) = without_starts(orders(sweep, [a_trial(0, gpu_seconds=100.0), a_trial(1, gpu_seconds=99.0)]))
    assert isinstance(stop, Stop)
    assert stop.number == 0


@pytest.mark.parametrize(
    ("goal", "reached", "missed"), [(Goal.MINIMIZE, 0.1, 0.2), (Goal.MAXIMIZE, 0.9, 0.8)]
)
def test_a_target_ends_the_search_once_it_is_reached(goal: Goal, reached: float, missed: float) -> None:
    sweep = a_sweep(goal=goal, budget=Budget(target=reached))
    assert not any(isinstance(order, Finish) for order in orders(sweep, [a_trial(0, missed)]))
    (finish,) = orders(sweep, [a_trial(0, reached)])
    assert isinstance(finish, Finish)
    assert finish.good


@pytest.mark.parametrize("budget", [Budget(seconds=10.0), Budget(gpu_seconds=5.0)])
def test_time_and_gpu_hours_end_the_search(budget: Budget) -> None:
    trials = [a_trial(0, 1.0, gpu_seconds=5.0)]
    assert isinstance(orders(a_sweep(budget=budget), trials, seconds=10.0)[0], Finish)


def test_the_last_trials_are_carried_to_an_end_though_too_few_came_to_compare() -> None:
    sweep = a_sweep(budget=Budget(trials=2))
    (resume,) = orders(sweep, [held(0, 2.0), held(1, 1.0)], slots=1)
    assert isinstance(resume, Resume)
    assert resume.number == 1
    done = a_trial(1, *[1.0] * 9, phase=Phase.SUCCEEDED)
    assert isinstance(orders(sweep, [held(0, 2.0), done], slots=1)[0], Finish)


def test_a_trial_that_is_whole_is_ended_where_its_program_goes_on() -> None:
    assert without_starts(orders(a_sweep(), [a_trial(0, *[1.0] * 9)])) == []
    (stop,) = without_starts(orders(a_sweep(), [a_trial(0, *[1.0] * 10)]))
    assert isinstance(stop, Stop)
    assert "complete" in stop.why


def test_those_that_came_far_may_hold_more() -> None:
    sweep = a_sweep(grow="1..4", rule=Rule.ASHA)
    far = a_trial(0, 1.0, 0.9, 0.8, 0.7)
    early = [a_trial(1, 5.0, phase=Phase.STOPPED), a_trial(2, 5.0, phase=Phase.STOPPED)]
    assert ScaleTrial(0, "1..4") in orders(sweep, [far, *early])
    grown = a_trial(0, 1.0, 0.9, 0.8, 0.7, grown=True)
    assert not any(isinstance(order, ScaleTrial) for order in orders(sweep, [grown, *early]))


def test_the_same_records_give_the_same_orders() -> None:
    trials = [held(number, 1.0 / (number + 1)) for number in range(12)]
    first = orders(a_sweep(sampler="tpe"), trials, slots=9)
    assert first == orders(a_sweep(sampler="tpe"), list(trials), slots=9)
    assert sum(isinstance(order, Start) for order in first) == 5
