"""Requests that only a pool on one machine can serve; a pool on Kubernetes refuses them with the reason."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from grus.controlplane.admission.submission import Submission
from grus.controlplane.facade.services import Services
from grus.model.errors import BadInput, NotAllowed
from tests.controlplane.plane import ANN, Plane, a_request, a_spec


@pytest.fixture
def plane() -> Iterator[Plane]:
    found = Plane()
    yield found
    found.close()


@pytest.fixture
def submission(plane: Plane) -> Submission:
    return Submission(plane.store, plane.loop.picture, replace(plane.settings, containers=True))


def test_shared_gpus_are_refused_instead_of_ignored(submission: Submission) -> None:
    shared = a_spec("pair")
    shared = replace(shared, request=replace(shared.request, shares=True))
    with pytest.raises(BadInput, match=r"resources\.share: is not available in a pool on Kubernetes yet"):
        submission.check(ANN, [a_request(shared)])


def test_a_development_session_is_refused_before_it_holds_a_gpu(submission: Submission) -> None:
    session = replace(a_spec("dev", type="dev"), run=("python3", "-m", "grus.interactive.session", "lab"))
    with pytest.raises(BadInput, match="development session, which a pool on Kubernetes cannot open"):
        submission.check(ANN, [a_request(session)])
    submission.check(ANN, [a_request(a_spec("tests", type="dev"))])


def test_a_session_of_an_older_server_is_not_waited_for(plane: Plane) -> None:
    job = plane.submit("old", type="dev")
    settings = replace(plane.settings, containers=True)
    services = Services(plane.store, plane.engine, plane.loop, settings=settings)
    try:
        with pytest.raises(NotAllowed, match=f"`grus stop {job}` ends it"):
            services.outputs.session(ANN, job)
        assert services.pool.status(ANN).containers
    finally:
        services.close()
