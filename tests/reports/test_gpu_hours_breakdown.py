"""GPU-hours add up, and each is what its definition says."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grus.model.identifiers import JobId
from grus.model.profiles import GpuUsage, ProfiledRun
from grus.model.resources import GPU
from grus.reports.gpu_hours_breakdown import HOUR, LEAST_WATCHED, Hours, hours, timeline, usual_most
from grus.reports.history_types import JobPast, PoolHistory
from grus.telemetry.samples import Measure
from tests.reports.told import a_life, a_past, a_series

RUN = [(0.0, "submitted", 0.0), (100.0, "starting", 2.0), (100.0, "running", 2.0), (500.0, "succeeded", 0.0)]


def whole(past: PoolHistory) -> Hours:
    return hours(past)[0]


def test_allocated_hours_are_what_events_say_was_held_within_the_window() -> None:
    past = a_past(a_life("a", RUN), since=200.0, until=1000.0)
    assert whole(past).held.allocated == pytest.approx(2 * 300 / HOUR)
    assert whole(past).capacity == pytest.approx(4 * 800 / HOUR)


def test_without_telemetry_nothing_is_said_of_how_busy_gpus_were() -> None:
    found = whole(a_past(a_life("a", RUN))).held
    assert (found.measured, found.busy, found.useful, found.idle, found.over_asking) == (
        0.0,
        None,
        None,
        None,
        None,
    )


def test_busy_hours_are_the_recorded_utilisation_of_what_was_held() -> None:
    busy = a_series(0.0, 100.0, None, 0.5, 1.0, None, 0.0, 0.7)
    found = whole(a_past(a_life("a", RUN, busy=busy))).held
    assert found.measured == pytest.approx(2 * 300 / HOUR)
    assert found.busy == pytest.approx(2 * (50 + 100) / HOUR)
    assert found.utilisation == pytest.approx(0.5)


def test_what_a_job_never_uses_is_over_asking_and_the_rest_of_its_rest_is_idle() -> None:
    busy = a_series(100.0, 1.0, *([0.5] * 300 + [0.1] * 100))
    found = whole(a_past(a_life("a", RUN, busy=busy))).held
    assert found.over_asking == pytest.approx(2 * 400 * 0.5 / HOUR)
    assert found.idle == pytest.approx(2 * 100 * 0.4 / HOUR)


def test_a_job_that_was_hardly_watched_is_not_said_to_over_ask() -> None:
    short = a_life("a", RUN, busy=a_series(100.0, 1.0, *[0.2] * int(LEAST_WATCHED - 1)))
    assert usual_most(short) == 1.0
    assert whole(a_past(short)).held.over_asking == 0.0


AGAIN = [*RUN[:3], (200.0, "requeued", 0.0), (300.0, "starting", 2.0), (300.0, "running", 2.0)]
STEPS = [
    (101.0, 1, {"step": 1.0}),
    (200.0, 1, {"step": 100.0}),
    (301.0, 2, {"step": 1.0}),
    (500.0, 2, {"step": 200.0}),
]


def test_work_that_was_done_again_is_busy_but_not_useful() -> None:
    life = a_life(
        "a", [*AGAIN, (500.0, "succeeded", 0.0)], busy=a_series(0.0, 1.0, *[1.0] * 600), reports=STEPS
    )
    found = whole(a_past(life)).held
    assert found.busy == pytest.approx(2 * 300 / HOUR)
    assert found.restarted == pytest.approx(2 * 100 / HOUR)
    assert found.useful == pytest.approx(2 * 200 / HOUR)


def test_nothing_of_a_job_that_failed_is_useful() -> None:
    life = a_life("a", [*AGAIN, (500.0, "failed", 0.0)], busy=a_series(0.0, 1.0, *[1.0] * 600), reports=STEPS)
    found = whole(a_past(life)).held
    assert found.useful == 0.0
    assert found.failed == pytest.approx(2 * 200 / HOUR)


def test_gpus_that_stand_free_while_jobs_wait_are_counted_up_to_what_these_ask_for() -> None:
    waits = a_life("b", [(200.0, "submitted", 0.0)], asked=3.0)
    found = whole(a_past(a_life("a", RUN), waits))
    # One is asked for at first; then three, while two are free until 500, when all are.
    assert found.waiting == pytest.approx((100 * 1 + 300 * 2 + 500 * 3) / HOUR)
    assert found.demand == pytest.approx((400 * 2 + 800 * 3 + 100 * 1) / HOUR)


def test_stranded_gpus_are_told_apart_from_those_that_merely_wait() -> None:
    waits = a_life("b", [(0.0, "submitted", 0.0)], asked=4.0)
    past = a_past(a_life("a", RUN), waits)
    past = replace(past, pool={Measure.STRANDED: a_series(0.0, 100.0, 0.0, 2.0, 2.0, 2.0, 0.0, 0.0)})
    found = whole(past)
    assert found.fragmentation == pytest.approx(2 * 300 / HOUR)
    assert (found.waiting or 0) + (found.fragmentation or 0) == pytest.approx((600 * 4 + 400 * 2) / HOUR)


def test_where_nothing_was_counted_the_pool_of_now_is_the_capacity() -> None:
    past = replace(a_past(), pool={Measure.CAPACITY: a_series(0.0, 100.0, 2.0, None, 6.0)})
    assert whole(past).capacity == pytest.approx((200 + 400 + 600 + 700 * 4) / HOUR)


def test_who_does_not_see_all_jobs_is_told_nothing_that_depends_on_all() -> None:
    found = whole(replace(a_past(a_life("a", RUN)), whole=False))
    assert (found.waiting, found.fragmentation, found.unwanted) == (None, None, None)
    assert found.held.allocated > 0


def a_run(*uses: GpuUsage) -> ProfiledRun:
    return ProfiledRun(job=JobId("a"), at=0.0, uses=uses)


def test_where_nothing_is_recorded_over_time_the_sums_of_the_run_stand_in() -> None:
    """It was watched for 200 of its 400 s, and busy for 50 of these; two GPUs."""
    use = GpuUsage(type="A100", gpus=2 * GPU, seconds=200.0, busy=50.0, levels=(150.0, *[0.0] * 18, 50.0))
    life = replace(a_life("a", RUN), run=a_run(use))
    found = whole(a_past(life, since=300.0)).held
    assert found.allocated == pytest.approx(2 * 200 / HOUR)
    assert found.measured == pytest.approx(2 * 100 / HOUR)
    assert found.utilisation == pytest.approx(0.25)
    assert usual_most(life) == use.p95


def test_a_run_that_nobody_measured_leaves_its_hours_unmeasured() -> None:
    life = replace(a_life("a", RUN), run=a_run(GpuUsage(type="A100", gpus=GPU, seconds=200.0)))
    found = whole(a_past(life)).held
    assert (found.measured, found.busy) == (0.0, None)


def made_up(seed: int) -> PoolHistory:
    """A few jobs that fit a pool of 16 GPUs, with restarts, and telemetry of some of them."""
    rng = random.Random(seed)
    jobs: list[JobPast] = []
    for number in range(rng.randrange(1, 6)):
        at = rng.uniform(0, 500)
        told: list[tuple[float, str, float]] = [(at, "submitted", 0.0)]
        for _ in range(rng.randrange(0, 4)):
            size = float(rng.randrange(1, 4))
            for kind, held in (("starting", size), ("running", size), ("requeued", 0.0)):
                at += rng.uniform(1, 200)
                told.append((at, kind, held))
        if rng.random() < 0.5:
            told.append((at + 1, rng.choice(["succeeded", "failed", "stopped"]), 0.0))
        busy = a_series(0.0, 10.0, *(rng.choice([None, rng.random()]) for _ in range(150)))
        steps = [(float(t), 1 + t // 400, {"step": float(rng.randrange(100))}) for t in range(0, 1000, 50)]
        jobs.append(
            a_life(f"j{number}", told, busy=busy if rng.random() < 0.7 else None, reports=steps, asked=2.0)
        )
    stranded = a_series(0.0, 60.0, *(rng.randrange(3) for _ in range(17)))
    return replace(a_past(*jobs, since=100.0, until=900.0, pool="4x4"), pool={Measure.STRANDED: stranded})


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_hours_add_up_to_the_capacity_and_to_what_was_allocated(seed: int) -> None:
    past = made_up(seed)
    found = whole(past)
    held = found.held
    parts = (held.busy or 0) + (held.idle or 0) + (held.over_asking or 0) + held.unmeasured
    assert parts == pytest.approx(held.allocated)
    free = (found.waiting or 0) + (found.fragmentation or 0) + (found.unwanted or 0)
    assert held.allocated + free == pytest.approx(found.capacity)
    assert (held.useful or 0) <= (held.busy or 0) + 1e-12
    assert held.restarted + held.failed <= held.allocated + 1e-12


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([60.0, 90.0, 300.0, 5000.0]))
def test_the_parts_of_a_window_add_up_to_the_window(seed: int, step: float) -> None:
    past = made_up(seed)
    found, parts = whole(past), timeline(past, step)
    for name in ("capacity", "demand"):
        assert sum(getattr(one, name) for one in parts) == pytest.approx(getattr(found, name))
    for name in ("allocated", "measured", "busy", "restarted", "failed"):
        told = sum(getattr(one.held, name) or 0.0 for one in parts)
        assert told == pytest.approx(getattr(found.held, name) or 0.0)
    assert [part.until for part in parts[:-1]] == [part.since for part in parts[1:]]
    assert (parts[0].since, parts[-1].until) == (past.since, past.until)
    assert all(part.since % step == 0.0 for part in parts[1:])
