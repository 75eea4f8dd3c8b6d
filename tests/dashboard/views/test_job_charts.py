"""The charts of a job: true to what was measured, and drawn by Plotly's own rules."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go  # type: ignore[import-untyped]  # no types
import pytest

from grus.dashboard import static_files
from grus.dashboard.views import job_charts
from grus.dashboard.views.job_charts import MOST_BOUNDARIES, ChartLine, Figure
from grus.dashboard.views.job_timeline import Stretch, Strip, TimelineState
from grus.model.activity_labels import Tag, WorkloadKind
from grus.model.metrics_history import Curve, Curves, Point
from grus.patterns.demand_forecast import Forecast, Nothing
from grus.telemetry.tsdb import Series

NAN = math.nan
EVIL = "<b>x</b><script>"


def a_series(*values: float, start: float = 1000.0, step: float = 1.0) -> Series:
    return Series(start, step, np.asarray(values, dtype=np.float64))


def a_tag(period: float, boundary: float, at: float = 0.0) -> Tag:
    return Tag(kind=WorkloadKind.TRAINING, at=at, expires=1e9, period=period, boundary=boundary)


def curves(**points: Sequence[tuple[float, float | None, float, int]]) -> Curves:
    return Curves((), tuple(Curve(name, tuple(Point(*one) for one in points[name])) for name in points))


def traces(figure: Figure) -> list[dict[str, Any]]:
    found = figure["data"]
    assert isinstance(found, list)
    return found


def layout(figure: Figure) -> dict[str, Any]:
    found = figure["layout"]
    assert isinstance(found, dict)
    return found


def checked(figure: Figure) -> Figure:
    """Raises for anything that Plotly does not know; colours are the page's affair."""
    go.Figure(_plain(figure))
    return figure


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return "#000000" if value.startswith("--") else value
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def test_use_is_drawn_at_the_middle_of_each_step_with_gaps_where_nothing_is_known() -> None:
    line = traces(checked(job_charts.use(a_series(0.5, NAN, 1.0, step=10.0), None, None)))[1]
    assert (line["x"], line["y"]) == ([1005.0, 1015.0, 1025.0], [0.5, None, 1.0])


def test_a_recognised_period_is_marked_from_its_boundary_on_and_named() -> None:
    series = a_series(*[0.5] * 100)
    figure = checked(job_charts.use(series, a_tag(30.0, boundary=1010.0), None))
    lines = [shape["x0"] for shape in layout(figure)["shapes"] if shape["type"] == "line"]
    assert lines == [1010.0, 1040.0, 1070.0, 1100.0]
    [label] = layout(figure)["annotations"]
    assert (label["text"], label["x"]) == ("every 30s", 1085.0)


def test_periods_from_before_they_were_recognised_are_not_marked() -> None:
    figure = job_charts.use(a_series(*[0.5] * 100), a_tag(30.0, boundary=1010.0, at=1060.0), None)
    assert [shape["x0"] for shape in layout(figure)["shapes"] if shape["type"] == "line"] == [1070.0, 1100.0]


def test_of_very_many_periods_only_the_last_is_marked() -> None:
    series = a_series(*[0.5] * 1000)
    figure = job_charts.use(series, a_tag(1000 / MOST_BOUNDARIES / 2, boundary=1000.0), None)
    assert sum(shape["type"] == "line" for shape in layout(figure)["shapes"]) == 2


def test_a_forecast_is_a_band_around_its_median_after_what_was_measured() -> None:
    ahead = Forecast(
        start=1100.0,
        step=300.0,
        median=np.array([0.5, 0.6]),
        low=np.array([0.4, 0.5]),
        high=np.array([0.6, 0.7]),
        season=None,
        sentence="",
    )
    _, _, low, high, median = traces(checked(job_charts.use(a_series(0.5), None, ahead)))
    assert (low["y"], high["y"], median["y"]) == ([0.4, 0.5], [0.6, 0.7], [0.5, 0.6])
    assert high["fill"] == "tonexty"
    assert median["x"] == [1250.0, 1550.0]
    assert len(traces(job_charts.use(a_series(0.5), None, Nothing("too short")))) == 2
    assert (
        job_charts.forecast_words(Nothing("two hours are missing")) == "No forecast: two hours are missing."
    )


@pytest.mark.parametrize(
    "figure",
    [
        job_charts.use(None, None, None),
        job_charts.use(a_series(NAN), None, None),
        job_charts.memory([ChartLine("GPU", a_series(NAN), "--chart-1")], None),
        job_charts.power(None),
        job_charts.loss(Curves()),
        job_charts.throughput(Curves(), Strip()),
        job_charts.others(Curves()),
    ],
)
def test_a_chart_without_anything_to_show_says_what_is_missing(figure: Figure) -> None:
    assert list(figure) == ["missing"]
    assert str(figure["missing"]).endswith(".")


def test_memory_is_told_in_a_unit_that_fits_and_its_limit_only_when_it_is_near() -> None:
    small = checked(job_charts.memory([ChartLine("GPU", a_series(5e8), "--chart-1")], limit=16e9))
    assert traces(small)[0]["y"] == [500.0]
    assert layout(small)["yaxis"]["ticksuffix"] == " MB"
    assert "shapes" not in layout(small)
    large = checked(job_charts.memory([ChartLine("GPU", a_series(12e9), "--chart-1")], limit=16e9))
    assert (traces(large)[0]["y"], layout(large)["shapes"][0]["y0"]) == ([12.0], 16.0)


def test_equal_lines_of_memory_can_both_be_seen() -> None:
    lines = [ChartLine("GPU", a_series(5e8), "--chart-1"), ChartLine("host", a_series(5e8), "--chart-2")]
    first, second = traces(checked(job_charts.memory(lines, None)))
    assert (first["line"]["dash"], second["line"]["dash"]) == ("solid", "dash")
    assert first["line"]["color"] != second["line"]["color"]


def test_a_loss_is_drawn_over_steps_and_broken_where_an_attempt_begins() -> None:
    found = curves(loss=[(1, 10, 2.0, 1), (2, 20, 1.0, 1), (3, 15, 1.2, 2)])
    figure = checked(job_charts.loss(found))
    [line] = traces(figure)
    assert (line["x"], line["y"]) == ([10, 20, None, 15], [2.0, 1.0, None, 1.2])
    assert layout(figure)["xaxis"]["title"]["text"] == "step"


def test_a_loss_without_steps_is_drawn_over_time() -> None:
    figure = job_charts.loss(curves(train_loss=[(1, None, 2.0, 1), (2, None, 1.0, 1)]))
    assert (traces(figure)[0]["x"], layout(figure)["xaxis"]) == ([1, 2], {"type": "date"})


def test_other_figures_are_those_that_say_how_well_it_does() -> None:
    one = [(1.0, 1.0, 0.5, 1)]
    figure = checked(job_charts.others(curves(accuracy=one, step=one, total=one, loss=one, throughput=one)))
    assert [trace["name"] for trace in traces(figure)] == ["accuracy"]


def test_throughput_stands_before_the_number_of_gpus() -> None:
    stretches = [(0, 10, 1), (10, 20, 4)]
    life = Strip(
        stretches=tuple(
            Stretch(
                begin=a,
                end=b,
                state=TimelineState.RUNNING,
                attempt=1,
                generation=1 + gpus // 4,
                gpus=gpus,
                text="",
            )
            for a, b, gpus in stretches
        )
    )
    figure = checked(job_charts.throughput(curves(throughput=[(5, 1, 10.0, 1), (15, 9, 38.0, 1)]), life))
    speed, sizes = traces(figure)
    assert (speed["y"], speed["name"]) == ([10.0, 38.0], "steps/s")
    assert (sizes["x"], sizes["y"]) == ([5, 10, 10, 15], [1, 1, 4, 4])


def test_names_that_people_gave_are_passed_as_they_are_for_text_nodes() -> None:
    figure = job_charts.others(curves(**{EVIL: [(1, 1, 1.0, 1)]}))
    assert traces(figure)[0]["name"] == EVIL


def test_the_script_of_these_charts_makes_text_nodes_only() -> None:
    script = static_files.read("lines.js").plain.decode()
    assert "textContent" in script
    assert not any(word in script for word in ("innerHTML", "insertAdjacentHTML", "outerHTML", "DOMParser"))
