"""Replicas of a served model: the end of one is not the end of the others, and nobody gives up."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from grus.controlplane.admission.submission import Submission
from grus.model.errors import BadInput
from grus.model.identifiers import JobId
from grus.model.jobs import Phase
from grus.model.resources import GPU, Range, Replica, Role
from tests.controlplane.plane import ANN, Plane, a_request, a_spec


@pytest.fixture
def plane() -> Iterator[Plane]:
    found = Plane()
    yield found
    found.close()


def serving(plane: Plane, replicas: int = 2) -> JobId:
    return plane.submit("model", type="serve", gpus=replicas)


def test_another_takes_the_place_of_a_replica_that_was_killed_and_the_others_go_on(plane: Plane) -> None:
    job = serving(plane)
    first, second = sorted(plane.engine.alive(job))
    plane.engine.kill(first)
    plane.settle()
    assert plane.engine.alive(job) == [second], "it waits a moment before the next one starts"
    plane.after(1.1)
    alive = plane.engine.alive(job)
    assert second in alive
    assert len(alive) == 2
    assert first not in alive
    assert (plane.phase(job), plane.job(job).attempt) == (Phase.RUNNING, 1)
    assert "another starts in its place" in plane.store.events(job=job)[-1].text


def test_a_replica_whose_program_gives_up_is_replaced_too(plane: Plane) -> None:
    job = serving(plane)
    first, second = sorted(plane.engine.alive(job))
    plane.engine.exit(first, 2)
    plane.settle()
    plane.after(1.1)
    assert second in plane.engine.alive(job)
    assert len(plane.engine.alive(job)) == 2


def test_the_pauses_grow_while_a_replica_fails_again_and_again_and_shrink_after_a_long_life(
    plane: Plane,
) -> None:
    job = serving(plane)
    steady = sorted(plane.engine.alive(job))[1]
    for wait in (1, 2, 4, 8):
        failing = next(one for one in plane.engine.alive(job) if one != steady)
        plane.engine.kill(failing)
        plane.settle()
        plane.after(wait - 0.1)
        assert plane.engine.alive(job) == [steady], f"not before {wait} s"
        plane.after(0.2)
        assert len(plane.engine.alive(job)) == 2
    plane.after(400)
    plane.engine.kill(next(one for one in plane.engine.alive(job) if one != steady))
    plane.settle()
    plane.after(1.1)
    assert len(plane.engine.alive(job)) == 2


def test_the_pause_of_a_replica_outlives_the_control_plane(plane: Plane) -> None:
    job = serving(plane)
    plane.engine.kill(sorted(plane.engine.alive(job))[0])
    plane.settle()
    plane.restart()
    plane.settle()
    plane.after(1.1)
    assert len(plane.engine.alive(job)) == 2
    assert plane.job(job).attempt == 1


def test_when_all_are_gone_the_job_starts_again_for_ever_with_growing_pauses(plane: Plane) -> None:
    job = serving(plane, replicas=1)
    for wait in (1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300):
        plane.engine.kill(job)
        plane.settle()
        assert plane.phase(job) is Phase.PENDING
        assert plane.job(job).held == 0
        assert plane.job(job).not_before == plane.now + wait
        plane.after(wait + 0.1)
        assert plane.phase(job) is Phase.RUNNING
    plane.after(301)
    plane.engine.kill(job)
    plane.settle()
    assert plane.job(job).not_before == plane.now + 1, "it had run for long"


def test_a_replica_in_its_pause_does_not_keep_the_job_from_growing(plane: Plane) -> None:
    job = plane.submit("model", type="serve", gpus="1..3")
    plane.do(lambda: plane.services.actions.scale(ANN, job, Range(2, 2)))
    plane.engine.kill(sorted(plane.engine.alive(job))[0])
    plane.settle()
    plane.do(lambda: plane.services.actions.scale(ANN, job, Range(3, 3)))
    assert len(plane.job(job).staying) == 3
    plane.after(1.1)
    assert len(plane.engine.alive(job)) == 3


def test_it_begins_with_the_least_and_scale_sets_how_many(plane: Plane) -> None:
    job = plane.submit("model", type="serve", gpus="1..4")
    assert len(plane.engine.alive(job)) == 1, "free GPUs are no reason to take them"
    for size in (4, 2, 3, 1):
        plane.do(partial(plane.services.actions.scale, ANN, job, Range(size, size)))
        assert len(plane.engine.alive(job)) == size
    assert plane.job(job).attempt == 1


@pytest.mark.parametrize("replica", [Replica(gpus=0), Replica(gpus=0, share=GPU // 4)])
def test_replicas_without_a_gpu_or_with_a_slice_are_scaled_too(plane: Plane, replica: Replica) -> None:
    roles = (Role("worker", Range(1, 4), replica),)
    job = plane.submit("model", type="serve", roles=roles)
    for size in (1, 4, 2, 1):
        plane.do(partial(plane.services.actions.scale, ANN, job, Range(size, size)))
        assert len(plane.engine.alive(job)) == size


def test_replicas_without_a_gpu_are_told_in_replicas(plane: Plane) -> None:
    job = plane.submit("model", type="serve", roles=(Role("worker", Range(1, 4), Replica(gpus=0)),))
    plane.do(lambda: plane.services.actions.scale(ANN, job, Range(3, 3)))
    told = [event.text for event in plane.store.events(job=job)]
    assert "scaled to 3 replicas by ann" in told
    assert "grows from 1 to 3 workers: grew by 2 replicas: there was room" in told
    assert plane.job(job).reason == "grew by 2 replicas: there was room"


def test_stop_and_pause_end_all_replicas_and_none_comes_back(plane: Plane) -> None:
    job = serving(plane)
    plane.engine.kill(sorted(plane.engine.alive(job))[0])
    plane.settle()
    plane.do(lambda: plane.services.actions.pause(ANN, job))
    plane.after(10)
    assert (plane.phase(job), plane.engine.alive(job)) == (Phase.PAUSED, [])
    plane.do(lambda: plane.services.actions.resume(ANN, job))
    assert len(plane.engine.alive(job)) == 2
    plane.do(lambda: plane.services.actions.stop(ANN, job))
    plane.after(10)
    assert (plane.phase(job), plane.engine.alive(job)) == (Phase.STOPPED, [])


def test_workers_of_other_jobs_still_fall_together(plane: Plane) -> None:
    job = plane.submit("gang", gpus=2)
    plane.engine.kill(sorted(plane.engine.alive(job))[0])
    plane.settle()
    assert plane.phase(job) is Phase.FAILED


def test_a_pool_on_kubernetes_refuses_it_with_the_reason(plane: Plane) -> None:
    settings = replace(plane.settings, containers=True)
    submission = Submission(plane.store, plane.loop.picture, settings)
    with pytest.raises(BadInput, match="not available in a pool on Kubernetes yet"):
        submission.check(ANN, [a_request(a_spec("model", type="serve"))])
