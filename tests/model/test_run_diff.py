"""Two runs side by side: what differs is found, what is the same is told as such, nothing secret is shown."""

from dataclasses import replace

from grus.model.artifacts import Artifact
from grus.model.results import Metric, Result
from grus.model.run_diff import OTHER, SET, Cell, Difference, DifferenceKind, differences
from tests.store.builders import a_full_result, a_result


def lines(first: Result, second: Result) -> dict[tuple[DifferenceKind, str], tuple[Cell, Cell]]:
    return {(one.part, one.name): (one.first, one.second) for one in differences(first, second)}


def changed(first: Result, second: Result) -> list[tuple[DifferenceKind, str]]:
    return [(one.part, one.name) for one in differences(first, second) if not one.same]


def test_a_run_does_not_differ_from_itself_and_all_that_it_has_is_compared() -> None:
    one = a_full_result("j1")
    found = differences(one, one)
    assert all(line.same for line in found)
    assert {line.part for line in found} == set(DifferenceKind)


def test_parameters_are_told_by_name_also_those_that_only_one_has() -> None:
    one = replace(a_result("j1"), params=(("lr", 0.1), ("width", 64)))
    other = replace(a_result("j2"), params=(("lr", 0.2), ("depth", 3)))
    found = lines(one, other)
    assert found[DifferenceKind.PARAMETERS, "lr"] == (0.1, 0.2)
    assert found[DifferenceKind.PARAMETERS, "width"] == (64, None)
    assert found[DifferenceKind.PARAMETERS, "depth"] == (None, 3)


def test_true_is_not_one() -> None:
    assert not Difference(DifferenceKind.PARAMETERS, "bias", True, 1).same
    assert Difference(DifferenceKind.PARAMETERS, "bias", 1, 1.0).same


def test_metrics_have_their_extremes_where_these_say_more() -> None:
    one = replace(a_result("j1"), metrics=(Metric("loss", 0.5, 0.25, 2.0), Metric("seed", 7, 7, 7)))
    found = lines(one, a_result("j2"))
    assert found[DifferenceKind.METRICS, "loss"] == (0.5, None)
    assert found[DifferenceKind.METRICS, "loss (least)"] == (0.25, None)
    assert (DifferenceKind.METRICS, "seed (least)") not in found


def test_code_data_artefacts_and_profile_are_compared_by_what_tells_them_apart() -> None:
    one, same = a_full_result("j1"), a_full_result("j2")
    other = replace(
        same,
        code="c2",
        data="d2",
        inputs=(Artifact("data", "c" * 64, 1),),
        outputs=(),
        fingerprint="f2",
        gpu_seconds=7200.0,
    )
    assert changed(one, same) == []
    assert changed(one, other) == [
        (DifferenceKind.CODE, "code"),
        (DifferenceKind.DATA, "data"),
        (DifferenceKind.ARTEFACTS, "input data"),
        (DifferenceKind.ARTEFACTS, "output model"),
        (DifferenceKind.PROFILE, "fingerprint"),
        (DifferenceKind.PROFILE, "GPU-hours"),
    ]


def test_of_environment_variables_it_is_said_that_they_differ_and_never_how() -> None:
    one = replace(a_result("j1"), env=(("BOTH", "aaa"), ("ONE", "bbb"), ("SAME", "ccc")))
    other = replace(a_result("j2"), env=(("BOTH", "ddd"), ("SAME", "ccc"), ("TWO", "eee")))
    found = lines(one, other)
    assert found[DifferenceKind.CODE, "env BOTH"] == (SET, OTHER)
    assert found[DifferenceKind.CODE, "env ONE"] == (SET, None)
    assert found[DifferenceKind.CODE, "env SAME"] == (SET, SET)
    assert found[DifferenceKind.CODE, "env TWO"] == (None, SET)
    told = [cell for line in differences(one, other) for cell in (line.first, line.second)]
    assert not {"aaa", "bbb", "ccc", "ddd", "eee"} & {cell for cell in told if isinstance(cell, str)}
