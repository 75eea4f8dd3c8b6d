"""What the page of a job says, by part."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from grus.controlplane.eta.forecast_service import Expectation
from grus.dashboard.live_state.job_index import brief_of
from grus.dashboard.views.job_detail import JobPageData, buttons, parts, scale, worker_rows
from grus.dashboard.views.job_timeline import attempts, strip
from grus.model.errors import GrusError
from grus.model.identifiers import UserName
from grus.model.interfaces import AccessRole, User
from grus.model.jobs import Checkpoint, Job, Phase, Resizing
from grus.model.resources import Range, Replica, Role
from grus.scheduler.explain import Explanation
from grus.telemetry.samples import Measure, Sample, Subject
from tests.controlplane.plane import ANN, Plane

VIEWER = User(name=UserName("vic"), role=AccessRole.VIEWER)
OTHER = User(name=UserName("eve"))


def seen(plane: Plane, job: Job, **changes: Any) -> JobPageData:
    events = plane.services.jobs.events(ANN, job=job.id)
    life = strip(events, plane.now)
    given = JobPageData(
        job=job,
        user=ANN,
        now=plane.now,
        why=Explanation("", job.reason),
        life=life,
        attempts=attempts(life, events),
        workers=plane.services.outputs.workers(ANN, job.id),
    )
    return replace(given, **changes)


def refused(call: Callable[[], object]) -> str:
    """What an error says; nothing if there is none."""
    try:
        call()
    except GrusError as error:
        return str(error)
    return ""


def test_a_running_job_is_told_in_words() -> None:
    plane = Plane()
    job = plane.job(plane.submit("e", ANN, gpus="1..4"))
    plane.after(5)
    texts = parts(seen(plane, job))["texts"]
    assert (texts["status"], texts["badge"], texts["gpus"], texts["asked"]) == (
        "running",
        "running",
        "4",
        "1..4",
    )
    assert texts["summary"] == "1 attempt, at most 4 GPUs; it ran for 5s in all."


def test_a_served_model_is_told_in_replicas() -> None:
    plane = Plane()
    id_ = plane.submit("model", ANN, type="serve", roles=(Role("worker", Range(1, 4), Replica(gpus=0)),))
    plane.do(lambda: plane.services.actions.scale(ANN, id_, Range(3, 3)))
    texts = parts(seen(plane, plane.job(id_)))["texts"]
    assert texts["asked"] == "0, scaled to 3 replicas"
    assert texts["gets"] == "3 replicas, changed without a restart"
    assert brief_of(plane.job(id_)).asked == "3 × 0"


def test_a_job_that_waits_is_called_waiting() -> None:
    plane = Plane()
    plane.submit("first", ANN, gpus=4)
    job = plane.job(plane.submit("second", ANN, gpus=4))
    shown = parts(seen(plane, job))
    assert (job.phase, shown["texts"]["status"]) == (Phase.PENDING, "pending")
    assert shown["texts"]["summary"] == "It has not run yet."
    assert shown["workers"] == {"rows": [], "logs": 0}


@pytest.mark.parametrize("user", [ANN, VIEWER, OTHER])
@pytest.mark.parametrize("wish", ["pause", "resume", "stop", "scale"])
@pytest.mark.parametrize("before", ["running", "paused", "stopped", "rigid"])
def test_a_button_can_be_pressed_exactly_when_the_services_would_do_something(
    user: User, wish: str, before: str
) -> None:
    plane = Plane()
    id_ = plane.submit("e", ANN, gpus=2 if before == "rigid" else "1..4")
    if before in ("paused", "stopped"):
        plane.do(lambda: plane.services.actions.pause(ANN, id_))
    if before == "stopped":
        plane.do(lambda: plane.services.actions.stop(ANN, id_))
    plane.after(60)
    job = plane.job(id_)
    refusal = buttons(job, user, plane.now)[wish]
    does: dict[str, Any] = {
        "pause": plane.services.actions.pause,
        "resume": plane.services.actions.resume,
        "stop": plane.services.actions.stop,
        "scale": lambda user, id_: plane.services.actions.scale(user, id_, Range(1, 1)),
    }
    said = refused(lambda: does[wish](user, id_))
    if said:
        assert refusal == said
    else:  # what was so already changes nothing
        assert (refusal == "") is (plane.job(id_).version > job.version)


def test_who_may_do_nothing_at_all_is_told_once() -> None:
    plane = Plane()
    job = plane.job(plane.submit("e", ANN, gpus=1))
    assert "viewer may not" in buttons(job, VIEWER, plane.now)["any"]
    assert "belongs to" in buttons(job, OTHER, plane.now)["any"]
    assert buttons(job, ANN, plane.now)["any"] == ""


def test_the_dialog_for_its_size_offers_what_was_submitted() -> None:
    plane = Plane()
    elastic = plane.job(plane.submit("e", ANN, gpus="1..4"))
    assert scale(elastic) == {"low": 1, "high": 4, "allowed": [1, 2, 3, 4], "set": "", "now": 4}
    assert scale(replace(elastic, size=Range(2, 2)))["set"] == "2"
    assert scale(plane.job(plane.submit("r", ANN, gpus=1))) == {}


def test_workers_are_shown_with_their_place_and_what_they_use() -> None:
    plane = Plane()
    job = plane.job(plane.submit("e", ANN, gpus="2..2"))
    first, _ = plane.services.outputs.workers(ANN, job.id)
    sample = Sample(Subject(job.seats[0].node), plane.now, {Measure.UTILISATION: 0.5, Measure.MEMORY: 2e9})
    rows = worker_rows(seen(plane, job, use={first.id: sample}))
    assert [(row["number"], row["role"], row["gpus"], row["state"]) for row in rows] == [
        (0, "worker", "1", "running"),
        (1, "worker", "1", "running"),
    ]
    assert (rows[0]["use"], rows[0]["memory"]) == (0.5, "2GB")
    assert "use" not in rows[1]


def test_who_computes_together_is_told_with_those_on_the_way() -> None:
    plane = Plane()
    id_ = plane.submit("e", ANN, gpus="2..2", resize=Resizing.LIVE)
    for number in range(2):
        plane.engine.rings(
            f"worker.{number}", json.dumps({"elastic": {"address": f"127.0.0.1:{4000 + number}"}})
        )
    plane.after(5)
    shown = parts(seen(plane, plane.job(id_)))
    assert shown["texts"]["team"] == "number 1: 2 workers"
    assert [row["team"] for row in worker_rows(seen(plane, plane.job(id_)))] == ["team 1", "team 1"]
    job = plane.job(id_)
    late = replace(job, seats=(job.seats[0], replace(job.seats[1], joined=0)))
    assert parts(seen(plane, late))["texts"]["team"] == "number 1: 1 worker, 1 on the way"


def test_what_the_scheduler_paused_can_be_paused_by_people_too() -> None:
    """It would start again by itself otherwise."""
    plane = Plane()
    job = replace(plane.job(plane.submit("e", ANN, gpus=1)), phase=Phase.PAUSED, seats=())
    shown = parts(seen(plane, job))
    assert (shown["texts"]["status"], shown["texts"]["paused"]) == ("paused", "")
    assert shown["buttons"]["pause"] == ""


def test_what_is_foreseen_and_who_holds_what_it_waits_for_is_told() -> None:
    plane = Plane()
    holder = plane.submit("first", ANN, gpus=4)
    job = plane.job(plane.submit("second", ANN, gpus=4))
    why = plane.services.jobs.why(ANN, job.id)
    eta = Expectation(at=plane.now, start_p50=10.0, start_p90=20.0, end_p50=30.0)
    shown = parts(seen(plane, job, why=why, foreseen=eta, names={holder: "first"}))
    assert shown["why"]["holders"] == [{"job": holder, "name": "first", "gpus": "4"}]
    assert str(shown["why"]["sentence"])[0].isupper()
    assert shown["moments"] == {
        "submitted": job.submitted_at,
        "started": None,
        "ended": None,
        "saved": None,
        "not_before": None,
        "start_p50": 10.0,
        "start_p90": 20.0,
        "end_p50": 30.0,
        "end_p90": None,
    }


def test_progress_is_a_part_only_of_a_job_that_says_how_much_there_is_to_do() -> None:
    plane = Plane()
    job = plane.job(plane.submit("e", ANN, gpus=1))
    told = replace(job, progress=(("step", 30.0), ("total", 120.0)))
    assert parts(seen(plane, told))["texts"]["done"] == "0.2500"
    assert parts(seen(plane, replace(job, progress=(("step", 30.0),))))["texts"]["done"] == ""


def test_a_notebook_is_opened_by_its_owner_while_it_runs_and_by_nobody_else() -> None:
    plane = Plane()
    job = plane.job(plane.submit("session", ANN, gpus=1))
    lab = replace(job, spec=replace(job.spec, run=("python3", "-m", "grus.interactive.session", "lab")))
    shell = replace(job, spec=replace(job.spec, run=(*lab.spec.run[:-1], "shell")))

    def opens(job: Job, user: User = ANN) -> bool:
        return parts(seen(plane, job, user=user))["texts"]["session"] == "yes"

    assert opens(lab)
    assert not opens(lab, OTHER)
    assert not opens(lab, User(name=UserName("admin"), role=AccessRole.ADMIN))
    assert not opens(replace(lab, phase=Phase.PENDING))
    assert not opens(shell)
    assert not opens(job)


@pytest.mark.parametrize(("path", "words"), [("", "all its work is lost"), ("out", "")])
def test_the_page_says_what_a_pause_would_lose(path: str, words: str) -> None:
    plane = Plane()
    job = plane.job(plane.submit("plain", ANN, checkpoint=Checkpoint(path=path)))
    plane.after(5)
    found = str(parts(seen(plane, job))["texts"]["loses"])
    assert found.startswith(words)
    assert bool(found) is bool(words)
