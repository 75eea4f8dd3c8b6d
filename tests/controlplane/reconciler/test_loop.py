"""The loop with the real scheduler, in virtual time: what becomes of jobs, workers and GPUs."""

import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grus.controlplane.settings import Settings
from grus.model.errors import Conflict, Fenced, StoreFailed
from grus.model.identifiers import JobId, NodeId, WorkerId
from grus.model.interfaces import QUEUES, USERS, Event, WorkerState
from grus.model.jobs import FIRST_BACK_OFF, Checkpoint, Exit, ExitCause, Job, Launch, Phase
from grus.model.queues import Queue
from grus.model.resources import Range
from grus.store.memory import MemoryStore
from tests.controlplane.plane import ADMIN, ANN, Plane, Server, a_spec
from tests.fakes.engine import SimulatedEngine
from tests.scheduler.builders import a_pool, a_queue, a_role, lose


@pytest.fixture
def plane() -> Iterator[Plane]:
    made = Plane()
    yield made
    made.close()


def test_a_job_starts_runs_and_succeeds(plane: Plane) -> None:
    """From submit to success, each change with its event, and nothing is left in the engine."""
    job = plane.submit()
    assert plane.phase(job) is Phase.RUNNING
    plane.engine.finish(job)
    plane.settle()
    assert plane.phase(job) is Phase.SUCCEEDED
    assert plane.job(job).seats == ()
    assert plane.kinds(job) == ["submitted", "starting", "running", "succeeded"]
    assert plane.engine.workers() == ()


def test_the_environment_tells_each_worker_its_place(plane: Plane) -> None:
    job = plane.submit(gpus=3)
    specs = [one.spec for one in plane.engine.workers_alive.known.values()]
    env = [dict(spec.env) for spec in specs]
    assert [one["RANK"] for one in env] == ["0", "1", "2"]
    assert {one["WORLD_SIZE"] for one in env} == {"3"}
    assert {one["GRUS_JOB"] for one in env} == {job}
    assert {one["GRUS_RESUME"] for one in env} == {"0"}
    assert {one["MASTER_PORT"] for one in env} == {env[0]["MASTER_PORT"]}
    assert env[0]["GRUS_CHECKPOINT"] == "/ckpt"
    assert len({device for spec in specs for device in spec.devices}) == 3


def test_once_is_one_worker_with_all_gpus_and_per_node_one_a_node() -> None:
    plane = Plane(pool="2x2")
    once = plane.submit(gpus=2, one_node=True)
    (worker,) = plane.engine.alive(once)
    assert len(plane.engine.workers_alive.known[worker].spec.devices) == 2
    plane.do(lambda: plane.services.actions.stop(ANN, once))
    nodes = plane.submit(gpus=4, launch=Launch.PER_NODE)
    assert len(plane.engine.alive(nodes)) == 2
    plane.engine.finish(nodes)
    assert plane.settle().phase(nodes) is Phase.SUCCEEDED


def test_setup_runs_once_before_the_others_and_its_failure_fails_the_attempt(plane: Plane) -> None:
    job = plane.submit(gpus=2, setup=("pip install x",))
    assert [worker.split(".")[2] for worker in plane.engine.alive(job)] == ["setup"]
    assert plane.phase(job) is Phase.STARTING
    plane.engine.finish("setup")
    plane.settle()
    assert plane.phase(job) is Phase.RUNNING
    assert len(plane.engine.alive(job)) == 2
    other = plane.submit("other", gpus=2, setup=("false",))
    plane.engine.exit("setup", 3)
    plane.settle()
    assert plane.phase(other) is Phase.FAILED
    assert "setup" in plane.job(other).reason


def test_a_worker_that_fails_takes_the_others_with_it_and_is_retried_with_back_off(plane: Plane) -> None:
    job = plane.submit(gpus=2, retries=1)
    plane.engine.obedient = False
    plane.engine.exit(f"{job}.1.worker.1", 1)
    plane.settle()
    stored = plane.job(job)
    assert stored.phase is Phase.RUNNING
    assert stored.exit is not None
    assert stored.held == 2_000_000  # the other worker still lives
    plane.after(5)
    stored = plane.job(job)
    assert (stored.phase, stored.failures, stored.held) == (Phase.PENDING, 1, 0)
    assert stored.not_before == plane.now + 1
    plane.after(1.1)
    assert plane.phase(job) is Phase.RUNNING
    assert plane.job(job).attempt == 2
    env = dict(plane.engine.workers_alive.known[plane.engine.alive(job)[0]].spec.env)
    assert env["GRUS_RESUME"] == "1"
    plane.engine.obedient = True
    plane.engine.exit(f"{job}.2.worker.0", 7)
    plane.settle()
    stored = plane.job(job)
    assert stored.phase is Phase.FAILED
    assert stored.exit is not None
    assert (stored.exit.cause, stored.exit.code) == (ExitCause.CODE, 7)
    assert "worker 0" in stored.reason
    assert plane.engine.workers() == ()


def test_back_off_doubles(plane: Plane) -> None:
    job = plane.submit(retries=9)
    for wait in (1, 2, 4, 8, 16):
        plane.engine.exit(job, 1)
        plane.settle()
        assert plane.job(job).not_before == plane.now + wait
        plane.after(wait - 0.5)
        assert plane.phase(job) is Phase.PENDING
        plane.after(0.5)
        assert plane.phase(job) is Phase.RUNNING


def test_a_lost_worker_is_never_charged(plane: Plane) -> None:
    job = plane.submit(gpus=2)
    plane.engine.lose(f"{job}.1.worker.0")
    plane.settle()
    assert plane.phase(job) is Phase.PENDING
    assert plane.job(job).failures == 0
    plane.after(1.1)
    assert plane.job(job).attempt == 2
    assert plane.phase(job) is Phase.RUNNING


def test_kill_from_outside_is_a_failure(plane: Plane) -> None:
    job = plane.submit()
    plane.engine.kill(job)
    plane.settle()
    assert plane.phase(job) is Phase.FAILED
    assert "signal 9" in plane.job(job).reason


def test_a_program_that_cannot_start_fails_and_the_rest_of_its_gang_is_undone(plane: Plane) -> None:
    plane.engine.cannot_start = {"worker.2"}
    job = plane.submit(gpus=3)
    assert plane.phase(job) is Phase.FAILED
    assert plane.engine.alive() == []


def test_a_gang_that_is_partly_up_is_undone_within_a_minute(plane: Plane) -> None:
    plane.engine.up_at_once = False
    job = plane.submit(gpus=2)
    plane.engine.up(f"{job}.1.worker.0")
    plane.settle()
    assert plane.phase(job) is Phase.STARTING
    plane.after(59)
    assert plane.phase(job) is Phase.STARTING
    plane.after(1)
    assert plane.phase(job) is Phase.PENDING
    assert plane.engine.alive() == []
    assert plane.job(job).failures == 0


def test_gpus_are_given_away_only_when_their_worker_is_proven_dead(plane: Plane) -> None:
    first = plane.submit(gpus=4)
    second = plane.submit("second", gpus=4)
    plane.engine.obedient = False
    plane.do(lambda: plane.services.actions.stop(ANN, first))
    assert plane.job(first).held == 4_000_000
    assert plane.phase(second) is Phase.PENDING
    plane.after(1.9)
    assert plane.phase(second) is Phase.PENDING
    plane.after(0.1)  # the grace of two seconds is over
    assert plane.phase(first) is Phase.STOPPED
    assert plane.phase(second) is Phase.RUNNING


def test_stop_of_a_waiting_job_is_immediate_and_idempotent(plane: Plane) -> None:
    plane.submit(gpus=4)
    job = plane.submit("second", gpus=4)
    assert plane.services.actions.stop(ANN, job).phase is Phase.STOPPED
    assert plane.services.actions.stop(ANN, job).phase is Phase.STOPPED
    with pytest.raises(Conflict, match="already been stopped"):
        plane.services.actions.pause(ANN, job)


def test_pause_and_resume_by_a_person(plane: Plane) -> None:
    """The worker is asked to end, then told why; resume goes on as the second attempt."""
    plane.engine.obedient = False
    job = plane.submit(gpus=4)
    plane.do(lambda: plane.services.actions.pause(ANN, job))
    assert plane.phase(job) is Phase.PAUSING
    control = json.loads(plane.engine.workers_alive.known[plane.engine.alive(job)[0]].control)
    assert control["pause"] is True
    assert control["deadline"] == plane.now + 2
    verbs = [verb for verb, _ in plane.engine.calls]
    assert verbs.index("stop") < verbs.index("publish"), "what obeys the text alone would look done"
    plane.after(2)
    assert plane.phase(job) is Phase.PAUSED
    plane.after(1000)
    assert plane.phase(job) is Phase.PAUSED
    assert plane.job(job).failures == 0
    plane.do(lambda: plane.services.actions.resume(ANN, job))
    assert (plane.phase(job), plane.job(job).attempt) == (Phase.RUNNING, 2)
    plane.do(lambda: plane.services.actions.resume(ANN, job))
    assert plane.kinds(job).count("resumed") == 1


def test_a_job_that_finished_before_the_request_to_pause_reached_it_has_succeeded(plane: Plane) -> None:
    job = plane.submit()
    plane.services.actions.pause(ANN, job)
    plane.engine.exit(job, 0)
    plane.settle()
    assert plane.phase(job) is Phase.SUCCEEDED


def test_resume_while_pausing_starts_it_again_by_itself(plane: Plane) -> None:
    plane.engine.obedient = False
    job = plane.submit()
    plane.do(lambda: plane.services.actions.pause(ANN, job))
    plane.do(lambda: plane.services.actions.resume(ANN, job))
    assert plane.phase(job) is Phase.PAUSING
    plane.after(2)
    assert (plane.phase(job), plane.job(job).attempt) == (Phase.RUNNING, 2)


def test_stop_while_pausing_stops(plane: Plane) -> None:
    plane.engine.obedient = False
    job = plane.submit()
    plane.do(lambda: plane.services.actions.pause(ANN, job))
    plane.do(lambda: plane.services.actions.stop(ANN, job))
    plane.after(2)
    assert plane.phase(job) is Phase.STOPPED


def test_reclaim_pauses_the_borrower_and_resumes_it_later() -> None:
    """Quotas 2 and 2: a rigid 4 of A gives way to B, is not charged, and comes back by itself."""
    plane = Plane(a_queue("A", quota=2), a_queue("B", quota=2))
    a = plane.submit("a", queue="A", gpus=4)
    b = plane.submit("b", queue="B", gpus=2)
    assert (plane.phase(a), plane.phase(b)) == (Phase.PAUSED, Phase.RUNNING)
    assert plane.job(a).failures == 0
    plane.engine.finish(b)
    plane.settle()
    assert (plane.phase(a), plane.job(a).attempt) == (Phase.RUNNING, 2)


def test_an_elastic_job_grows_and_shrinks_without_a_restart() -> None:
    plane = Plane()
    rigid = plane.submit("rigid", gpus=1)
    job = plane.submit("elastic", gpus="2..4")
    assert len(plane.engine.alive(job)) == 3
    plane.do(lambda: plane.services.actions.stop(ANN, rigid))
    assert len(plane.engine.alive(job)) == 4
    stored = plane.job(job)
    assert (stored.attempt, stored.generation, stored.phase) == (1, 2, Phase.RUNNING)
    control = json.loads(plane.engine.workers_alive.known[plane.engine.alive(job)[0]].control)
    assert (control["generation"], control["world"], control["pause"]) == (2, 4, False)
    new = plane.engine.workers_alive.known[plane.engine.find(f"{job}.1.worker.3.2")].spec
    assert dict(new.env)["WORLD_SIZE"] == "4"
    plane.engine.obedient = False
    second = plane.submit("second", gpus=2)
    stored = plane.job(job)
    assert len(stored.staying) == 2
    assert stored.held == 4_000_000
    assert plane.phase(second) is Phase.PENDING
    plane.after(2)
    assert plane.phase(second) is Phase.RUNNING
    assert (plane.job(job).attempt, len(plane.engine.alive(job))) == (1, 2)
    plane.engine.finish(job)
    plane.settle()
    assert plane.phase(job) is Phase.SUCCEEDED


def test_scale_pins_the_size_of_an_elastic_job(plane: Plane) -> None:
    job = plane.submit("elastic", gpus="1..4")
    assert len(plane.engine.alive(job)) == 4
    plane.do(lambda: plane.services.actions.scale(ANN, job, Range(2, 2)))
    assert len(plane.engine.alive(job)) == 2
    plane.do(lambda: plane.services.actions.scale(ANN, job, None))
    assert len(plane.engine.alive(job)) == 4


def test_a_job_about_to_end_does_not_grow(plane: Plane) -> None:
    """When one of its workers has finished, a new one would begin from nothing."""
    rigid = plane.submit("rigid", gpus=1)
    job = plane.submit("elastic", gpus="2..4")
    plane.engine.exit(f"{job}.1.worker.0", 0)
    plane.settle()
    plane.do(lambda: plane.services.actions.stop(ANN, rigid))
    assert len(plane.engine.alive(job)) == 2


def test_a_launcher_decides_alone(plane: Plane) -> None:
    roles = (a_role("launcher", 1, 0), a_role("worker", 2, 1))
    job = plane.submit(roles=roles)
    assert len(plane.engine.alive(job)) == 3
    plane.engine.exit("launcher", 0)
    plane.settle()
    assert plane.phase(job) is Phase.SUCCEEDED
    assert plane.engine.alive() == []


def test_max_runtime_of_job_and_queue() -> None:
    plane = Plane(a_queue("A", quota=4))
    plane.store.put(QUEUES, _with_runtime(plane, 20.0))
    plane.loop.refresh()
    own = plane.submit(queue="A", max_runtime=10.0, retries=3)
    queues = plane.submit("q", queue="A")
    plane.after(9.5)
    assert plane.phase(own) is Phase.RUNNING
    plane.after(0.6)
    assert plane.phase(own) is Phase.FAILED
    assert plane.job(own).exit is not None
    assert "10 s" in plane.job(own).reason
    plane.after(10)
    assert plane.phase(queues) is Phase.FAILED


def _with_runtime(plane: Plane, seconds: float) -> Queue:
    (queue,) = plane.store.find(QUEUES)
    return replace(queue, max_runtime=seconds)


def test_after_waits_for_success_and_fails_with_the_name_of_the_one_that_failed(plane: Plane) -> None:
    first = plane.submit("first")
    second = plane.submit("second", after=[first])
    third = plane.submit("third", after=[second])
    assert (plane.phase(second), plane.phase(third)) == (Phase.PENDING, Phase.PENDING)
    plane.engine.finish(first)
    plane.settle()
    assert plane.phase(second) is Phase.RUNNING
    plane.do(lambda: plane.services.actions.stop(ANN, second))
    assert plane.phase(third) is Phase.FAILED
    assert second in plane.job(third).reason


def test_failure_runs_down_a_chain_of_stages(plane: Plane) -> None:
    ids = [plane.submit("s0")]
    for number in range(1, 5):
        ids.append(plane.submit(f"s{number}", after=[ids[-1]]))
    plane.engine.exit(ids[0], 1)
    plane.settle()
    assert {plane.phase(id_) for id_ in ids} == {Phase.FAILED}


class Full(MemoryStore):
    """It has no room for the ends of some jobs."""

    full_for: Collection[JobId] = ()

    def _replace(self, job: Job, event: Event | None, epoch: int | None) -> Job:
        if job.terminal and job.id in self.full_for:
            raise StoreFailed("the disk is full")
        return super()._replace(job, event, epoch)


def test_failure_reaches_who_comes_after_when_a_full_disk_has_room_again() -> None:
    store = Full()
    plane = Plane(store=store)
    first = plane.submit("first")
    second = plane.submit("second", after=[first])
    store.full_for = {second}
    plane.engine.exit(first, 1)
    plane.settle()
    assert (plane.phase(first), plane.phase(second)) == (Phase.FAILED, Phase.PENDING)
    store.full_for = set()
    plane.after(60)
    assert plane.phase(second) is Phase.FAILED
    plane.close()


def test_a_stage_that_is_asked_for_always_starts_when_those_before_it_have_ended(plane: Plane) -> None:
    fails, succeeds = plane.submit("fails"), plane.submit("succeeds")
    always = plane.submit("always", after=[fails, succeeds], after_failure=True)
    assert "to end" in plane.services.jobs.why(ANN, always).sentence
    plane.engine.exit(fails, 1)
    plane.settle()
    assert plane.phase(always) is Phase.PENDING
    plane.engine.finish(succeeds)
    plane.settle()
    assert plane.phase(always) is Phase.RUNNING


def test_a_stage_that_is_asked_for_always_starts_after_one_that_never_could(plane: Plane) -> None:
    first = plane.submit("first")
    second = plane.submit("second", after=[first])
    always = plane.submit("always", after=[second], after_failure=True)
    plane.engine.exit(first, 1)
    plane.settle()
    assert (plane.phase(second), plane.phase(always)) == (Phase.FAILED, Phase.RUNNING)


def test_an_unhealthy_device_sends_its_job_back_uncharged() -> None:
    plane = Plane(pool="2x1")
    job = plane.submit()
    device = plane.job(job).seats[0].devices[0]
    plane.engine.pool = lose(plane.engine.pool, device)
    plane.after(plane.settings.node_interval)
    plane.after(1.5)
    stored = plane.job(job)
    assert (stored.phase, stored.attempt, stored.failures) == (Phase.RUNNING, 2, 0)
    assert stored.seats[0].devices[0] != device


def test_late_events_of_an_old_attempt_change_nothing(plane: Plane) -> None:
    job = plane.submit(retries=1)
    old = plane.engine.workers()[0]
    plane.engine.exit(job, 1)
    plane.settle()
    plane.after(1.1)
    before = plane.job(job)
    assert before.attempt == 2
    plane.engine._tell(old)
    plane.engine._tell(replace(old, state=plane.engine.workers()[0].state))
    plane.engine._tell(replace(old, state=WorkerState.ENDED, exit=Exit(ExitCause.CODE, 1)))
    plane.settle()
    assert plane.job(job) == before


def test_a_late_word_that_a_worker_runs_does_not_bring_it_back(plane: Plane) -> None:
    """It has ended, and nobody waits for it any more."""
    plane.engine.obedient = False
    job = plane.submit(gpus=2)
    runs = plane.engine.workers()[0]
    plane.engine.exit("worker.0", 1)
    plane.settle()
    plane.engine._tell(runs)
    plane.engine.kill("worker.1")
    plane.settle()
    assert plane.phase(job) is Phase.FAILED


def test_orphans_are_ended_and_forgotten(plane: Plane) -> None:
    """A worker that no record asks for, as after a store was put back, does not keep its GPU."""
    job = plane.submit()
    spec = plane.engine.workers_alive.known[plane.engine.alive(job)[0]].spec
    plane.engine.start(replace(spec, id=WorkerId("jghost.1.worker.0.1"), job=JobId("jghost"), devices=()))
    plane.settle()
    assert plane.engine.alive("jghost") == []
    assert [status.job for status in plane.engine.workers()] == [job]


def test_a_newer_control_plane_makes_the_older_stop() -> None:
    plane = Plane()
    old = plane.loop
    plane.restart()
    job = plane.services.actions.submit(ANN, a_spec()).result().id
    with pytest.raises(Fenced):
        old.settle(plane.now)
    assert plane.phase(job) is Phase.PENDING
    assert plane.settle().phase(job) is Phase.RUNNING


def test_the_slow_tick_finds_what_nobody_told(plane: Plane) -> None:
    job = plane.submit()
    plane.engine._listeners.clear()
    plane.engine.finish(job)
    plane.settle()
    assert plane.phase(job) is Phase.RUNNING
    plane.after(plane.settings.safety_tick)
    assert plane.phase(job) is Phase.SUCCEEDED


@pytest.mark.parametrize("restarted", [False, True])
def test_a_clock_that_is_set_back_keeps_nobody_waiting(plane: Plane, restarted: bool) -> None:
    failed, done = plane.submit(retries=1), plane.submit()
    plane.engine.exit(f"{failed}.1.worker.0", 1)
    plane.settle()
    assert plane.phase(failed) is Phase.PENDING
    plane.engine._listeners.clear()
    plane.engine.finish(done)
    plane.engine.now -= 3600.0
    if restarted:
        plane.restart()
    plane.settle().after(plane.settings.safety_tick).after(FIRST_BACK_OFF)
    assert plane.job(failed).attempt == 2
    assert plane.phase(done) is Phase.SUCCEEDED


def test_a_cordoned_node_takes_no_new_work(plane: Plane) -> None:
    plane.do(lambda: plane.services.pool.cordon(ADMIN, NodeId("n1"), True))
    job = plane.submit()
    assert plane.phase(job) is Phase.PENDING
    plane.do(lambda: plane.services.pool.cordon(ADMIN, NodeId("n1"), False))
    assert plane.phase(job) is Phase.RUNNING


def test_grace_is_shorter_for_the_rest_of_a_failed_gang(plane: Plane) -> None:
    plane.engine.obedient = False
    job = plane.submit(gpus=2, checkpoint=Checkpoint(grace=100.0))
    plane.engine.exit(f"{job}.1.worker.0", 1)
    plane.settle()
    plane.after(plane.settings.failure_grace)
    assert plane.phase(job) is Phase.FAILED


class OnTheWall:
    """A control plane whose clock can be set."""

    def __init__(self) -> None:
        self.set_by = 0.0
        self.engine = SimulatedEngine(a_pool("1x4"))
        self.store = MemoryStore()
        self.store.put(USERS, ANN)
        self.server = Server(
            self.store,
            self.engine,
            settings=Settings(state=Path("/nonexistent")),
            clock=self.wall,
            steady=lambda: self.engine.now,
            entropy=iter(range(1, 100)).__next__,
        )
        self.server.open()

    def wall(self) -> float:
        return self.engine.now + self.set_by

    def after(self, seconds: float, set_by: float = 0.0) -> None:
        self.engine.advance(seconds)
        self.set_by += set_by
        self.server.loop.settle(self.wall())


@pytest.mark.parametrize("leap", [3600.0, -3600.0])
def test_a_time_limit_counts_time_and_not_what_the_clock_was_set_by(leap: float) -> None:
    pool = OnTheWall()
    job = pool.server.services.actions.submit(ANN, a_spec(max_runtime=100.0)).result().id
    pool.after(0.0)
    assert pool.store.job(job).phase is Phase.RUNNING
    pool.after(40.0, leap)
    pool.after(50.0)
    assert pool.store.job(job).phase is Phase.RUNNING
    late = pool.server.services.actions.submit(ANN, a_spec("late", max_runtime=100.0)).result().id
    pool.after(0.0)
    pool.after(20.0)
    found = pool.store.job(job)
    assert (found.phase, found.exit and found.exit.cause) == (Phase.FAILED, ExitCause.TIME)
    pool.after(70.0)
    assert pool.store.job(late).phase is Phase.RUNNING  # it began when the clock had been set
    pool.after(20.0)
    assert pool.store.job(late).phase is Phase.FAILED
    pool.server.close()
