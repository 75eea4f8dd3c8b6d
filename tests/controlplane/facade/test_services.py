"""Who may do what, what is checked before a job is stored, and what people are told."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from grus.controlplane.admission.dry_run import LATER, NEVER, NOW
from grus.controlplane.admission.submission import Submission
from grus.model.artifacts import Input, Output
from grus.model.errors import BadInput, Conflict, DoesNotFit, NotAllowed, NotFound
from grus.model.identifiers import JobId, NodeId, QueueName, UserName
from grus.model.interfaces import USERS, AccessRole, User
from grus.model.jobs import Checkpoint, Launch, Phase
from grus.model.queues import DEFAULT_QUEUE, Queue
from grus.model.resources import GPU, Range
from tests.controlplane.plane import ADMIN, ANN, Plane, a_request, a_spec
from tests.scheduler.builders import a_queue
from tests.store.builders import cordoned

BOB = User(name=UserName("bob"))
EVE = User(name=UserName("eve"))
VIC = User(name=UserName("vic"), role=AccessRole.VIEWER)

Deed = Callable[[Plane, User, JobId], object]


@pytest.fixture
def plane() -> Iterator[Plane]:
    team = replace(a_queue("team", quota=2), members=(ANN.name, BOB.name, VIC.name))
    made = Plane(team, a_queue("dept", quota=1), a_queue("child", quota=1, parent="dept"))
    for user in (BOB, EVE, VIC):
        made.store.put(USERS, user)
    yield made
    made.close()


LOOKING: dict[str, Deed] = {
    "job": lambda p, u, j: p.services.visible.get(u, j),
    "events of a job": lambda p, u, j: p.services.jobs.events(u, job=j),
    "why": lambda p, u, j: p.services.jobs.why(u, j),
    "workers": lambda p, u, j: p.services.outputs.workers(u, j),
    "log": lambda p, u, j: p.services.outputs.log(u, j),
    "graph": lambda p, u, j: p.services.graphs.of(u, j),
}
ACTING: dict[str, Deed] = {
    "stop": lambda p, u, j: p.services.actions.stop(u, j),
    "pause": lambda p, u, j: p.services.actions.pause(u, j),
    "resume": lambda p, u, j: p.services.actions.resume(u, j),
    "scale": lambda p, u, j: p.services.actions.scale(u, j, Range(1, 1)),
}
RULING: dict[str, Deed] = {
    "put_queue": lambda p, u, _: p.services.queues.put(u, a_queue("new")),
    "delete_queue": lambda p, u, _: p.services.queues.delete(u, QueueName("child")),
    "cordon": lambda p, u, _: p.services.pool.cordon(u, NodeId("n1"), True),
    "drain": lambda p, u, _: p.services.pool.drain(u, NodeId("n1"), "new disks"),
    "add a member": lambda p, u, _: p.services.queues.set_member(u, QueueName("team"), EVE.name, True),
    "remove a member": lambda p, u, _: p.services.queues.set_member(u, QueueName("team"), BOB.name, False),
    "audit": lambda p, u, _: p.services.users.audit(u),
    "put_user": lambda p, u, _: p.services.users.put(u, User(name=UserName("new"))),
    "delete_user": lambda p, u, _: p.services.users.delete(u, EVE.name),
    "new_token for others": lambda p, u, _: (
        p.services.users.new_token(u, EVE.name, "x") if u != EVE else _refuse()
    ),
}


def _refuse() -> None:
    raise NotAllowed("one's own token is no question here")


@pytest.mark.parametrize("deed", LOOKING)
def test_members_of_the_queue_look_and_to_others_the_job_does_not_exist(plane: Plane, deed: str) -> None:
    job = plane.submit(queue="team", gpus="1..2")
    for user in (ANN, BOB, VIC, ADMIN):
        LOOKING[deed](plane, user, job)
    with pytest.raises(NotFound):
        LOOKING[deed](plane, EVE, job)


@pytest.mark.parametrize("deed", ACTING)
def test_only_the_owner_and_administrators_act_on_a_job(plane: Plane, deed: str) -> None:
    job = plane.submit(queue="team", gpus="1..2")
    for user, refusal in ((BOB, NotAllowed), (VIC, NotAllowed), (EVE, NotFound)):
        with pytest.raises(refusal):
            ACTING[deed](plane, user, job)
    ACTING[deed](plane, ANN, job)
    other = plane.submit("other", queue="team", gpus="1..2")
    ACTING[deed](plane, ADMIN, other)


@pytest.mark.parametrize("deed", RULING)
def test_only_administrators_rule(plane: Plane, deed: str) -> None:
    for user in (ANN, EVE, VIC):
        with pytest.raises(NotAllowed):
            RULING[deed](plane, user, JobId(""))
    RULING[deed](plane, ADMIN, JobId(""))


def test_lists_show_only_what_the_user_may_see(plane: Plane) -> None:
    secret = plane.submit(queue="team")
    open_ = plane.submit("open", queue="child", user=EVE)
    services = plane.services
    assert {job.id for job in services.jobs.listed(ANN)} == {secret, open_}
    assert {job.id for job in services.jobs.listed(EVE)} == {open_}
    assert {event.job for event in services.jobs.events(EVE)} == {open_}
    assert {use.worker.split(".")[0] for use in services.pool.usage(EVE)} == {open_}
    assert secret not in {job for held in services.pool.holders(EVE).values() for job, _ in held}
    assert sum(share for held in services.pool.holders(EVE).values() for _, share in held) == 2 * GPU
    assert {state.name for state in services.queues.states(EVE)} == {"child", "dept", DEFAULT_QUEUE}
    assert {queue.name for queue in services.queues.settings(ANN)} == {"child", "dept", "team", DEFAULT_QUEUE}
    assert [user.name for user in services.accounts.users(EVE)] == ["eve"]


def test_an_index_of_every_job_shows_each_user_what_the_list_does(plane: Plane) -> None:
    for queue in ("team", "child", "default"):
        plane.submit(queue=queue)
    every = [job for some in plane.services.jobs.every(at_once=2) for job in some]
    assert len(every) == 3
    for user in (ANN, BOB, EVE, VIC, ADMIN):
        seen = [job.id for job in every if plane.services.visible.sees(user, job.user, job.spec.queue)]
        assert seen == [job.id for job in plane.services.jobs.listed(user)]


def test_pages_of_jobs_and_events_are_complete(plane: Plane) -> None:
    for number in range(7):
        plane.submit(f"t{number}", queue="team")
        plane.submit(f"e{number}", queue="child", user=EVE)
    seen: list[JobId] = []
    while page := plane.services.jobs.listed(EVE, limit=2, after=seen[-1] if seen else None):
        seen += [job.id for job in page]
    assert len(seen) == len(set(seen)) == 7
    events = [event.seq for event in plane.services.jobs.events(EVE)]
    paged: list[int] = []
    while got := plane.services.jobs.events(EVE, limit=3, after=paged[-1] if paged else 0):
        paged += [event.seq for event in got]
    assert paged == events
    assert plane.services.jobs.last_event == plane.store.events()[-1].seq
    plane.restart()
    assert plane.services.jobs.last_event == plane.store.events()[-1].seq


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"queue": "nowhere"}, "queue"),
        ({"queue": "dept"}, "queue"),
        ({"queue": "child", "priority": 126}, "priority"),
        ({"queue": "child", "after": ["jnothing"]}, "after[0]"),
        (
            {"queue": "child", "after": ["jnothing"], "inputs": (Input("x", JobId("jnothing"), "y"),)},
            "inputs.x",
        ),
        ({"queue": "child", "image": "torch"}, "image"),
        ({"queue": "child", "pod": "{}"}, "pod"),
        ({"queue": "child", "workdir": "bundle:0123"}, "workdir"),
    ],
)
def test_bad_submits_are_refused_and_nothing_is_stored(
    plane: Plane, spec: dict[str, object], field: str
) -> None:
    with pytest.raises(BadInput) as caught:
        plane.services.actions.submit(ANN, a_spec(**spec))  # type: ignore[arg-type]  # keywords of many types
    assert field in {mistake.field for mistake in caught.value.mistakes}
    assert plane.store.jobs() == []


def test_where_workers_are_containers_a_workdir_is_not_of_this_machine(plane: Plane) -> None:
    submission = Submission(plane.store, plane.loop.picture, replace(plane.settings, containers=True))
    for workdir in ("", "/app", "bundle:0123"):
        asked = a_spec(
            queue="child",
            workdir=workdir,
            image="torch",
            snapshot=True,
            checkpoint=Checkpoint(path="ckpt"),
        )
        kept = submission.check(ANN, [a_request(asked)])[0].spec
        assert (kept.workdir, kept.checkpoint.path, kept.image) == (workdir, "ckpt", "torch")
        assert not kept.snapshot


def test_a_stranger_and_a_viewer_cannot_submit(plane: Plane) -> None:
    with pytest.raises(NotAllowed, match="not a member of queue team"):
        plane.services.actions.submit(EVE, a_spec(queue="team"))
    with pytest.raises(NotAllowed, match="viewer"):
        plane.services.actions.submit(VIC, a_spec(queue="team"))


def test_what_can_never_fit_is_refused_with_the_nearest_that_would(plane: Plane) -> None:
    with pytest.raises(DoesNotFit, match="4"):
        plane.services.actions.submit(ANN, a_spec(gpus=9, queue="child"))
    assert plane.services.actions.plan(ANN, a_spec(gpus=9, queue="child")).starts == NEVER


def test_a_key_makes_one_job_however_often_it_is_sent(plane: Plane) -> None:
    first = plane.services.actions.submit(ANN, a_spec(queue="child"), key="k").result()
    again = plane.services.actions.submit(ANN, a_spec(queue="child"), key="k").result()
    assert first.id == again.id
    with pytest.raises(Conflict):
        plane.services.actions.submit(ANN, a_spec("other", queue="child"), key="k").result()


def test_the_launch_is_chosen_by_what_fits_a_node() -> None:
    plane = Plane(pool="2x2")

    def launch(**spec: object) -> Launch:
        return plane.services.actions.submit(ANN, a_spec(**spec), launch_given=False).result().spec.launch  # type: ignore[arg-type]  # keywords of many types

    assert launch(gpus=2) is Launch.ONCE
    assert launch(gpus=3) is Launch.PER_GPU
    assert launch(gpus="1..2") is Launch.PER_GPU
    plane.close()


def test_a_plan_says_now_with_seats_or_later_with_a_reason_and_who_gives_way() -> None:
    plane = Plane(a_queue("A", quota=2), a_queue("B", quota=2))
    now = plane.services.actions.plan(ANN, a_spec(queue="A", gpus=4))
    assert (now.starts, len(now.seats)) == (NOW, 4)
    a = plane.submit("a", queue="A", gpus=4)
    before = plane.store.events()
    later = plane.services.actions.plan(ANN, a_spec(queue="B", gpus=2))
    assert later.starts == LATER
    assert later.sentence
    assert [(job, how) for job, how, _ in later.affected] == [(a, "paused")]
    plane.settle()
    assert plane.phase(a) is Phase.RUNNING
    assert plane.store.events() == before
    plane.close()


def test_why_tells_of_waiting_and_of_all_others(plane: Plane) -> None:
    running = plane.submit(gpus=3, queue="child")
    waiting = plane.submit("w", gpus=3, queue="child")
    assert plane.services.jobs.why(ANN, running).code == "running"
    told = plane.services.jobs.why(ANN, waiting)
    assert told.sentence
    assert running in {job for job, _ in told.holders}


# ----------------------------------------------------------------------------------------- queues


def test_quotas_beyond_the_pool_are_refused_with_the_figure(plane: Plane) -> None:
    with pytest.raises(BadInput, match="sum to 6"):
        plane.services.queues.put(ADMIN, a_queue("big", quota=3))


def test_a_queue_is_changed_while_nodes_are_out_of_reach_but_given_no_more(plane: Plane) -> None:
    whole = plane.engine.pool
    plane.engine.pool = ()
    plane.after(10)
    plane.services.queues.put(ADMIN, a_queue("dept", quota=1, limit=2))
    with pytest.raises(BadInput, match="sum to 4, but the pool has 0"):
        plane.services.queues.put(ADMIN, a_queue("dept", quota=2))
    plane.engine.pool = whole
    plane.after(10)
    plane.services.queues.put(ADMIN, a_queue("dept", quota=2))


def test_a_pool_that_was_oversubscribed_on_purpose_needs_that_word_again(plane: Plane) -> None:
    plane.services.queues.put(ADMIN, replace(a_queue("big", quota=3), oversubscribe=True))
    with pytest.raises(BadInput, match="sum to 6"):
        plane.services.queues.put(ADMIN, a_queue("big", quota=3))


def test_a_closed_node_can_be_opened_while_it_is_out_of_reach(plane: Plane) -> None:
    plane.services.pool.cordon(ADMIN, NodeId("n1"), True)
    plane.engine.pool = ()
    plane.after(10)
    plane.services.pool.cordon(ADMIN, NodeId("n1"), False)
    assert not cordoned(plane.store)
    with pytest.raises(NotFound, match="no node n1"):
        plane.services.pool.cordon(ADMIN, NodeId("n1"), True)


def test_the_default_queue_has_what_the_others_leave(plane: Plane) -> None:
    def default() -> int:
        found = {queue.name: queue for queue in plane.services.queues.settings(ADMIN)}
        return found[DEFAULT_QUEUE].quota.total

    assert default() == GPU
    plane.do(lambda: plane.services.queues.put(ADMIN, a_queue("dept", quota=2)))
    assert default() == 0
    unsaid = Queue(name=DEFAULT_QUEUE, members=(ANN.name,))
    made = plane.services.queues.put(ADMIN, unsaid)
    assert made.members == (ANN.name,)


def test_the_default_queue_takes_no_other_quota_than_it_has(plane: Plane) -> None:
    with pytest.raises(BadInput, match="what the other queues leave, 1 now") as refused:
        plane.services.queues.put(ADMIN, a_queue("default", quota=3))
    assert [mistake.field for mistake in refused.value.mistakes] == ["queues.default.quota"]
    with pytest.raises(BadInput, match="what the other queues leave"):
        plane.services.queues.put(ADMIN, a_queue("default", quota=0))
    made = plane.services.queues.put(ADMIN, replace(a_queue("default", quota=1), weight=2.0))
    assert (made.quota.total, made.weight) == (GPU, 2.0)
    unsaid = Queue(name=DEFAULT_QUEUE, limit=4 * GPU)
    assert plane.services.queues.put(ADMIN, unsaid).limit == 4 * GPU


def test_a_queue_with_jobs_is_not_deleted_nor_made_a_branch(plane: Plane) -> None:
    job = plane.submit(queue="child")
    with pytest.raises(Conflict, match=job):
        plane.services.queues.delete(ADMIN, QueueName("child"))
    with pytest.raises(Conflict, match=job):
        plane.services.queues.put(ADMIN, a_queue("below", parent="child"))
    with pytest.raises(Conflict, match="child"):
        plane.services.queues.delete(ADMIN, QueueName("dept"))
    with pytest.raises(Conflict, match="default"):
        plane.services.queues.delete(ADMIN, DEFAULT_QUEUE)
    with pytest.raises(NotFound):
        plane.services.queues.delete(ADMIN, QueueName("nowhere"))
    plane.do(lambda: plane.services.actions.stop(ANN, job))
    plane.services.queues.delete(ADMIN, QueueName("child"))


# ------------------------------------------------------------------------------------------- code


# ------------------------------------------------------------------------------------------- logs


def test_logs_are_found_while_a_job_runs_and_after_it_has_ended(plane: Plane) -> None:
    """The setup's output comes first; each worker of a gang has its own."""
    job = plane.submit(gpus=2, setup=("true",), queue="child")
    assert b"setup" in plane.services.outputs.log(ANN, job)[0]
    plane.engine.finish("setup")
    plane.settle()
    for _ in range(2):  # running, then ended
        first, at = plane.services.outputs.log(ANN, job, 0)
        second, end = plane.services.outputs.log(ANN, job, 0, at)
        assert b"setup" in first
        assert b"worker.0" in second
        assert plane.services.outputs.log(ANN, job, 0, end) == (b"", end)
        assert b"worker.1" in plane.services.outputs.log(ANN, job, 1)[0]
        with pytest.raises(NotFound):
            plane.services.outputs.log(ANN, job, 2)
        plane.engine.finish(job)
        plane.settle()
    assert plane.phase(job) is Phase.SUCCEEDED
    waiting = plane.submit("w", gpus=4, queue="child", after=[plane.submit("v", queue="child")])
    assert plane.services.outputs.log(ANN, waiting) == (b"", 0)


def test_status_tells_how_things_are(plane: Plane) -> None:
    plane.submit(queue="child")
    status = plane.services.pool.status(ANN)
    assert (status.held, status.jobs[Phase.RUNNING], status.drift) == (GPU, 1, 0)
    assert status.warnings == ()


def test_a_size_that_the_pool_can_never_give_is_refused_with_the_nearest_that_it_can(plane: Plane) -> None:
    """The pool has four GPUs: a job of 1..8 cannot be pinned to six, and stays as it was."""
    job = plane.submit("elastic", gpus="1..8")
    with pytest.raises(DoesNotFit, match="nearest size that fits is 4"):
        plane.services.actions.scale(ANN, job, Range(6, 8))
    assert plane.job(job).size is None


def test_an_input_must_be_an_output_of_ones_own_job(plane: Plane) -> None:
    made = plane.submit("made", queue="team", outputs=(Output("data"),))

    def take(output: str, user: User) -> None:
        spec = a_spec("takes", queue="team", after=[made], inputs=(Input("x", made, output),))
        plane.services.actions.submit(user, spec).result()

    take("data", ANN)
    with pytest.raises(BadInput, match="leaves no such output; it leaves data"):
        take("date", ANN)
    with pytest.raises(BadInput, match="is of another user"):
        take("data", BOB)
