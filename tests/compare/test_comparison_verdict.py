"""What a comparison says: figures equal to a straightforward recomputation, and what speaks against them."""

import statistics
from dataclasses import replace
from typing import Any

import pytest

from grus.compare import comparison_verdict, report_tables
from grus.compare.environments import Check, DriverStep, ManualStep, PreflightStatus
from grus.compare.html_report import page
from grus.compare.result_directory import Blocked, Comparison, Side, Visit
from tests.compare.made import a_comparison, a_record, a_run, a_side

FIRST = [0.50, 0.52, 0.49, 0.51, 0.50]
SECOND = [0.60, 0.61, 0.59, 0.62, 0.60]


def two_sides(first: list[float], second: list[float]) -> Comparison:
    sides = [
        a_side(label, *[a_run(label, n, a_record(step_seconds=s)) for n, s in enumerate(times, start=1)])
        for label, times in (("a", first), ("b", second))
    ]
    return a_comparison(*sides, repeats=len(first))


def the_json(found: Comparison) -> dict[str, Any]:
    return report_tables.as_json(comparison_verdict.report(found))


def test_figures_are_those_of_a_straightforward_recomputation() -> None:
    made = the_json(two_sides(FIRST, SECOND))
    for side, times in zip(made["environments"], (FIRST, SECOND), strict=True):
        speeds = [32 / seconds for seconds in times]
        summary = side["figures"]["samples/s"]["summary"]
        assert summary["mean"] == pytest.approx(statistics.mean(speeds))
        assert summary["median"] == pytest.approx(statistics.median(speeds))
        assert summary["count"] == len(speeds)
        assert summary["interval"]["low"] < summary["mean"] < summary["interval"]["high"]
    means = [statistics.mean(32 / seconds for seconds in times) for times in (FIRST, SECOND)]
    by_first = made["environments"][1]["figures"]["samples/s"]["by_first"]
    assert by_first["value"] == pytest.approx(means[1] / means[0])


def test_a_clear_difference_is_said_and_an_unclear_one_is_not_made_one() -> None:
    assert any("b is slower" in said for said in the_json(two_sides(FIRST, SECOND))["answers"])
    same = the_json(two_sides(FIRST, [0.51, 0.49, 0.52, 0.50, 0.50]))["answers"]
    assert any("no difference can be told" in said for said in same)
    few = the_json(two_sides(FIRST[:2], SECOND[:2]))["answers"]
    assert any("nobody can say how sure" in said for said in few)


def test_other_work_is_said_before_every_figure() -> None:
    other = a_side("b", a_run("b", 1, a_record(batch=64)))
    made = comparison_verdict.report(a_comparison(a_side("a", a_run("a", 1, a_record())), other))
    assert comparison_verdict.answers(made)[0].startswith("These figures must not be compared: batch differs")


def test_a_blocked_environment_makes_a_partial_report_that_names_the_step() -> None:
    visit = Visit(
        manual=(ManualStep(what="push the image"),),
        checks=(Check(name="GPU visible", verdict=PreflightStatus.FAILED, found="none", fix="ask for one"),),
        blocked=Blocked(step=DriverStep.PREFLIGHT, why="GPU visible: none. ask for one"),
    )
    found = a_comparison(a_side("a", a_run("a", 1, a_record())), a_side("b", visit=visit))
    made = the_json(found)
    assert made["answers"][0] == (
        "b was blocked at preflight, before its first run: GPU visible: none. ask for one"
    )
    assert (made["whole"], made["missing"]) == (False, ["b-1"])
    assert made["environments"][0]["figures"]["steps/s"]["summary"]["count"] == 1
    assert made["environments"][1]["figures"]["steps/s"]["summary"] is None
    assert len(made["environments"][1]["manual_steps"]) == 1


def test_a_workload_that_reports_nothing_is_told_how_to() -> None:
    silent = replace(a_record(), told=())
    sides = [a_side(label, a_run(label, 1, silent)) for label in ("a", "b")]
    said = the_json(a_comparison(*sides))["answers"]
    assert any("No throughput is known" in one for one in said)


def test_the_effect_of_a_load_is_told_where_it_was_real_and_only_there() -> None:
    def side(label: str, cores: float) -> Side:
        runs = [a_run(label, n, a_record(step_seconds=0.5 + n / 1000)) for n in (1, 2, 3)]
        loaded = [
            a_run(label, n, a_record(step_seconds=0.75 + n / 1000, load=8, load_cpu=cores), loaded=True)
            for n in (1, 2, 3)
        ]
        return a_side(label, *runs, *loaded)

    made = the_json(a_comparison(side("a", 6.0), side("b", 0.1), repeats=3, with_load=True))
    speeds = {(one["environment"], one["figure"]): one["ratio"]["value"] for one in made["effects_of_load"]}
    plain = statistics.mean(1 / (0.5 + n / 1000) for n in (1, 2, 3))
    beside = statistics.mean(1 / (0.75 + n / 1000) for n in (1, 2, 3))
    assert speeds["a", "steps/s"] == pytest.approx(beside / plain)
    assert not [key for key in speeds if key[0] == "b"]
    assert any("hardly ran in b" in said for said in made["answers"])
    runs = made["environments"][0]["figures"]["steps/s"]["summary"]
    assert runs["count"] == 3, "runs beside a load are not counted among the others"


def test_how_well_two_environments_shield_a_workload_is_set_side_by_side() -> None:
    def side(label: str, slower: float) -> Side:
        plain = [a_run(label, n, a_record(step_seconds=0.5 + n / 1000)) for n in (1, 2, 3)]
        loaded = [
            a_run(
                label, n, a_record(step_seconds=slower * (0.5 + n / 1000), load=8, load_cpu=6.0), loaded=True
            )
            for n in (1, 2, 3)
        ]
        return a_side(label, *plain, *loaded)

    made = the_json(a_comparison(side("a", 1.0), side("b", 2.0), repeats=3, with_load=True))
    assert made["load_between"]["value"] == pytest.approx(0.5)
    assert any(
        "Beside the load b keeps 0.500 times the part of its samples/s" in one for one in made["answers"]
    )


def test_the_page_shows_what_the_table_shows_and_strange_names_stay_text() -> None:
    sides = [a_side(label, a_run(label, 1, a_record())) for label in ("<b>a", "b")]
    made = report_tables.sheet(comparison_verdict.report(a_comparison(*sides)))
    text = page(made, "/* Plotly */")
    assert "<b>a" not in text
    for section in made.sections:
        assert section.heading in text
    assert "samples/s" in text


def test_runs_that_are_missing_are_counted_where_they_are_missing() -> None:
    whole = a_side("grus", a_run("grus", 1, a_record()))
    made = report_tables.sheet(comparison_verdict.report(a_comparison(whole, a_side("grus-other"))))
    standing = [row[-1] for row in made.sections[0].rows]
    assert standing == ["whole", "1 run missing"]
