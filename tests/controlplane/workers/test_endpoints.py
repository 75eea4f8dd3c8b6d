"""Where jobs answer requests: only what a worker may say counts, and only those who may use it hear of it."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from grus.controlplane.workers.endpoints import Endpoint
from grus.model.errors import NotAllowed, NotFound
from grus.model.identifiers import JobId, UserName
from grus.model.interfaces import REPORTS, USERS, AccessRole, User
from grus.model.jobs import JobType
from tests.controlplane.plane import ADMIN, ANN, Plane
from tests.scheduler.builders import a_queue

BOB = User(name=UserName("bob"))
EVE = User(name=UserName("eve"))
SECRET = "s3cret-of-the-session"
PLACE = {"address": "127.0.0.1:4711", "secret": SECRET, "used_at": 990.0}


@pytest.fixture
def plane() -> Iterator[Plane]:
    made = Plane(replace(a_queue("team", quota=4), members=(ANN.name, BOB.name)))
    for user in (BOB, EVE):
        made.store.put(USERS, user)
    yield made
    made.close()


def a_session(plane: Plane, type_: JobType = JobType.DEV, **said: object) -> JobId:
    """A running job whose worker has said this of itself."""
    job = plane.submit(queue="team", type=type_.value, priority=100)
    plane.settle()
    plane.engine.up(job)
    plane.engine.rings(f"{job}.", json.dumps({"at": 999.0, "endpoint": PLACE} | said))
    plane.settle()
    return job


def test_the_owner_of_a_session_is_told_where_it_answers(plane: Plane) -> None:
    job = a_session(plane)
    (found,) = plane.services.outputs.endpoints(ANN, job)
    assert found == Endpoint(plane.engine.find(job), "127.0.0.1:4711", SECRET, 990.0)
    assert SECRET not in repr(found)


def test_nobody_else_opens_a_session_not_even_an_administrator(plane: Plane) -> None:
    job = a_session(plane)
    for user in (BOB, ADMIN):
        with pytest.raises(NotAllowed, match="belongs to ann"):
            plane.services.outputs.endpoints(user, job)
    with pytest.raises(NotFound):
        plane.services.outputs.endpoints(EVE, job)
    demoted = User(name=ANN.name, role=AccessRole.VIEWER)
    with pytest.raises(NotAllowed, match="viewer"):
        plane.services.outputs.endpoints(demoted, job)


def test_a_served_model_is_for_all_who_see_it(plane: Plane) -> None:
    job = a_session(plane, JobType.SERVE)
    for user in (ANN, BOB, ADMIN):
        assert plane.services.outputs.endpoints(user, job)
    with pytest.raises(NotFound):
        plane.services.outputs.endpoints(EVE, job)


@pytest.mark.parametrize(
    "place",
    [
        {**PLACE, "address": "10.0.0.1:80"},
        {**PLACE, "address": "127.0.0.1:x"},
        {**PLACE, "address": "127.0.0.1@evil:80"},
        {**PLACE, "address": "localhost:80"},
        {**PLACE, "address": ["127.0.0.1:80"]},
        {**PLACE, "secret": "short"},
        {**PLACE, "secret": "a line\r\nHost: evil, and more of it"},
        {"address": "127.0.0.1:4711"},
        "127.0.0.1:4711",
        None,
    ],
)
def test_what_a_worker_says_counts_only_if_it_is_a_place_on_its_own_host(plane: Plane, place: object) -> None:
    assert plane.services.outputs.endpoints(ANN, a_session(plane, endpoint=place)) == ()


def test_a_training_has_no_place_whatever_it_says(plane: Plane) -> None:
    assert plane.services.outputs.endpoints(ANN, a_session(plane, JobType.TRAIN)) == ()


def test_a_session_that_ends_is_found_no_more(plane: Plane) -> None:
    job = a_session(plane)
    plane.services.actions.stop(ANN, job)
    plane.settle()
    assert plane.services.outputs.endpoints(ANN, job) == ()


def test_the_secret_is_in_no_record_and_no_event(plane: Plane) -> None:
    job = a_session(plane)
    plane.engine.advance(10.0)
    plane.settle()
    assert SECRET not in repr(plane.store.job(job))
    assert SECRET not in repr(plane.store.events(job=job)) + repr(plane.store.find(REPORTS, job=job))
