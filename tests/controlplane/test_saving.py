"""A pause of a job that does not save its work says what is lost."""

from dataclasses import replace

from grus.controlplane.jobs import user_actions
from grus.model.jobs import Checkpoint, Job, JobType, Phase, Resizing
from grus.model.saving import lost_by_pause, saves
from grus.model.texts.job_warnings import NO_CHECKPOINT, SAME_WORK, warnings_of
from tests.controlplane.plane import ANN, Plane, a_spec
from tests.scheduler.builders import a_job, a_queue


def plain(gpus: int | str = 1) -> Job:
    """A job that names no checkpoint."""
    job = a_job("plain", gpus=gpus, resize=Resizing.AUTO)
    return replace(job, spec=replace(job.spec, checkpoint=Checkpoint()))


def running(**changes: object) -> Job:
    job = replace(plain(), phase=Phase.RUNNING, attempt=1, started_at=100.0)
    return replace(job, **changes)  # type: ignore[arg-type]  # keywords of many types


def text_of_pause(job: Job) -> str:
    change = user_actions.pause(job, "ada", 400.0)
    assert change is not None
    assert change.event is not None
    return change.event.text


def test_a_job_without_a_checkpoint_is_said_to_lose_all_since_its_start() -> None:
    job = running()
    assert lost_by_pause(job, 400.0) == 300.0
    said = text_of_pause(job)
    assert "5m of work are lost and it restarts from zero" in said
    assert "saving" not in said


def test_a_job_that_names_or_reports_a_checkpoint_is_said_to_save() -> None:
    named = replace(running().spec, checkpoint=Checkpoint(path="out"))
    for job in (running(spec=named), running(saved_at=200.0), running(team=1)):
        assert lost_by_pause(job, 400.0) == 0.0
        assert "it is saving its work" in text_of_pause(job)


def test_traps_are_told_at_submit() -> None:
    ranged = plain("2..8")
    assert warnings_of(ranged) == (SAME_WORK, NO_CHECKPOINT)
    safe = replace(ranged.spec, checkpoint=Checkpoint(path="out"))
    assert warnings_of(replace(ranged, spec=safe)) == (SAME_WORK,)
    assert warnings_of(replace(ranged, spec=safe, team=1)) == ()
    assert warnings_of(plain(2)) == (NO_CHECKPOINT,)


def test_the_scheduler_says_it_too_and_a_plan_warns() -> None:
    plane = Plane(a_queue("A", quota=2), a_queue("B", quota=2))
    a = plane.submit("a", queue="A", gpus=4, checkpoint=Checkpoint())
    plane.submit("b", queue="B", gpus=2)
    plane.settle()
    (pausing,) = [event for event in plane.store.events() if event.kind == "pausing"]
    assert (pausing.job, "restarts from zero" in pausing.text) == (a, True)
    assert plane.services.actions.plan(ANN, a_spec(queue="A", checkpoint=Checkpoint())).warnings == (
        NO_CHECKPOINT,
    )
    plane.close()


def test_a_job_that_says_how_often_it_saves_gives_way_before_one_that_does_not_save() -> None:
    plane = Plane(a_queue("A", quota=0), a_queue("B", quota=2), pool="1x4")
    saver = plane.submit("saver", queue="A", gpus=2, checkpoint=Checkpoint(every=60.0))
    plane.after(1000.0)
    plane.submit("plain", queue="A", gpus=2, checkpoint=Checkpoint())
    plane.after(1000.0)
    plane.submit("owner", queue="B", gpus=2)
    plane.settle()
    assert [event.job for event in plane.store.events() if event.kind == "pausing"] == [saver]
    plane.close()


def test_why_and_an_event_report_workers_that_never_join_a_worker_group() -> None:
    plane = Plane(pool="1x4")
    copies = plane.submit("copies", gpus="2..4", resize=Resizing.AUTO)
    assert not plane.services.jobs.why(ANN, copies).notes
    plane.after(100.0)
    (note,) = plane.services.jobs.why(ANN, copies).notes
    assert "4 workers have not joined a worker group" in note
    plane.settle()
    (event,) = [event for event in plane.store.events() if event.kind == "apart"]
    assert (event.job, event.text) == (copies, note)
    plane.close()


def test_a_plain_job_of_a_developer_and_a_session_are_said_to_lose_what_is_in_memory() -> None:
    session = ("python3", "-m", "grus.interactive.session", "lab")
    for command, warned in ((("python3", "try.py"), (NO_CHECKPOINT,)), (session, ())):
        job = running(spec=replace(running().spec, type=JobType.DEV, run=command))
        assert not saves(job)
        assert "what is only in their memory is lost" in text_of_pause(job)
        assert user_actions.loss_words(job) == user_actions.LOST
        assert warnings_of(job) == warned


def test_trials_without_a_checkpoint_are_said_to_lose_their_work() -> None:
    job = running(spec=replace(running().spec, type=JobType.SWEEP))
    assert warnings_of(job) == (NO_CHECKPOINT,)
    assert text_of_pause(job) == f"paused by ada; {user_actions.SWEEP_LOSES}"
    saver = replace(job, spec=replace(job.spec, checkpoint=Checkpoint(path="out")))
    assert text_of_pause(saver) == f"paused by ada; {user_actions.SWEEP_SAVES}"
    assert warnings_of(saver) == ()


def test_a_served_model_has_nothing_to_save() -> None:
    job = running(spec=replace(running().spec, type=JobType.SERVE))
    assert text_of_pause(job) == "paused by ada; its replicas end"
    assert (warnings_of(job), user_actions.loss_words(job)) == ((), "")


def test_a_job_that_saves_when_it_is_paused_gives_way_before_one_that_cannot() -> None:
    plane = Plane(a_queue("A", quota=0), a_queue("B", quota=2), pool="1x4")
    saver = plane.submit("saver", queue="A", gpus=2, checkpoint=Checkpoint(path="out"))
    plane.after(1000.0)
    plane.submit("plain", queue="A", gpus=2, checkpoint=Checkpoint())
    plane.after(1000.0)
    plane.submit("owner", queue="B", gpus=2)
    plane.settle()
    assert [event.job for event in plane.store.events() if event.kind == "pausing"] == [saver]
    plane.close()
