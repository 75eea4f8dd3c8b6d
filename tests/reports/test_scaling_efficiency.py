"""Scalability: speeds at each size are what reports say, and speed-ups follow from them."""

import math

import pytest

from grus.model.profiles import Speed
from grus.reports.history_types import JobPast
from grus.reports.scaling_efficiency import paces, scalability
from tests.reports.builders import V100, a_past, a_past_job, a_report, an_event


def a_run(name: str = "a", **more: object) -> JobPast:
    """One GPU for 40 s at 2 steps a second, then two for 40 s at 3.6."""
    alone = [a_report(10.0 + n * 10, 20.0 * n, 1, batch=64.0, world=1) for n in range(5)]
    both = [a_report(60.0 + n * 10, 100.0 + 36.0 * n, 2, batch=64.0, world=2) for n in range(5)]
    events = (
        an_event(8.0, "running", 1, 1),
        an_event(9.0, "team", 1, 1),
        an_event(51.0, "resized", 2, 1),
        an_event(55.0, "team", 2, 2),
    )
    return a_past_job(
        name,
        *events,
        gpus="1..4",
        asked=1,
        most=4,
        reports=(*alone, *both),
        **more,  # type: ignore[arg-type]  # keywords of many types
    )


def test_the_speed_at_a_size_is_steps_over_seconds_between_reports_at_that_size() -> None:
    found = paces(a_run(), 0.0, 1000.0)
    assert {gpus: (pace.steps, pace.seconds, pace.batch) for gpus, pace in found.items()} == {
        1: (80.0, 40.0, 64.0),
        2: (144.0, 40.0, 64.0),
    }


def test_speed_ups_and_efficiencies_equal_a_straightforward_recomputation() -> None:
    [one] = scalability(a_past(a_run())).speedups
    assert one.unit == "examples"
    assert [size.gpus for size in one.sizes] == [1, 2]
    assert [size.throughput for size in one.sizes] == pytest.approx([2 * 64.0, 3.6 * 64.0])
    assert [size.speedup for size in one.sizes] == pytest.approx([1.0, 1.8])
    assert [size.efficiency for size in one.sizes] == pytest.approx([1.0, 0.9])
    assert one.full is True


def test_the_fit_goes_through_what_was_measured_and_on_to_the_most_that_can_be_used() -> None:
    [one] = scalability(a_past(a_run())).speedups
    assert [point.gpus for point in one.fit] == [1, 2, 3, 4]
    assert one.fit[0].speedup == 1.0
    assert one.fit[1].speedup == pytest.approx(1.8, rel=0.05)
    assert (one.error, one.sizes[1].foretold) == (None, None)  # one other size alone says nothing
    assert all(point.low <= point.speedup <= point.high for point in one.fit)
    widths = [math.log(point.high / point.low) for point in one.fit]
    assert widths[3] > widths[1]  # nobody has run it there


def test_steps_between_reports_of_two_sizes_count_for_neither() -> None:
    reports = (
        a_report(0.0, 0.0, 1),
        a_report(10.0, 30.0, 1),
        a_report(20.0, 60.0, 2),
        a_report(30.0, 99.0, 2),
    )
    found = paces(a_past_job("a", reports=reports), 0.0, 100.0)
    assert {gpus: pace.steps for gpus, pace in found.items()} == {1: 30.0, 2: 39.0}


def test_two_reports_of_one_size_with_another_size_between_them_count_for_nothing() -> None:
    reports = (a_report(0.0, 0.0, 1), a_report(30.0, 90.0, 1))
    events = (an_event(10.0, "team", 2, 2), an_event(20.0, "team", 1, 1))
    assert paces(a_past_job("a", *events, reports=reports), 0.0, 100.0) == {}


def test_what_was_done_in_another_attempt_or_before_the_time_looked_at_does_not_count() -> None:
    reports = (
        a_report(0.0, 0.0, 1),
        a_report(10.0, 30.0, 1),
        a_report(20.0, 10.0, 1, attempt=2),
        a_report(30.0, 50.0, 1, attempt=2),
    )
    found = paces(a_past_job("a", reports=reports), 5.0, 100.0)
    assert (found[1].steps, found[1].seconds) == (40.0, 10.0)


def test_a_few_steps_are_not_enough_to_tell_a_speed() -> None:
    assert paces(a_past_job("a", reports=(a_report(0.0, 0.0, 1), a_report(9.0, 2.0, 1))), 0.0, 100.0) == {}
    assert paces(a_past_job("a", reports=(a_report(0.0, 0.0, 1), a_report(2.0, 50.0, 1))), 0.0, 100.0) == {}


def test_jobs_of_one_fingerprint_are_added_up_and_others_are_not() -> None:
    same = a_past(a_run("a", fingerprint="f"), a_run("b", fingerprint="f"), a_run("c"))
    first, second = scalability(same).speedups
    assert first.jobs == ("a", "b")
    assert [size.steps for size in first.sizes] == [160.0, 288.0]
    assert second.jobs == ("c",)


def test_sizes_that_only_earlier_runs_have_shown_are_told_as_such() -> None:
    earlier = Speed(type=V100, nodes=1, gpus=4, local=16.0, step=1 / 5)
    elsewhere = Speed(type="A100", nodes=1, gpus=8, local=8.0, step=1 / 50)
    [one] = scalability(a_past(a_run(speeds=(earlier, elsewhere)))).speedups
    last = one.sizes[-1]
    assert (last.gpus, last.steps, last.seconds) == (4, None, None)
    assert last.speedup == pytest.approx(2.5)
    assert one.full is False
    assert "up to 2 GPUs" in one.sentence


def test_the_fit_is_judged_by_what_the_other_sizes_foretell() -> None:
    earlier = Speed(type=V100, nodes=1, gpus=4, local=16.0, step=1 / 5)
    [one] = scalability(a_past(a_run(speeds=(earlier,)))).speedups
    foretold = [size.foretold for size in one.sizes]
    assert foretold[0] is None
    off = [(size.foretold or 0.0) / size.speedup - 1 for size in one.sizes[1:]]
    assert one.error == pytest.approx(math.sqrt(sum(part**2 for part in off) / 2))
    assert all(0 < abs(part) < 0.5 for part in off)


def test_one_size_has_a_speed_but_neither_speed_up_nor_fit() -> None:
    [one] = scalability(
        a_past(a_past_job("a", reports=(a_report(0.0, 0.0, 4), a_report(10.0, 30.0, 4))))
    ).speedups
    assert (one.unit, one.full, one.fit, one.error) == ("steps", None, (), None)
    assert one.sizes[0].throughput == 3.0


def test_a_job_that_ran_on_several_types_is_left_out() -> None:
    assert scalability(a_past(a_run(type="A100+V100"))).speedups == ()


def test_resizes_are_counted_by_whether_they_worked_and_only_in_the_time_looked_at() -> None:
    found = scalability(a_past(a_run()))
    assert (len(found.resizes), found.worked, found.failed) == (1, 1, 0)
    assert found.resizes[0].seconds == 4.0
    assert found.sentence.startswith("The one resize worked.")
    assert scalability(a_past(a_run(), since=52.0)).resizes == ()
