"""Work of ended jobs, from their records and events."""

from dataclasses import replace

from grus.model.jobs import Job, Phase
from grus.model.resources import Range
from grus.simulator.workload.job_history import HistoryEvent, work_of
from grus.simulator.workload.job_work import Linear
from tests.scheduler.builders import a_job


def ended(job: Job, started: float, at: float) -> Job:
    return replace(job, phase=Phase.SUCCEEDED, started_at=started, first_started_at=started, ended_at=at)


def happened(*events: tuple[float, str]) -> list[HistoryEvent]:
    return [HistoryEvent(at, kind) for at, kind in events]


def test_ended_jobs_are_jobs_of_the_trace_with_what_they_asked_for() -> None:
    job = ended(a_job("a", gpus="A100:2..4", submitted_at=5.0), 10.0, 110.0)
    work = work_of(job, ())
    assert (work.submit, work.duration, work.size, work.gpus) == (5.0, 100.0, Range(2, 4), 2)
    assert work.job().spec == job.spec


def test_time_in_which_it_was_paused_is_not_work() -> None:
    job = ended(a_job("a"), 300.0, 350.0)
    events = happened(
        (1.0, "starting"),
        (2.0, "running"),
        (20.0, "resized"),
        (52.0, "pausing"),
        (55.0, "paused"),
        (300.0, "starting"),
        (301.0, "running"),
        (350.0, "succeeded"),
    )
    work = work_of(job, events)
    assert work.duration == 50.0 + 49.0


def test_a_team_that_forms_or_loses_a_worker_goes_on_working() -> None:
    job = ended(a_job("a"), 1.0, 100.0)
    events = happened(
        (1.0, "starting"), (2.0, "running"), (5.0, "team"), (9.0, "replacing"), (100.0, "succeeded")
    )
    work = work_of(job, events)
    assert work.duration == 98.0


def test_time_at_a_larger_size_counts_for_more_work_by_the_speed_up() -> None:
    job = ended(a_job("a", gpus="1..4"), 0.0, 100.0)
    sizes = {0.0: ("running", 1), 40.0: ("resized", 1), 50.0: ("team", 4), 100.0: ("succeeded", 0)}
    events = [HistoryEvent(at, kind, float(gpus)) for at, (kind, gpus) in sizes.items()]
    work = work_of(job, events)
    assert work.gpus == 1
    assert work.duration == 50.0 + 50.0 * Linear()(4)


def test_a_job_that_a_person_has_scaled_may_use_again_what_it_was_submitted_with() -> None:
    job = replace(ended(a_job("a", gpus="2..8"), 0.0, 10.0), size=Range(4, 4))
    work = work_of(job, ())
    assert (work.gpus, work.size) == (2, Range(2, 8))
