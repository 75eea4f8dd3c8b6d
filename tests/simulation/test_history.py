"""This pool's own history as a trace."""

from dataclasses import replace

from grus.api.wire import event_out, job_out
from grus.model.identifiers import JobId
from grus.model.jobs import Job, Phase
from grus.model.ports import Event
from grus.model.resources import GPU, Range
from grus.simulation.history import from_jobs, from_shown
from grus.simulation.work import Linear
from tests.scheduling.builders import a_job


def ended(job: Job, started: float, at: float) -> Job:
    return replace(job, phase=Phase.SUCCEEDED, started_at=started, first_started_at=started, ended_at=at)


def happened(job: str, *events: tuple[float, str]) -> list[Event]:
    return [Event(at=at, kind=kind, text="", job=JobId(job), seq=n) for n, (at, kind) in enumerate(events, 1)]


def test_ended_jobs_are_jobs_of_the_trace_with_what_they_asked_for() -> None:
    job = ended(a_job("a", gpus="A100:2..4", submitted_at=5.0), 10.0, 110.0)
    waiting = a_job("b", submitted_at=6.0)
    (work,) = from_jobs([waiting, job])
    assert (work.submit, work.duration, work.size, work.gpus) == (5.0, 100.0, Range(2, 4), 2)
    assert work.job().spec == job.spec


def test_time_in_which_it_was_paused_is_not_work() -> None:
    job = ended(a_job("a"), 300.0, 350.0)
    events = happened(
        "a",
        (1.0, "starting"),
        (2.0, "running"),
        (20.0, "resized"),
        (52.0, "pausing"),
        (55.0, "paused"),
        (300.0, "starting"),
        (301.0, "running"),
        (350.0, "succeeded"),
    )
    (work,) = from_jobs([job], events)
    assert work.duration == 50.0 + 49.0


def test_a_team_that_forms_or_loses_a_worker_goes_on_working() -> None:
    job = ended(a_job("a"), 1.0, 100.0)
    events = happened(
        "a", (1.0, "starting"), (2.0, "running"), (5.0, "team"), (9.0, "replacing"), (100.0, "succeeded")
    )
    (work,) = from_jobs([job], events)
    assert work.duration == 98.0


def test_time_at_a_larger_size_counts_for_more_work_by_the_speed_up() -> None:
    job = ended(a_job("a", gpus="1..4"), 0.0, 100.0)
    sizes = {0.0: ("running", 1), 40.0: ("resized", 1), 50.0: ("team", 4), 100.0: ("succeeded", 0)}
    events = [
        Event(at=at, kind=kind, text="", job=JobId("a"), working=gpus * GPU, seq=n)
        for n, (at, (kind, gpus)) in enumerate(sizes.items(), 1)
    ]
    (work,) = from_jobs([job], events)
    assert work.gpus == 1
    assert work.duration == 50.0 + 50.0 * Linear()(4)
    (shown,) = from_shown([job_out(job)], [event_out(event) for event in events])
    assert shown.duration == work.duration


def test_a_job_that_a_person_has_scaled_may_use_again_what_it_was_submitted_with() -> None:
    job = replace(ended(a_job("a", gpus="2..8"), 0.0, 10.0), size=Range(4, 4))
    (work,) = from_shown([job_out(job)], ())
    assert (work.gpus, work.size) == (2, Range(2, 8))


def test_the_same_jobs_as_the_server_shows_them() -> None:
    jobs = [
        ended(a_job("a", gpus=2, one_node=True, submitted_at=5.0), 10.0, 110.0),
        ended(a_job("e", gpus="2..4", submitted_at=6.0, priority=70), 20.0, 30.0),
        ended(a_job("s", gpus=0.5, submitted_at=7.0), 20.0, 30.0),
        a_job("w"),
    ]
    events = happened("a", (10.0, "running"), (60.0, "succeeded"))
    first, second, third = from_shown([job_out(job) for job in jobs], [event_out(event) for event in events])
    assert (first.submit, first.duration, first.gpus, first.one_node) == (5.0, 50.0, 2, True)
    assert (second.size, second.priority, second.duration) == (Range(2, 4), 70, 10.0)
    assert third.gpus == 0.5
