"""Members of queues, deletion of users with live jobs, and the audit log of all of it."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from grus.model.errors import BadInput, Conflict, NotFound, NotLoggedIn
from grus.model.identifiers import JobId, NodeId, QueueName, UserName
from grus.model.interfaces import QUEUES, USERS, User
from grus.model.jobs import Phase
from grus.model.resources import Range
from tests.controlplane.plane import ADMIN, ANN, Plane
from tests.scheduler.builders import a_queue

BOB = User(name=UserName("bob"))
TEAM = QueueName("team")


@pytest.fixture
def plane() -> Iterator[Plane]:
    made = Plane(replace(a_queue("team", quota=2), members=(ANN.name, BOB.name)), a_queue("open", quota=1))
    made.store.put(USERS, BOB)
    made.services.accounts.refresh()
    yield made
    made.close()


def members(plane: Plane, queue: QueueName = TEAM) -> tuple[str, ...]:
    return next(one.members for one in plane.store.find(QUEUES) if one.name == queue)


def changes(plane: Plane) -> list[tuple[str, str, str]]:
    return [(one.action, one.target, one.text) for one in reversed(plane.services.users.audit(ADMIN))]


def test_an_unknown_queue_is_answered_with_the_queues_that_the_user_may_use(plane: Plane) -> None:
    eve = User(name=UserName("eve"))
    plane.services.users.put(ADMIN, eve)
    with pytest.raises(BadInput, match="names no queue; there are default, open") as refused:
        plane.submit("job", queue="nosuch", user=eve)
    assert "team" not in str(refused.value)
    with pytest.raises(BadInput, match="there are default, open, team"):
        plane.submit("job", queue="nosuch", user=ANN)


# --------------------------------------------------------------------------------------------- members


def test_one_member_is_added_and_removed_and_the_rest_of_the_queue_stays(plane: Plane) -> None:
    [before] = [one for one in plane.store.find(QUEUES) if one.name == TEAM]
    plane.services.queues.set_member(ADMIN, TEAM, ADMIN.name, True)
    plane.services.queues.set_member(ADMIN, TEAM, ADMIN.name, True)
    assert members(plane) == ("ann", "bob", "root")
    plane.services.queues.set_member(ADMIN, TEAM, BOB.name, False)
    [after] = [one for one in plane.store.find(QUEUES) if one.name == TEAM]
    assert after == replace(before, members=(ANN.name, ADMIN.name))
    assert changes(plane) == [
        ("queue.set", "team", "members +root"),
        ("queue.set", "team", "members -bob"),
    ]


def test_a_member_that_is_not_there_and_the_last_one_are_not_removed(plane: Plane) -> None:
    with pytest.raises(NotFound, match="root is not a member"):
        plane.services.queues.set_member(ADMIN, TEAM, ADMIN.name, False)
    plane.services.queues.set_member(ADMIN, TEAM, BOB.name, False)
    with pytest.raises(Conflict, match="open to all"):
        plane.services.queues.set_member(ADMIN, TEAM, ANN.name, False)
    with pytest.raises(NotFound, match="no queue nobody"):
        plane.services.queues.set_member(ADMIN, QueueName("nobody"), ANN.name, True)
    assert members(plane) == ("ann",)


def test_the_default_queue_gets_members_too(plane: Plane) -> None:
    made = plane.services.queues.set_member(ADMIN, QueueName("default"), ANN.name, True)
    assert (made.members, made.quota.total) == (("ann",), 1_000_000)
    plane.services.queues.set_member(ADMIN, QueueName("default"), BOB.name, True)
    assert members(plane, QueueName("default")) == ("ann", "bob")


def test_a_member_must_be_a_user_and_the_nearest_is_named(plane: Plane) -> None:
    with pytest.raises(BadInput, match="did you mean bob") as refused:
        plane.services.queues.set_member(ADMIN, TEAM, UserName("bobb"), True)
    assert refused.value.mistakes[0].value == "bobb"
    with pytest.raises(BadInput, match="grus user set zoe"):
        plane.services.queues.put(ADMIN, replace(a_queue("new"), members=(UserName("zoe"),)))


def test_a_member_whose_user_is_gone_does_not_stand_in_the_way_of_other_changes(plane: Plane) -> None:
    plane.store.put(QUEUES, replace(a_queue("team", quota=2), members=(UserName("gone"),)))
    made = plane.services.queues.put(ADMIN, replace(a_queue("team", quota=1), members=(UserName("gone"),)))
    assert made.members == ("gone",)


# ------------------------------------------------------------------------------------ deletion of users


def test_a_user_with_live_jobs_is_not_deleted_and_the_jobs_are_named(plane: Plane) -> None:
    running = plane.submit("running", queue="open", user=BOB)
    ended = plane.submit("ended", queue="team", user=BOB)
    plane.services.actions.stop(BOB, ended)
    plane.settle()
    secret, _ = plane.services.users.new_token(BOB, BOB.name, "")
    with pytest.raises(
        Conflict, match=rf"{running} \(running, bob\); `grus user delete bob --stop-jobs`"
    ) as refused:
        plane.services.users.delete(ADMIN, BOB.name)
    assert ended not in str(refused.value)
    assert plane.services.accounts.whoami(secret) == BOB
    assert members(plane) == ("ann", "bob")


def test_with_stop_jobs_tokens_end_at_once_and_jobs_stop(plane: Plane) -> None:
    job = plane.submit("running", queue="open", user=BOB)
    secret, token = plane.services.users.new_token(BOB, BOB.name, "")
    plane.services.users.delete(ADMIN, BOB.name, stop_jobs=True)
    with pytest.raises(NotLoggedIn):
        plane.services.accounts.whoami(secret)
    plane.settle()
    assert plane.store.job(job).phase is Phase.STOPPED
    assert [user.name for user in plane.store.find(USERS)] == ["ann", "root"]
    assert members(plane) == ("ann",)
    assert changes(plane)[1:] == [
        ("token.delete", token.digest[:12], "of bob"),
        ("job.stop", str(job), "job running of bob"),
        ("queue.set", "team", "members -bob"),
        ("user.delete", "bob", "user and all its tokens removed"),
    ]


def test_the_only_member_of_a_queue_is_not_deleted_since_that_would_open_the_queue(plane: Plane) -> None:
    plane.services.queues.set_member(ADMIN, TEAM, ANN.name, False)
    job = plane.submit("running", queue="open", user=BOB)
    secret, _ = plane.services.users.new_token(BOB, BOB.name, "")
    with pytest.raises(Conflict, match="bob is the only member of team"):
        plane.services.users.delete(ADMIN, BOB.name, stop_jobs=True)
    assert plane.services.accounts.whoami(secret) == BOB
    assert not plane.store.job(job).terminal
    plane.services.queues.set_member(ADMIN, TEAM, ANN.name, True)
    plane.services.users.delete(ADMIN, BOB.name, stop_jobs=True)
    assert members(plane) == ("ann",)


# ------------------------------------------------------------------------------------------- audit log


def test_actions_on_other_peoples_jobs_are_audited_and_on_ones_own_are_not(plane: Plane) -> None:
    job = plane.submit("train", queue="open", gpus="1..2", user=BOB)
    plane.services.actions.scale(BOB, job, Range(1, 1))
    for act in (plane.services.actions.pause, plane.services.actions.resume, plane.services.actions.stop):
        act(BOB, plane.submit("own", queue="team", user=BOB))
    assert changes(plane) == []
    plane.services.actions.scale(ADMIN, job, None)
    plane.services.actions.pause(ADMIN, job)
    plane.services.actions.pause(ADMIN, job)
    assert changes(plane) == [
        ("job.scale", str(job), "job train of bob"),
        ("job.pause", str(job), "job train of bob"),
    ]


def test_changes_of_queues_and_nodes_are_audited(plane: Plane) -> None:
    services = plane.services
    services.queues.put(ADMIN, replace(a_queue("team", quota=1, limit=3), members=(ANN.name,)))
    services.queues.put(ADMIN, a_queue("new", quota=1))
    services.queues.delete(ADMIN, QueueName("new"))
    services.pool.cordon(ADMIN, NodeId("n1"), True)
    services.pool.drain(ADMIN, NodeId("n1"), "new disks")
    services.pool.cordon(ADMIN, NodeId("n1"), False)
    assert changes(plane) == [
        ("queue.set", "team", "quota 2 -> 1; limit none -> 3; members -bob"),
        ("queue.set", "new", "added: quota 0 -> 1"),
        ("queue.delete", "new", "queue removed"),
        ("node.cordon", "n1", "takes no new work"),
        ("node.drain", "n1", "new disks"),
        ("node.uncordon", "n1", "takes work again"),
    ]


def test_a_refused_act_on_a_job_is_not_audited(plane: Plane) -> None:
    with pytest.raises(NotFound):
        plane.services.actions.stop(ADMIN, JobId("jnone"))
    assert changes(plane) == []


def test_a_change_that_leaves_the_limit_out_keeps_it(plane: Plane) -> None:
    plane.services.users.put(ADMIN, replace(BOB, max_gpus=2_000_000))
    made = plane.services.users.put(ADMIN, replace(BOB, unix_user="bob"), keep_limit=True)
    assert (made.unix_user, made.max_gpus) == ("bob", 2_000_000)
    assert plane.services.users.put(ADMIN, BOB).max_gpus is None
