"""Elasticity: what happened decides, and what was not put to the test is said so."""

import numpy as np
import pytest

from grus.model.identifiers import DeviceId, NodeId
from grus.model.nodes import Device, Node
from grus.reports.elasticity import elasticity
from grus.reports.history_types import JobPast, PoolHistory
from grus.reports.supply_and_demand import supply
from grus.telemetry.samples import Measure
from grus.telemetry.tsdb import Series
from tests.reports.builders import a_past, a_past_job, a_span, an_event

RUNS = (an_event(10.0, "running", 2, 2), an_event(11.0, "team", 2, 2))
JOINS = (an_event(50.0, "resized", 4, 2), an_event(57.0, "team", 4, 4))
LOSES = (an_event(70.0, "team", 4, 3, lost=1), an_event(80.0, "team", 4, 4, lost=1))


def of(*events: object, **more: object) -> JobPast:
    given = {"gpus": "2..4", "asked": 2, "most": 4} | more
    return a_past_job("a", *events, **given)  # type: ignore[arg-type]  # keywords of many types


def test_a_job_that_started_below_its_most_grew_and_lost_a_worker_has_shown_all_three() -> None:
    [one] = elasticity(a_past(of(*RUNS, *JOINS, *LOSES))).jobs
    assert (one.starts_below, one.survives_loss, one.uses_late) == (True, True, True)
    assert (one.started_with, one.asked, one.most, one.lost, one.late) == (2, 2, 4, 1, 1)


def test_what_was_not_put_to_the_test_is_none() -> None:
    found = elasticity(a_past(of(an_event(10.0, "running", 4, 4))))
    [one] = found.jobs
    assert (one.starts_below, one.survives_loss, one.uses_late) == (None, None, None)
    assert found.sentence.startswith("No job was put to the test: ")


def test_an_attempt_that_ended_with_a_worker_did_not_survive_its_loss() -> None:
    [one] = elasticity(a_past(of(*RUNS, an_event(30.0, "retrying")))).jobs
    assert (one.survives_loss, one.restarts) == (False, 1)


def test_a_rigid_job_without_losses_has_nothing_to_show() -> None:
    rigid = a_past_job("r", an_event(10.0, "running", 2, 2), gpus=2, asked=2, most=2)
    found = elasticity(a_past(rigid))
    assert found.jobs == ()
    assert found.sentence == "No job that ran could change its size, or lost a worker."


def test_seconds_to_adapt_are_medians_of_those_that_tell() -> None:
    untold = (an_event(90.0, "resized", 6, 4), an_event(95.0, "succeeded"))
    found = elasticity(a_past(of(*RUNS, *JOINS, *LOSES, *untold)))
    told = {one.to: (one.times, one.measured, one.median, one.longest) for one in found.adapting}
    assert told == {"grow": (2, 1, 7.0, 7.0), "loss": (1, 1, 10.0, 10.0)}


# ------------------------------------------------------------------------------------- demand and supply


def a_pool(gpus: int) -> tuple[Node, ...]:
    devices = tuple(Device(DeviceId(f"g{n}"), "V100", 16_000_000_000) for n in range(gpus))
    return (Node(NodeId("n"), devices),)


def test_demand_and_supply_equal_a_straightforward_recomputation_second_by_second() -> None:
    jobs = (
        of(spans=(a_span(0, 100, 2), a_span(100, 300, 4))),
        a_past_job("b", asked=3, most=3, spans=(a_span(50, 250, 0, waits=True), a_span(250, 400, 3))),
        a_past_job("c", asked=1, most=1, spans=(a_span(20, 500, 0),)),  # not waiting for room
    )
    past = PoolHistory(since=0.0, until=500.0, jobs=jobs, nodes=a_pool(6))
    found = supply(past)
    assert found is not None

    def at(second: float) -> tuple[float, float]:
        wanted = held = 0.0
        for job in jobs:
            for span in job.spans:
                if span.start <= second < span.end:
                    held += span.gpus
                    wanted += job.most if span.gpus or span.waits else 0.0
        return wanted, held

    seconds = [at(n + 0.5) for n in range(500)]
    assert found.wanted_gpu_hours == pytest.approx(sum(wanted for wanted, _ in seconds) / 3600)
    assert found.held_gpu_hours == pytest.approx(sum(held for _, held in seconds) / 3600)
    unmet = [min(max(0.0, wanted - held), max(0.0, 6 - held)) for wanted, held in seconds]
    assert found.unmet_gpu_hours == pytest.approx(sum(unmet) / 3600)
    assert found.beyond_gpu_hours == pytest.approx(sum(max(0.0, w - 6) for w, _ in seconds) / 3600)
    assert found.unmet_time == pytest.approx(sum(one > 0 for one in unmet) / 500)
    assert found.source == "jobs"
    drawn = np.mean([value for value in found.held if value is not None])
    assert drawn * 500 / 3600 == pytest.approx(found.held_gpu_hours, rel=1e-3)


def test_a_job_whose_size_a_person_has_set_wants_what_it_holds() -> None:
    pinned = of(an_event(90.0, "scaled", 2, 2), spans=(a_span(0, 100, 2), a_span(100, 200, 3)))
    found = supply(PoolHistory(since=0.0, until=200.0, jobs=(pinned,), nodes=a_pool(6)))
    assert found is not None
    assert found.wanted_gpu_hours == pytest.approx((90 * 4 + 10 * 2 + 100 * 3) / 3600)


def test_where_not_all_jobs_are_seen_the_counts_of_each_minute_speak() -> None:
    def counted(*values: float) -> Series:
        return Series(0.0, 60.0, np.array(values))

    pool = {
        Measure.DEMAND: counted(4.0, 8.0, np.nan),
        Measure.HELD: counted(4.0, 5.0, np.nan),
        Measure.CAPACITY: counted(6.0, 6.0, 6.0),
    }
    found = supply(PoolHistory(since=0.0, until=180.0, jobs=(), whole=False, pool=pool))
    assert found is not None
    assert found.source == "counts"
    assert found.unmet_gpu_hours == pytest.approx(1.0 * 60 / 3600)
    assert found.beyond_gpu_hours == pytest.approx(2.0 * 60 / 3600)
    assert found.unmet_time == pytest.approx(0.5)
    assert found.demand[-1] is None


def test_without_jobs_and_without_counts_nothing_is_told() -> None:
    assert supply(a_past()) is None
    assert supply(a_past(whole=False)) is None
