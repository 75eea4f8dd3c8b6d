"""A drained node: its message reaches `why`, events and the list of nodes, and its jobs move."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from grus.model.errors import DoesNotFit, NotAllowed, NotFound
from grus.model.identifiers import NodeId, UserName
from grus.model.interfaces import USERS, User
from grus.model.jobs import Checkpoint, Phase
from grus.model.resources import GPU
from tests.controlplane.plane import ADMIN, ANN, Plane
from tests.scheduler.builders import a_queue

BOB = User(name=UserName("bob"))
MESSAGE = "new disks until 15:00"


@pytest.fixture
def plane() -> Iterator[Plane]:
    made = Plane(pool="2x1")
    yield made
    made.close()


def test_a_job_that_saves_moves_and_its_event_has_the_message(plane: Plane) -> None:
    job = plane.submit("train", checkpoint=Checkpoint(path="/saved"))
    [node] = {seat.node for seat in plane.store.job(job).seats}
    plane.services.pool.drain(ADMIN, node, MESSAGE)
    plane.settle()
    moved = plane.store.job(job)
    assert moved.phase is Phase.RUNNING
    assert [seat.node for seat in moved.seats] != [node]
    texts = [event.text for event in plane.store.events(job=job)]
    assert any(f"node {node} is being drained: {MESSAGE}" in text for text in texts)
    [shown] = [one for one in plane.services.pool.nodes(ANN) if one.id == node]
    assert shown.cordoned
    assert shown.drain is not None
    assert (shown.drain.message, shown.drain.by) == (MESSAGE, ADMIN.name)


def test_a_job_that_does_not_save_stays_and_why_tells_of_the_drain(plane: Plane) -> None:
    job = plane.submit("train", checkpoint=Checkpoint())
    [node] = {seat.node for seat in plane.store.job(job).seats}
    plane.services.pool.drain(ADMIN, node, MESSAGE)
    plane.settle()
    assert plane.store.job(job).phase is Phase.RUNNING
    assert (
        f"it runs on a node that is being drained: {node} ({MESSAGE})"
        in plane.services.jobs.why(ANN, job).notes
    )
    waiting = plane.submit("later", gpus=2)
    assert (
        f"nodes that are being drained take no new work: {node} ({MESSAGE})"
        in plane.services.jobs.why(ANN, waiting).notes
    )
    plane.services.pool.cordon(ADMIN, node, False)
    assert all(one.drain is None for one in plane.services.pool.nodes(ANN))
    with pytest.raises(NotFound):
        plane.services.pool.drain(ADMIN, NodeId("n9"))


def test_jobs_that_leave_and_jobs_that_stay_are_told_apart_to_those_who_see_them() -> None:
    private = replace(a_queue("private", quota=1), members=(BOB.name,))
    plane = Plane(a_queue("open", quota=2), private, pool="1x3")
    plane.store.put(USERS, BOB)
    plane.services.accounts.refresh()
    assert plane.services.pool.drained_jobs(ADMIN) == {}
    plain = plane.submit("plain", queue="open", checkpoint=Checkpoint())
    hidden = plane.submit("hidden", queue="private", user=BOB, checkpoint=Checkpoint(path="/saved"))
    [node] = [one.id for one in plane.services.pool.nodes(ADMIN)]
    plane.services.pool.drain(ADMIN, node, MESSAGE)
    assert plane.services.pool.drained_jobs(ADMIN) == {node: ((hidden,), (plain,))}
    assert plane.services.pool.drained_jobs(ANN) == {node: ((), (plain,))}
    plane.close()


def test_members_are_told_which_action_is_refused(plane: Plane) -> None:
    with pytest.raises(NotAllowed, match="may drain nodes"):
        plane.services.pool.drain(ANN, NodeId("n1"))
    with pytest.raises(NotAllowed, match="may cordon or uncordon nodes"):
        plane.services.pool.cordon(ANN, NodeId("n1"), True)


def test_a_job_above_its_users_limit_is_refused_and_one_at_the_limit_waits(plane: Plane) -> None:
    ann = User(name=ANN.name, max_gpus=GPU)
    plane.services.users.put(ADMIN, ann)
    with pytest.raises(DoesNotFit, match="you may hold 1 at most"):
        plane.submit("large", gpus=2, user=ann)
    first, second = plane.submit("first", user=ann), plane.submit("second", user=ann)
    assert plane.store.job(first).phase is Phase.RUNNING
    told = plane.services.jobs.why(ANN, second)
    assert (told.code, told.holders) == ("user limit", ((first, GPU),))
    plane.services.users.put(ADMIN, ANN)
    plane.settle()
    assert plane.store.job(second).phase is Phase.RUNNING
