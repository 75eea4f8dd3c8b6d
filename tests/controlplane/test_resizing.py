"""What a change of size does to a job that runs: others come and go, or it saves and starts again."""

import json

import pytest

from grus.controlplane.jobs.apply_decision import SETTLING
from grus.model.identifiers import JobId
from grus.model.jobs import Phase, Resizing
from grus.model.resources import GPU, Range
from tests.controlplane.plane import ANN, Plane

KINDS = list(Resizing)


def settled(plane: Plane, resize: Resizing, *, team: bool) -> JobId:
    """A job of 1..4 that is past its first minute, with a team or without."""
    job = plane.submit("e", ANN, gpus="1..4", resize=resize)
    for number in range(4) if team else ():
        word = {"elastic": {"address": f"127.0.0.1:{4000 + number}"}}
        plane.engine.rings(f"worker.{number}", json.dumps(word))
    plane.after(SETTLING)
    assert len(plane.job(job).seats) == 4
    return job


@pytest.mark.parametrize(
    ("resize", "team", "attempts"),
    [
        (Resizing.AUTO, False, 2),
        (Resizing.AUTO, True, 1),
        (Resizing.LIVE, False, 1),
        (Resizing.LIVE, True, 1),
        (Resizing.RESTART, False, 2),
        (Resizing.RESTART, True, 2),
    ],
)
def test_a_job_is_restarted_unless_its_workers_can_come_and_go(
    resize: Resizing, team: bool, attempts: int
) -> None:
    plane = Plane()
    job = settled(plane, resize, team=team)
    plane.do(lambda: plane.services.actions.scale(ANN, job, Range(2, 2)))
    plane.after(5)
    after = plane.job(job)
    assert (after.attempt, after.phase, len(after.staying)) == (attempts, Phase.RUNNING, 2)
    assert after.failures == 0


@pytest.mark.parametrize("resize", KINDS)
def test_a_job_that_would_be_restarted_does_not_grow_in_its_first_minute(resize: Resizing) -> None:
    plane = Plane()
    other = plane.submit("other", gpus=3)
    job = plane.submit("e", gpus="1..4", resize=resize)
    plane.do(lambda: plane.engine.finish(other))
    at_once = resize is Resizing.LIVE
    plane.after(SETTLING - 1)
    assert len(plane.job(job).seats) == (4 if at_once else 1)
    assert plane.job(job).attempt == 1
    plane.after(1)
    plane.after(1)
    assert len(plane.job(job).seats) == 4
    assert plane.job(job).attempt == (1 if at_once else 2)


def test_a_job_whose_workers_form_a_team_grows_at_once() -> None:
    plane = Plane()
    other = plane.submit("other", gpus=3)
    job = plane.submit("e", gpus="1..4", resize=Resizing.AUTO)
    plane.engine.rings(f"{job}.1.worker.0", json.dumps({"elastic": {"address": "127.0.0.1:1"}}))
    plane.settle()
    plane.do(lambda: plane.engine.finish(other))
    assert (len(plane.job(job).seats), plane.job(job).attempt) == (4, 1)


def test_a_person_who_scales_a_job_need_not_wait() -> None:
    plane = Plane()
    job = plane.submit("e", gpus="1..4", resize=Resizing.AUTO)
    plane.do(lambda: plane.services.actions.scale(ANN, job, Range(1, 1)))
    plane.after(3)
    assert (len(plane.job(job).seats), plane.job(job).attempt) == (1, 2)
    plane.do(lambda: plane.services.actions.scale(ANN, job, Range(4, 4)))
    plane.after(3)
    assert (len(plane.job(job).seats), plane.job(job).attempt) == (4, 3)


def test_events_say_how_many_gpus_the_job_holds_from_then_on() -> None:
    plane = Plane()
    job = settled(plane, Resizing.LIVE, team=True)
    plane.do(lambda: plane.services.actions.scale(ANN, job, Range(2, 2)))
    plane.after(5)
    plane.do(lambda: plane.services.actions.stop(ANN, job))
    plane.after(60)
    told = {event.kind: (event.held or 0) // GPU for event in plane.services.jobs.events(ANN, job=job)}
    assert (told["starting"], told["released"], told["stopped"]) == (4, 2, 0)
