from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grus.model.jobs import Phase
from grus.model.sweep_search import Axis, Goal
from grus.tuning import random_grid_sampling, samplers
from grus.tuning.importance import importance
from grus.tuning.samplers import SAMPLERS
from grus.tuning.sweep_trials import TrialView
from tests.tuning.builders import a_sweep, a_trial


@given(st.floats(0, 1), st.integers(-50, 50), st.integers(1, 100), st.booleans())
def test_a_value_lies_between_the_ends(part: float, low: int, width: int, whole: bool) -> None:
    axis = Axis(name="x", low=float(low), high=float(low + width), whole=whole)
    value = random_grid_sampling.at(axis, part)
    assert low <= float(value) <= low + width
    assert isinstance(value, int) is whole


@given(st.floats(0, 1))
def test_a_value_with_a_step_is_one_of_the_points(part: float) -> None:
    axis = Axis(name="x", low=10.0, high=95.0, step=10.0, whole=True)
    assert random_grid_sampling.points(axis) == (10, 20, 30, 40, 50, 60, 70, 80, 90)
    assert random_grid_sampling.at(axis, part) in random_grid_sampling.points(axis)


def test_orders_of_magnitude_are_alike() -> None:
    sweep = replace(a_sweep(), axes=(Axis(name="lr", low=1e-4, high=1.0, log=True),))
    drawn = [dict(random_grid_sampling.random(sweep, (), number))["lr"] for number in range(400)]
    below = sum(float(value) < 1e-2 for value in drawn)
    assert 150 < below < 250


def test_a_grid_is_visited_once_each_in_an_order_by_the_seed() -> None:
    sweep = replace(
        a_sweep(sampler="grid"),
        axes=(Axis(name="a", choices=(1, 2, 3)), Axis(name="b", low=0, high=1, whole=True)),
    )
    visited = [random_grid_sampling.grid(sweep, (), number) for number in range(6)]
    assert random_grid_sampling.grid_size(sweep) == 6
    assert set(Counter(visited).values()) == {1}
    assert visited != [random_grid_sampling.grid(replace(sweep, seed=1), (), number) for number in range(6)]


@pytest.mark.parametrize("name", ["tpe", "random", "grid"])
def test_a_sampler_made_anew_asks_the_same(name: str) -> None:
    axes = (Axis(name="a", choices=(1, 2, 3)), Axis(name="depth", low=0, high=9, whole=True))
    sweep = replace(a_sweep(sampler=name), axes=axes)
    trials = list[TrialView]()
    for number in range(14):
        params = SAMPLERS[name](sweep, trials, number)
        assert params == SAMPLERS[name](sweep, list(trials), number)
        value = abs(float(dict(params)["depth"]) - 3.0)
        trials.append(TrialView(number=number, params=params, phase=Phase.SUCCEEDED, curve=((9.0, value),)))


@pytest.mark.parametrize("goal", list(Goal))
def test_tpe_looks_where_it_was_good(goal: Goal) -> None:
    """Towards 3 if less is better; away from it, at the far end, if more is."""
    sweep = replace(a_sweep(sampler="tpe", goal=goal), axes=(Axis(name="x", low=0.0, high=10.0),))
    trials = list[TrialView]()
    for number in range(40):
        params = SAMPLERS["tpe"](sweep, trials, number)
        value = (float(dict(params)["x"]) - 3.0) ** 2
        trials.append(TrialView(number=number, params=params, phase=Phase.SUCCEEDED, curve=((9.0, value),)))
    late = [float(dict(trial.params)["x"]) for trial in trials[25:]]
    near = sum(abs(x - (3.0 if goal is Goal.MINIMIZE else 10.0)) < 1.5 for x in late)
    assert near > len(late) / 2


def test_what_a_sampler_lacks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert samplers.missing("random") == ""
    monkeypatch.setattr(samplers, "find_spec", lambda _: None)
    assert "pip install 'grus-gpu[tuning,torch]'" in samplers.missing("gp")
    assert samplers.missing("grid") == ""


def test_the_parameter_that_decides_is_the_important_one() -> None:
    sweep = a_sweep()
    trials = [
        replace(
            a_trial(number, *[float(number % 8)] * 9, phase=Phase.SUCCEEDED),
            params=(
                ("lr", 1e-5 + 1e-6 * ((number * 7) % 40)),
                ("width", 64 * (1 + number // 20)),
                ("depth", 1 + number % 8),
            ),
        )
        for number in range(40)
    ]
    found = importance(sweep, trials)
    assert found[0][0] == "depth"
    assert found[0][1] > 0.9
    assert all(share < 0.3 for _, share in found[1:])
    assert importance(sweep, trials[:7]) == ()


@pytest.mark.parametrize("count", [9, 12, 14])
def test_a_parameter_that_is_best_in_the_middle_matters_with_few_trials_too(count: int) -> None:
    sweep = replace(a_sweep(), axes=(Axis(name="lr", low=0.0, high=1.0),))
    places = [number / (count - 1) for number in range(count)]
    trials = [
        replace(a_trial(number, abs(place - 0.5), phase=Phase.SUCCEEDED), params=(("lr", place),))
        for number, place in enumerate(places)
    ]
    assert dict(importance(sweep, trials))["lr"] > 0.4
