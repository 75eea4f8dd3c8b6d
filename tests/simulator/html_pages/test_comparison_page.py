"""The page: one file with everything in it, the same bytes every time, and drawn by a real browser."""

import json
from html.parser import HTMLParser
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]  # no types
import pytest

from grus.simulator.cluster_spec import parse_nodes
from grus.simulator.events.run_results import Moment
from grus.simulator.html_pages.charts import (
    BINS,
    MOST_BARS,
    QUANTILES,
    Drawn,
    draw,
    over_time,
    packed,
    quantiles,
)
from grus.simulator.html_pages.comparison_page import figures, page
from grus.simulator.whatif_scenarios import PRESENT, Scenario, ScenarioChange, WhatIfComparison, compare
from tests.scheduler.builders import a_queue
from tests.simulator.scenes import FREE, a_simulation, a_work

EVIL = "</script><script>alert(1)</script>&<b>"


class Reader(HTMLParser):
    """Collects what a browser would load, what stands in scripts, and checks that elements are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.figures: dict[str, Any] = {}
        self.ids: list[str] = []
        self.tags: list[str] = []
        self._figure = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.links += [value for name in ("src", "href") if (value := given.get(name)) is not None]
        self.ids += [given["id"]] if given.get("id") else []  # type: ignore[list-item]  # an id is text
        self._figure = given.get("data-plot") or ""

    def handle_data(self, data: str) -> None:
        if self._figure:
            self.figures[self._figure] = json.loads(data)
            self._figure = ""


def a_comparison(queue: str = "b") -> WhatIfComparison:
    works = [
        a_work(f"{name}{i:02}", queue=name, submit=20.0 * i, gpus=1 + i % 2, duration=100.0 + i)
        for name in ("a", queue)
        for i in range(20)
    ]
    works.append(a_work("wide", queue="a", gpus=2, size=(1, 4), submit=50.0, duration=300.0))
    queues = a_queue("a", quota=4), a_queue(queue, quota=4)
    scene = Scenario(PRESENT, parse_nodes("2x4xV100"), queues, tuple(works), FREE)
    return compare(scene, ScenarioChange(add_nodes="1x4xV100"), draw=True)


def test_the_page_loads_nothing_and_shows_a_place_for_every_figure() -> None:
    found = Reader(page(a_comparison(), "void 0"))
    assert found.links == ["data:,"]
    assert found.ids == ["use", "completion", "jobs-0", "jobs-1", "jobs-2"] == list(found.figures)
    assert found.tags.count("table") == 1 + 3


def test_every_figure_is_one_that_plotly_accepts() -> None:
    """Plotly's own classes refuse an unknown property or a bad value."""
    for name, (_, _, figure) in figures(a_comparison()).items():
        assert go.Figure(figure).data, name


def test_a_queue_cannot_smuggle_a_script_into_the_page() -> None:
    text = page(a_comparison(EVIL), "void 0")
    assert "<script>alert" not in text
    assert "<b>" not in text
    shown = Reader(text).figures["jobs-0"]
    assert {trace["name"] for trace in shown["data"]} == {
        "a",
        "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;&lt;b&gt;",
    }


def test_the_script_of_plotly_cannot_end_its_own_element() -> None:
    assert "</script>' is safe" not in page(a_comparison(), "x = '</script>' is safe")


def test_the_same_comparison_gives_the_same_bytes() -> None:
    assert page(a_comparison(), "void 0") == page(a_comparison(), "void 0")


def test_without_drawings_there_are_the_table_and_the_sentences() -> None:
    scene = Scenario(PRESENT, parse_nodes("1x4xV100"), (a_queue("default", quota=4),), (a_work("x"),), FREE)
    found = Reader(page(compare(scene, ScenarioChange(), static=False), "void 0"))
    assert found.figures == {}
    assert found.tags.count("table") == 1


# ---------------------------------------------------------------------------------------------- drawings


def drawn() -> Drawn:
    works = [a_work("a", gpus=4), a_work("b", submit=20.0, gpus=2, duration=50.0)]
    return draw(a_simulation("1x4", works).run())


def test_bars_are_as_thick_as_the_gpus_and_as_long_as_they_were_held() -> None:
    assert [(bar.job, bar.begin, bar.end, bar.low, bar.gpus) for bar in drawn().bars] == [
        ("a", 0.0, 100.0, 0.0, 4),
        ("b", 100.0, 150.0, 0.0, 2),
    ]
    assert drawn().whole


def test_bars_never_overlap_and_cover_exactly_what_was_held() -> None:
    found = a_comparison().sides[0].drawn
    assert found is not None
    for one in found.bars:
        for other in found.bars:
            together = one.begin < other.end and other.begin < one.end
            beside = one.low + one.gpus <= other.low + 1e-6 or other.low + other.gpus <= one.low + 1e-6
            assert one is other or not together or beside, (one, other)
    area = sum((bar.end - bar.begin) * bar.gpus for bar in found.bars)
    width = found.times[1] - found.times[0]
    assert area == pytest.approx(sum(found.used) * width * found.gpus, rel=1e-3)


def test_use_over_time_is_the_mean_of_each_bin() -> None:
    moments = [Moment(0.0, 4.0, 0), Moment(50.0, 0.0, 2)]
    times, held, waiting = over_time(moments, 0.0, 100.0)
    assert len(times) == BINS
    assert sum(held) / BINS == pytest.approx(2.0)
    assert sum(waiting) / BINS == pytest.approx(1.0)
    assert over_time([], 0.0, 0.0) == ([], [], [])


def test_many_completion_times_are_thinned_out_to_quantiles_with_both_ends() -> None:
    found = quantiles([float(n) for n in range(100_000)])
    assert (len(found), found[0], found[-1]) == (QUANTILES, 0.0, 99_999.0)


def test_of_a_great_many_jobs_a_stretch_is_drawn() -> None:
    works = [a_work(f"j{n:05}", submit=float(n), duration=3.0) for n in range(3 * MOST_BARS)]
    found = draw(a_simulation("1x4", works).run())
    assert not found.whole
    assert 100 < len(found.bars) <= MOST_BARS
    assert found.shown[0] < found.shown[1]


def test_a_fraction_of_a_gpu_is_a_thin_bar() -> None:
    result = a_simulation("1x1", [a_work("half", gpus=0.5), a_work("other", gpus=0.5)]).run()
    found = packed(result.jobs, 0.0, 100.0, 0.0)
    assert [(bar.low, bar.gpus) for bar in found] == [(0.0, 0.5), (0.5, 0.5)]


# ----------------------------------------------------------------------------------------- a real browser
