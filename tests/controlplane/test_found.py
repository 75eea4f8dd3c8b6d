"""Faults that the simulation of the whole control plane has found, each as its shortest history."""

from grus.model.errors import StoreFailed
from grus.model.jobs import Exit, ExitCause, Phase
from grus.model.resources import Range
from grus.store.memory import MemoryStore
from tests.controlplane.plane import ANN, Plane
from tests.scheduler.builders import a_queue, lose


def test_late_news_of_a_forgotten_worker_does_not_keep_its_job_alive() -> None:
    """A worker left, ended and was forgotten; then it is told once more that it runs."""
    plane = Plane()
    job = plane.submit(gpus="1..4")
    before = plane.engine.workers_alive.known[plane.engine.find("worker.3")].status
    plane.do(lambda: plane.services.actions.scale(ANN, job, Range(1, 3)))
    assert not plane.engine.alive("worker.3")
    plane.do(lambda: plane.engine._tell(before))
    plane.do(lambda: plane.engine.finish(job))
    assert plane.phase(job) is Phase.SUCCEEDED
    assert plane.loop.picture.statuses(job) == {}
    plane.close()


def test_a_setup_that_never_runs_is_undone() -> None:
    plane = Plane()
    plane.engine.up_at_once = False
    job = plane.submit(setup=("true",))
    plane.after(61.0).after(2.0)
    assert plane.job(job).attempt == 2
    assert plane.job(job).failures == 0
    plane.close()


def test_a_setup_that_runs_may_take_its_time() -> None:
    plane = Plane()
    job = plane.submit(setup=("true",))
    plane.after(600.0)
    assert plane.job(job).attempt == 1
    plane.close()


def test_a_worker_that_came_later_and_never_runs_does_not_hold_the_others_for_ever() -> None:
    plane = Plane(a_queue("A", quota=4))
    other = plane.submit("other", queue="A", gpus=3)
    job = plane.submit("grows", queue="A", gpus="1..4")
    plane.engine.up_at_once = False
    plane.do(lambda: plane.engine.finish(other))
    plane.do(lambda: plane.engine.finish(f"{job}.1.worker.0"))
    assert plane.engine.alive(job), "it has grown, and the new ones do not run"
    plane.engine.up_at_once = True
    plane.after(61.0).after(3.0)
    assert plane.job(job).attempt == 2
    plane.do(lambda: plane.engine.finish(job))
    assert plane.phase(job) is Phase.SUCCEEDED
    plane.close()


def test_a_time_limit_that_cannot_be_written_down_does_not_keep_the_loop_spinning() -> None:
    """The disk is full when a job has run too long: it is tried again after a pause, not at once."""
    store = MemoryStore()
    plane = Plane(store=store)
    job = plane.submit(max_runtime=40.0)
    write = store._write

    def full(_: object) -> object:
        future = write(lambda: None)
        future._exception = StoreFailed("the disk is full")
        return future

    store._write = full  # type: ignore[method-assign,assignment]
    plane.engine.advance(41.0)
    for _ in range(3):
        plane.loop.step(plane.now)
    assert plane.loop._until_next() > 0.5
    store._write = write  # type: ignore[method-assign]
    plane.after(30.0)
    assert plane.phase(job) is Phase.FAILED
    plane.close()


def test_what_needs_more_workers_now_is_not_started_with_fewer_because_it_was_once_scaled_down() -> None:
    plane = Plane(pool="2x4")
    job = plane.submit(gpus="1..8")
    plane.do(lambda: plane.services.actions.scale(ANN, job, Range(1, 2)))
    out = Exit(ExitCause.GPU_MEMORY, 1, "CUDA out of memory")
    plane.do(lambda: plane.engine.fail(f"{job}.1.worker.1", out)).after(2.0)
    now = plane.job(job)
    role = now.spec.request.elastic
    assert role is not None
    assert role.replicas.low == 3
    assert (now.size, len(now.seats)) == (Range(3, 3), 3)
    plane.close()


def test_a_lost_gpu_is_noticed_after_the_clock_was_set_back() -> None:
    plane = Plane()
    job = plane.submit(gpus=1)
    (seat,) = plane.job(job).seats
    plane.engine.now -= 3600.0
    plane.after(5.0)
    plane.engine.pool = lose(plane.engine.pool, *seat.devices)
    plane.after(5.0)
    assert "requeued" in plane.kinds(job), plane.kinds(job)
    plane.after(2.0)
    assert plane.job(job).attempt == 2
    plane.close()
