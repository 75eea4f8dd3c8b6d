"""The charts of a sweep: true to its trials, and drawn by Plotly's own rules without WebGL."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from grus.dashboard.views import sweep_charts
from grus.dashboard.views.parallel_coordinates import MOST_AXES, parallel
from grus.dashboard.views.sweep_search_data import marks, place_on, value_words
from grus.model.jobs import Phase
from grus.model.sweep_search import Axis, Budget, Goal, Rule, Stopping, Sweep
from tests.dashboard.views.searches import RATE, WIDTH, a_search, a_trial
from tests.dashboard.views.test_job_charts import EVIL, checked, layout, traces

SOME = (
    a_trial(0, 0.9, lr=0.001, width=64),
    a_trial(1, 0.5, Phase.STOPPED, lr=0.01, width=128),
    a_trial(2, 0.7, Phase.RUNNING, lr=0.1, width=256),
    a_trial(3, None, Phase.FAILED, lr=1.0, width=64),
)


def by_name(figure: dict[str, object]) -> dict[str, dict[str, Any]]:
    return {str(trace["name"]): trace for trace in traces(figure)}


# ------------------------------------------------------------------------------------------------- history


def test_each_trial_is_a_dot_of_its_kind_and_the_best_so_far_only_gets_better() -> None:
    found = by_name(checked(sweep_charts.history(a_search(*SOME))))
    assert (found["ended"]["x"], found["ended"]["y"]) == ([0], [0.9])
    assert found["stopped early"]["x"] == [1]
    assert found["under way"]["x"] == [2]
    assert found["best so far"]["y"] == [0.9, 0.5, 0.5]
    higher = a_search(*SOME, sweep=Sweep(axes=(RATE,), metric="score", goal=Goal.MAXIMIZE))
    assert by_name(sweep_charts.history(higher))["best so far"]["y"] == [0.9, 0.9, 0.9]


@pytest.mark.parametrize(("trials", "step"), [(1, 1), (4, 1), (12, 2), (40, 5), (2000, 200)])
def test_trials_have_whole_numbers_on_their_axis(trials: int, step: int) -> None:
    search = a_search(*(a_trial(number, 1.0 + number) for number in range(trials)))
    axis = layout(checked(sweep_charts.history(search)))["xaxis"]
    assert (axis["tick0"], axis["dtick"]) == (0, step)
    assert axis["range"] == [-0.5, trials - 0.5]


def test_the_target_is_a_line_also_on_a_logarithmic_axis() -> None:
    sweep = Sweep(axes=(RATE,), metric="loss", budget=Budget(target=0.01))
    found = layout(checked(sweep_charts.history(a_search(a_trial(0, 100.0), a_trial(1, 0.1), sweep=sweep))))
    assert found["yaxis"]["type"] == "log"
    assert found["shapes"][0]["y0"] == 0.01
    assert found["annotations"][0]["y"] == pytest.approx(-2)


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_what_is_no_number_is_no_dot_and_no_chart_says_what_is_missing(value: float | None) -> None:
    search = a_search(a_trial(0, value))
    for figure in (sweep_charts.history(search), parallel(search)):
        assert "grus.report(loss=…)" in str(figure["missing"])
    json.dumps([sweep_charts.curves(search), sweep_charts.history(search)], allow_nan=False)


# ----------------------------------------------------------------------------------- parallel coordinates


def test_a_trial_is_a_line_through_its_values_and_the_best_is_drawn_last() -> None:
    figure = checked(parallel(a_search(*SOME)))
    best = traces(figure)[-1]
    assert best["name"] == "the best"
    assert best["x"] == [0, 1, 2, None]
    assert best["y"] == pytest.approx([0.5, 0.5, 0.0, None])
    assert layout(figure)["xaxis"]["ticktext"] == ["lr", "width", "loss"]


def test_parallel_coordinates_of_thousands_are_a_handful_of_traces_without_webgl() -> None:
    trials = [a_trial(number, 1.0 + number, lr=0.01, width=64) for number in range(3000)]
    found = traces(parallel(a_search(*trials)))
    assert len(found) == 5
    assert {trace["type"] for trace in found} == {"scatter"}
    assert sum(trace["x"].count(0) for trace in found) == 3000


def test_of_many_parameters_those_that_matter_most_are_drawn() -> None:
    axes = tuple(Axis(name=f"p{number}", low=0, high=1) for number in range(20))
    trial = replace(a_trial(0, 1.0), params=tuple((axis.name, 0.5) for axis in axes))
    search = replace(
        a_search(trial, sweep=Sweep(axes=axes, metric="loss")), importance=(("p19", 0.9), ("p0", 0.1))
    )
    names = layout(parallel(search))["xaxis"]["ticktext"]
    assert len(names) == MOST_AXES + 1
    assert {"p0", "p19", "loss"} <= set(names)


def test_values_stand_where_their_axis_says() -> None:
    assert place_on(RATE, 0.01) == pytest.approx(0.5)
    assert place_on(WIDTH, 128) == 0.5
    assert place_on(WIDTH, 100) is None
    assert place_on(Axis(name="x", choices=(True, 1)), 1) == 1.0
    assert place_on(RATE, 0) is None
    assert place_on(RATE, math.nan) is None
    assert place_on(RATE, "fast") is None
    assert place_on(Axis(name="x", low=2, high=2), 2) == 0.5


def test_marks_of_whole_numbers_are_whole_and_stand_at_their_values() -> None:
    axis = Axis(name="depth", low=1, high=8, whole=True)
    assert [label for _, label in marks(axis)] == ["1", "3", "4", "6", "8"]
    assert all(place_on(axis, int(label)) == pytest.approx(at) for at, label in marks(axis))
    assert value_words(True) == "yes"


# ------------------------------------------------------------------------------- importance, learning curves


def test_importance_is_a_bar_each_the_largest_on_top() -> None:
    search = replace(a_search(*SOME), importance=(("lr", 0.8), ("width", 0.2)))
    (bar,) = traces(checked(sweep_charts.importance(search)))
    assert (bar["y"], bar["x"]) == (["width", "lr"], [0.2, 0.8])
    assert "missing" in sweep_charts.importance(a_search(*SOME))


def test_curves_are_apart_and_rungs_are_drawn_as_far_as_trials_came() -> None:
    stopping = Stopping(rule=Rule.ASHA, by="epoch", first=1, factor=3, most=27)
    sweep = Sweep(axes=(RATE,), metric="loss", stopping=stopping)
    figure = checked(sweep_charts.curves(a_search(*SOME, sweep=sweep, best=1)))
    found = by_name(figure)
    assert found["the best"]["x"] == [1.0, 3.0, None]
    assert "stopped early" not in found
    assert layout(figure)["xaxis"]["title"]["text"] == "epoch"
    assert [shape["x0"] for shape in layout(figure)["shapes"]] == [1, 3]


# -------------------------------------------------------------------------------------------------- safety


def test_what_people_wrote_is_escaped_in_every_figure() -> None:
    axis = Axis(name=EVIL, choices=(EVIL, "other"))
    stopping = Stopping(by=EVIL)
    sweep = Sweep(axes=(axis,), metric=EVIL, stopping=stopping)
    trial = replace(a_trial(0, 1.0), params=((EVIL, EVIL),))
    search = replace(a_search(trial, sweep=sweep, best=0), importance=((EVIL, 1.0),))
    for figure in (
        sweep_charts.history(search),
        parallel(search),
        sweep_charts.importance(search),
        sweep_charts.curves(search),
    ):
        assert "<b>" not in json.dumps(checked(figure))
        assert "&lt;b&gt;" in json.dumps(figure)
