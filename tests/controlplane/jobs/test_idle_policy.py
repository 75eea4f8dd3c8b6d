"""Idle jobs are warned and then paused, hung ones are told; between two epochs nobody idles."""

import json
from dataclasses import replace

import pytest

from grus.controlplane.jobs.idle_policy import Policy, idles, policies
from grus.model.activity_labels import Tag, TrainingStage, WorkloadKind
from grus.model.identifiers import JobId, QueueName
from grus.model.jobs import Desired, Idle, PauseCause, Phase
from tests.controlplane.plane import ANN, Plane
from tests.scheduler.builders import a_job, a_queue

LOOK = 5.0
"""Seconds in which the loop looks at its nodes, and so at tags."""
PAUSE = Idle(below=0.1, seconds=600.0, action="pause")
NOTIFY = Idle(below=0.1, seconds=600.0, action="notify")
NOTHING = Tag(kind=WorkloadKind.IDLE, at=0.0, expires=1e9, utilisation=0.0)


def a_plane(idle: Idle | None = None, queue_idle: Idle | None = None) -> tuple[Plane, JobId]:
    """A job on one GPU of queue A, with an idle policy of its own or of its queue."""
    plane = Plane(replace(a_queue("A", quota=4), idle=queue_idle))
    job = plane.submit("one", queue="A", idle=idle)
    plane.after(2.0)
    assert plane.phase(job) is Phase.RUNNING
    return plane, job


def pass_time(plane: Plane, job: JobId, tag: Tag | None, seconds: float) -> float:
    """Let it be recognised so for that long, look by look; the moment at which it began."""
    began = plane.now
    plane.tags = {} if tag is None else {job: replace(tag, at=began)}
    while plane.now < began + seconds - 1e-9:
        plane.after(min(LOOK, began + seconds - plane.now))
    return began


def said(plane: Plane, job: JobId, kind: str) -> list[tuple[float, str]]:
    return [(event.at, event.text) for event in plane.store.events(job=job) if event.kind == kind]


def test_an_idle_job_is_warned_first_and_then_paused_until_somebody_resumes_it() -> None:
    plane, job = a_plane(PAUSE)
    began = pass_time(plane, job, NOTHING, 295.0)
    assert said(plane, job, "idle") == []
    pass_time_on(plane, 20.0)
    ((warned, words),) = said(plane, job, "idle")
    assert 300.0 <= warned - began <= 300.0 + LOOK, "half of the time that the policy gives"
    assert "nothing of its 1 GPU used" in words
    assert "its idle policy pauses it in 5m unless it uses them" in words
    assert plane.phase(job) is Phase.RUNNING
    pass_time_on(plane, 290.0)
    ((paused, _),) = said(plane, job, "pausing")
    assert 600.0 <= paused - began <= 600.0 + LOOK
    found = plane.job(job)
    assert (found.phase, found.paused_by, found.desired) == (Phase.PAUSED, PauseCause.IDLE, Desired.PAUSE)
    assert "paused by its idle policy" in plane.services.jobs.why(ANN, job).sentence
    assert "until somebody resumes it" in plane.services.jobs.why(ANN, job).sentence
    plane.tags = {}
    plane.after(100.0)
    assert plane.phase(job) is Phase.PAUSED
    plane.do(lambda: plane.services.actions.resume(ANN, job)).after(2.0)
    assert plane.phase(job) is Phase.RUNNING


def pass_time_on(plane: Plane, seconds: float) -> None:
    until = plane.now + seconds
    while plane.now < until - 1e-9:
        plane.after(min(LOOK, until - plane.now))


def test_notify_tells_once_and_does_nothing() -> None:
    plane, job = a_plane(NOTIFY)
    began = pass_time(plane, job, NOTHING, 2000.0)
    ((told, words),) = said(plane, job, "idle")
    assert 600.0 <= told - began <= 600.0 + LOOK
    assert f"`grus pause {job}`" in words
    assert plane.phase(job) is Phase.RUNNING


def test_a_job_at_work_again_after_the_warning_is_not_paused_and_told_so() -> None:
    plane, job = a_plane(PAUSE)
    pass_time(plane, job, NOTHING, 400.0)
    assert len(said(plane, job, "idle")) == 1
    pass_time(plane, job, replace(NOTHING, kind=WorkloadKind.DEV, utilisation=0.6), 20.0)
    assert len(said(plane, job, "busy")) == 1
    began = pass_time(plane, job, NOTHING, 590.0)
    assert plane.phase(job) is Phase.RUNNING, "the time begins anew"
    assert said(plane, job, "idle")[-1][0] >= began + 300.0


@pytest.mark.parametrize(
    "tag",
    [
        replace(NOTHING, kind=WorkloadKind.TRAINING, period=90.0, boundary=0.0, utilisation=0.02),
        replace(NOTHING, kind=WorkloadKind.UNKNOWN, stage=TrainingStage.CHECKPOINT),
        replace(NOTHING, kind=WorkloadKind.UNKNOWN, stage=TrainingStage.START_UP),
        replace(NOTHING, kind=WorkloadKind.UNKNOWN, stage=TrainingStage.EVALUATION),
        replace(NOTHING, kind=WorkloadKind.UNKNOWN, utilisation=0.11),
        replace(NOTHING, kind=WorkloadKind.UNKNOWN, utilisation=None),
        replace(NOTHING, hung_since=5.0),
        None,
    ],
    ids=["between epochs", "saves", "starts", "evaluates", "above", "not measured", "hangs", "not known"],
)
def test_what_is_not_idle_is_not_paused_however_long_it_lasts(tag: Tag | None) -> None:
    plane, job = a_plane(PAUSE)
    pass_time(plane, job, tag, 1500.0)
    assert plane.phase(job) is Phase.RUNNING
    assert said(plane, job, "idle") == []


def test_what_nobody_vouches_for_any_more_is_not_paused() -> None:
    plane, job = a_plane(PAUSE)
    pass_time(plane, job, NOTHING, 590.0)
    pass_time(plane, job, replace(NOTHING, expires=plane.now), 300.0)
    assert plane.phase(job) is Phase.RUNNING


def test_use_below_the_policys_own_figure_is_idle_whatever_the_kind() -> None:
    tag = replace(NOTHING, kind=WorkloadKind.INFERENCE, utilisation=0.2)
    assert not idles(tag, 0.1)
    assert idles(tag, 0.3)
    assert not idles(NOTHING, 0.0), "below 0 % is nobody"


def test_a_queues_policy_counts_for_jobs_without_and_with_one_of_their_own() -> None:
    plane, job = a_plane(queue_idle=PAUSE)
    pass_time(plane, job, NOTHING, 700.0)
    assert plane.job(job).paused_by is PauseCause.IDLE
    assert "paused by the idle policy of queue A" in said(plane, job, "pausing")[0][1]
    plane, job = a_plane(replace(NOTIFY, seconds=9000.0), queue_idle=PAUSE)
    pass_time(plane, job, NOTHING, 700.0)
    assert plane.job(job).paused_by is PauseCause.IDLE


def test_policies_come_from_the_job_and_every_queue_above_it() -> None:
    top = replace(a_queue("top", quota=4), idle=NOTIFY)
    leaf = replace(a_queue("leaf", quota=2, parent="top"), idle=PAUSE)
    job = a_job("one", queue="leaf")
    found = policies(job, {queue.name: queue for queue in (top, leaf)})
    assert found == (Policy(PAUSE, QueueName("leaf")), Policy(NOTIFY, QueueName("top")))


def test_a_hung_job_is_told_so_with_a_reason_and_never_ended() -> None:
    plane, job = a_plane(replace(PAUSE, seconds=60.0))
    before = plane.job(job).reason
    hung = replace(NOTHING, kind=WorkloadKind.TRAINING, utilisation=0.0, hung_since=plane.now)
    hung = replace(hung, note="hangs: 2 ranks wait")  # as the profiler says it
    began = pass_time(plane, job, hung, 1000.0)
    ((_, words),) = said(plane, job, "hung")
    assert "(2 ranks wait)" in words
    assert f"it is not ended: see `grus logs {job}`" in words
    assert plane.services.jobs.why(ANN, job).sentence.startswith("hangs: no progress for ")
    assert plane.phase(job) is Phase.RUNNING
    pass_time(plane, job, replace(hung, hung_since=None), 10.0)
    ((recovered, _),) = said(plane, job, "recovered")
    assert recovered > began
    assert plane.job(job).reason == "it makes progress again" != before
    pass_time(plane, job, replace(hung, hung_since=plane.now), 10.0)
    assert len(said(plane, job, "hung")) == 2


def test_what_is_never_preempted_may_be_paused_by_its_own_policy() -> None:
    plane = Plane(a_queue("A", quota=4))
    job = plane.submit("dev", queue="A", type="dev", idle=PAUSE)
    plane.after(2.0)
    pass_time(plane, job, NOTHING, 700.0)
    assert plane.job(job).paused_by is PauseCause.IDLE


# ------------------------------------------------------------------------------------- sessions


def a_session() -> tuple[Plane, JobId]:
    plane = Plane(a_queue("A", quota=4))
    job = plane.submit("dev", queue="A", type="dev", idle=PAUSE)
    plane.after(2.0)
    return plane, job


def use(plane: Plane, job: JobId) -> None:
    """Somebody works in it."""
    place = {"address": "127.0.0.1:4711", "secret": "x" * 20, "used_at": plane.now}
    plane.engine.rings(f"{job}.", json.dumps({"at": plane.now, "endpoint": place}))


def test_a_session_in_which_somebody_works_does_not_idle_whatever_its_gpu_does() -> None:
    plane, job = a_session()
    plane.tags = {job: replace(NOTHING, at=plane.now)}
    for _ in range(20):
        use(plane, job)
        pass_time_on(plane, 100.0)
    assert said(plane, job, "idle") == []
    assert plane.phase(job) is Phase.RUNNING


def test_a_session_that_nobody_uses_is_warned_then_paused_and_says_what_is_lost() -> None:
    plane, job = a_session()
    plane.tags = {job: replace(NOTHING, at=plane.now)}
    use(plane, job)
    left = plane.now
    pass_time_on(plane, 650.0)
    ((warned, words),) = said(plane, job, "idle")
    assert warned - left >= 300.0
    assert "nobody at work in it" in words
    assert "save your work" in words
    ((paused, told),) = said(plane, job, "pausing")
    assert paused - left >= 600.0
    assert "what is only in their memory is lost" in told
    assert (plane.phase(job), plane.engine.held()) == (Phase.PAUSED, {})


def test_a_session_that_is_used_after_its_warning_goes_on_and_begins_anew() -> None:
    plane, job = a_session()
    plane.tags = {job: replace(NOTHING, at=plane.now)}
    use(plane, job)
    pass_time_on(plane, 400.0)
    use(plane, job)
    back = plane.now
    pass_time_on(plane, 290.0)
    assert [words for _, words in said(plane, job, "busy")] == ["it is used again"]
    assert plane.phase(job) is Phase.RUNNING
    pass_time_on(plane, 400.0)
    assert said(plane, job, "pausing")[0][0] - back >= 600.0


@pytest.mark.parametrize("type_", ["dev", "train"])
def test_a_queue_ends_sessions_and_nothing_else_after_its_limit_and_tells_before(type_: str) -> None:
    plane = Plane(replace(a_queue("A", quota=4), dev_limit=1000.0))
    job = plane.submit("one", queue="A", type=type_)
    plane.after(2.0)
    pass_time_on(plane, 1100.0)
    warned = said(plane, job, "limit")
    if type_ == "train":
        assert (warned, plane.phase(job)) == ([], Phase.RUNNING)
        return
    ((at, words),) = warned
    assert 700.0 <= at - plane.job(job).submitted_at <= 720.0
    assert "save your work" in words
    assert plane.phase(job) is Phase.FAILED
    assert "max_runtime" in plane.job(job).reason
