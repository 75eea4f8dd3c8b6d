"""The same jobs on a static split: what really was, what one pool gives, what parts of one's own would."""

from dataclasses import replace

import pytest

from grus.model.identifiers import DeviceId, NodeId, QueueName
from grus.model.jobs import JobType, Phase
from grus.model.nodes import Device, Node
from grus.model.queues import Queue, Quota
from grus.reports.history_types import JobPast, PoolHistory
from grus.reports.scaling_efficiency import scalability
from grus.reports.static_split import measured_speedups, of_past, split
from grus.simulator.workload.history_trace import TabulatedSpeedup, decode, encode, measured_costs
from grus.simulator.workload.job_history import HistoryEvent
from tests.reports.builders import a_past_job, a_span, an_event
from tests.reports.test_scaling_efficiency import a_run

NODES = (Node(NodeId("n"), tuple(Device(DeviceId(f"g{n}"), "V100", 16_000_000_000) for n in range(4))),)
QUEUES = tuple(Queue(name=QueueName(name), quota=Quota.of(2)) for name in ("speech", "vision"))


def ended(name: str, submitted: float, started: float, end: float, gpus: int, queue: str) -> JobPast:
    """Two seconds to start, then work to the end."""
    events = (
        an_event(submitted, "submitted", attempt=0),
        an_event(started, "starting", gpus),
        an_event(started + 2.0, "running", gpus, gpus),
        an_event(end, "succeeded"),
    )
    spans = (a_span(submitted, started, 0, waits=True), a_span(started, end, gpus))
    job = a_past_job(name, *events, gpus=gpus, asked=gpus, most=gpus, spans=spans, queue=queue)
    record = replace(job.job, submitted_at=submitted, started_at=started, ended_at=end)
    return replace(job, job=replace(record, phase=Phase.SUCCEEDED, first_started_at=started))


WIDE = ended("wide", 0.0, 0.0, 102.0, 4, "vision")
NARROW = ended("narrow", 10.0, 102.0, 154.0, 2, "speech")
WAITING = a_past_job("waiting", an_event(0.0, "submitted", attempt=0), phase=Phase.PENDING, queue="speech")


def a_past(*jobs: JobPast) -> PoolHistory:
    return PoolHistory(since=0.0, until=1000.0, jobs=jobs, nodes=NODES, queues=QUEUES)


def test_what_really_was_is_told_as_it_was() -> None:
    found = split(of_past(a_past(WIDE, NARROW, WAITING)), buying=False)
    assert found is not None
    measured = found.sides[0]
    assert (measured.name, measured.jobs, found.left_out) == ("measured", 2, 1)
    assert measured.completion_mean == (102.0 + 144.0) / 2
    assert measured.wait_mean == (0.0 + 92.0) / 2
    assert measured.makespan == 154.0


def test_a_job_wider_than_its_queues_part_takes_longer_on_the_split() -> None:
    found = split(of_past(a_past(WIDE)), buying=False)
    assert found is not None
    _, present, static = found.sides
    assert found.shares == {"vision": 4}  # nobody else has jobs
    assert present.completion_mean == static.completion_mean == pytest.approx(102.0)
    found = split(of_past(a_past(WIDE, NARROW)), buying=False)
    assert found is not None
    assert found.shares == {"speech": 2, "vision": 2}
    _, present, static = found.sides
    # Alone on its two GPUs the wide one takes twice as long, and the narrow one need not wait.
    assert static.completion_mean == pytest.approx((2.0 + 200.0 + 2.0 + 50.0) / 2)
    assert static.wait_mean == pytest.approx(0.0)
    assert "static split" in found.sentence


def test_advice_to_buy_is_a_sentence_of_its_own() -> None:
    found = split(of_past(a_past(WIDE, NARROW)))
    assert found is not None
    assert "with 1x4xV100 more" in found.buying


def test_the_same_comes_of_a_history_on_the_wire() -> None:
    history = of_past(a_past(WIDE, NARROW))
    assert decode(encode(history)) == history


def test_a_sweep_is_no_job_of_the_history_beside_its_trials() -> None:
    spec = replace(WIDE.job.spec, type=JobType.SWEEP)
    sweep = replace(WIDE, job=replace(WIDE.job, spec=spec))
    history = of_past(a_past(sweep, NARROW))
    assert ([one.job.id for one in history.jobs], history.left_out) == (["narrow"], 0)


def test_jobs_that_the_pool_of_today_could_never_run_are_left_out() -> None:
    huge = ended("huge", 0.0, 0.0, 102.0, 8, "vision")
    history = of_past(a_past(huge, NARROW))
    assert ([one.job.id for one in history.jobs], history.left_out) == (["narrow"], 1)


def test_without_ended_jobs_there_is_nothing_to_compare() -> None:
    assert split(of_past(a_past(WAITING))) is None


def test_starts_and_pauses_cost_what_they_were_seen_to() -> None:
    def happened(*pairs: tuple[float, str]) -> list[HistoryEvent]:
        return [HistoryEvent(at, kind) for at, kind in pairs]

    first = happened((0.0, "starting"), (3.0, "running"), (9.0, "pausing"), (10.5, "paused"))
    second = happened((20.0, "starting"), (25.0, "running"), (30.0, "succeeded"))
    costs = measured_costs([first, second])
    assert (costs.start, costs.pause) == (4.0, 1.5)
    nothing = measured_costs([])
    assert (nothing.start, nothing.pause) == (0.0, 0.0)  # what jobs show already contains it


def test_a_speed_up_by_its_fit_is_linear_between_sizes_and_flat_beyond() -> None:
    speedup = TabulatedSpeedup(((2.0, 1.0), (4.0, 1.5)))
    assert [speedup(gpus) for gpus in (1, 2, 3, 4, 8)] == [0.5, 1.0, 1.25, 1.5, 1.5]


def test_measured_speed_ups_are_used_for_the_jobs_that_they_are_of() -> None:
    [(job, points)] = measured_speedups(scalability(a_past(a_run("a")))).items()
    assert job == "a"
    speedup = TabulatedSpeedup(points)
    assert speedup(2) / speedup(1) == pytest.approx(1.8, rel=0.05)
