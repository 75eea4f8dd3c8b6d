"""The past is gathered with one user's sight, as exactly as it is on record."""

import pytest

from grus.model.errors import NotFound
from grus.model.identifiers import JobId, QueueName
from grus.model.interfaces import User
from grus.model.jobs import Phase
from grus.reports import data_collection
from grus.reports.data_collection import Scope, gather
from grus.reports.history_types import PoolHistory
from tests.controlplane.plane import ADMIN, ANN, Plane
from tests.scheduler.builders import a_queue


def past_of(plane: Plane, user: User = ADMIN, **scope: object) -> PoolHistory:
    whole: dict[str, object] = {"since": 0.0, "until": plane.now, **scope}
    return gather(plane.services, user, Scope(**whole))  # type: ignore[arg-type]  # words of many types


def lived(plane: Plane) -> JobId:
    """A job that ran for 100 s on two GPUs, was paused and resumed by hand, and ran to its end."""
    job = plane.submit("a", gpus=2)
    plane.after(100)
    plane.do(lambda: plane.services.actions.pause(ANN, job)).after(50)
    plane.do(lambda: plane.services.actions.resume(ANN, job)).after(30)
    plane.engine.finish(job)
    plane.settle()
    return job


def test_the_spans_of_a_life_are_those_that_the_loop_recorded() -> None:
    plane = Plane()
    begin = plane.now
    lived(plane)
    [one] = past_of(plane).jobs
    running = [(span.start - begin, span.gpus) for span in one.spans if span.phase is Phase.RUNNING]
    assert running[0] == (0.0, 2.0)
    assert sum(span.seconds for span in one.spans if span.phase is Phase.RUNNING) == pytest.approx(130, abs=3)
    assert not any(span.waits for span in one.spans), "it started at once, and a person paused it"
    assert (one.asked, one.most) == (2.0, 2.0)


def test_jobs_that_had_ended_before_or_came_afterwards_are_left_out() -> None:
    plane = Plane()
    first = lived(plane)
    end = plane.now
    plane.after(1000)
    second = plane.submit("b")
    plane.after(1)
    assert [one.id for one in past_of(plane, since=end + 500).jobs] == [second]
    assert [one.id for one in past_of(plane, until=end + 500).jobs] == [first]


def test_a_window_from_before_the_first_job_begins_with_it_and_says_so() -> None:
    plane = Plane()
    begin = plane.now
    lived(plane)
    found = past_of(plane)
    assert found.since == begin
    assert any("younger" in note for note in found.notes)


def test_one_job_or_one_queue_can_be_asked_for() -> None:
    plane = Plane(a_queue("vision", quota=2))
    job, other = plane.submit("a"), plane.submit("b", queue="vision")
    plane.after(1)
    assert [one.id for one in past_of(plane, job=job).jobs] == [job]
    found = past_of(plane, queue=QueueName("vision"))
    assert ([one.id for one in found.jobs], found.whole) == ([other], False)
    with pytest.raises(NotFound):
        past_of(plane, queue=QueueName("moon"))
    with pytest.raises(NotFound):
        past_of(plane, job=JobId("j-none"))


def test_a_job_that_comes_after_another_waits_from_when_that_one_has_ended() -> None:
    plane = Plane()
    first = plane.submit("a", gpus=4)
    second = plane.submit("b", after=(first,))
    plane.after(60)
    plane.engine.finish(first)
    plane.settle()
    [late] = [one for one in past_of(plane).jobs if one.id == second]
    assert [span.waits for span in late.spans][:1] == [False]
    assert late.spans[0].seconds == pytest.approx(60)


def test_events_are_read_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    plane = Plane()
    for _ in range(3):
        lived(plane)
    whole = past_of(plane)
    monkeypatch.setattr(data_collection, "PAGE", 4)
    assert past_of(plane).jobs == whole.jobs


def test_without_telemetry_the_past_says_so() -> None:
    plane = Plane()
    lived(plane)
    found = past_of(plane)
    assert found.pool == {}
    assert any("no telemetry" in note for note in found.notes)
