"""What keeps the loop sound over time: timers, audit, retention, code copies, trouble with the store."""

import json
import logging
import threading
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grus.controlplane.facade.services import Services
from grus.controlplane.history.retention import prune
from grus.controlplane.reconciler.loop import ControlLoop
from grus.controlplane.reconciler.mailbox import Mailbox
from grus.controlplane.reconciler.timers import Timers
from grus.controlplane.settings import Settings
from grus.model.artifacts import Input, Output
from grus.model.audit import AuditRecord
from grus.model.errors import StoreFailed
from grus.model.identifiers import QueueName
from grus.model.interfaces import USERS, Event
from grus.model.jobs import Job, JobType, Phase
from grus.model.queues import Queue
from grus.model.sweep_search import Axis, Budget, Rule, Stopping, Sweep, Trial
from grus.scheduler.cycle import decide
from grus.scheduler.decisions import Decisions
from grus.scheduler.state.snapshot import Snapshot
from grus.store.memory import MemoryStore
from tests.controlplane.plane import ADMIN, ANN, Plane, a_spec
from tests.fakes.engine import SimulatedEngine
from tests.scheduler.builders import a_job, a_pool


def test_a_timer_tells_once_and_the_last_time_set_counts() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 5.0)
    timers.set("b", 3.0)
    timers.set("a", 4.0)
    assert timers.next() == 3.0
    assert timers.due(3.5) == ["b"]
    timers.set("a", 9.0)
    assert timers.due(5.0) == []
    assert timers.next() == 9.0
    timers.set("a", None)
    assert timers.next() is None


def test_replaced_timers_do_not_pile_up() -> None:
    timers: Timers[str] = Timers()
    for moment in range(10_000):
        timers.set("a", 1e9 + moment)
    assert len(timers._heap) < 200


class UnreliableStore(MemoryStore):
    """Fails writes of jobs as often as it is told."""

    failures = 0
    lost = 0
    """Writes that are done although they are reported as failed."""

    def replace(
        self,
        job: Job,
        event: Event | None,
        epoch: int | None = None,
        *,
        record: AuditRecord | None = None,
    ) -> "Future[Job]":
        if self.failures or self.lost:
            if self.lost:
                self.lost -= 1
                super().replace(job, event, epoch, record=record).result()
            else:
                self.failures -= 1
            failed: Future[Job] = Future()
            failed.set_exception(StoreFailed("the disk is full"))
            return failed
        return super().replace(job, event, epoch, record=record)


@pytest.mark.parametrize("kind", ["failures", "lost"])
def test_trouble_with_the_store_is_tried_again_and_is_no_verdict(kind: str) -> None:
    """Also when the write was done and only its confirmation was lost."""
    store = UnreliableStore()
    plane = Plane(store=store)
    setattr(store, kind, 3)
    job = plane.submit()
    for _ in range(4):
        plane.after(5)
    assert plane.phase(job) is Phase.RUNNING
    setattr(store, kind, 2)
    plane.engine.finish(job)
    plane.settle()
    for _ in range(4):
        plane.after(5)
    stored = plane.job(job)
    assert (stored.phase, stored.attempt, stored.failures) == (Phase.SUCCEEDED, 1, 0)
    assert plane.engine.workers() == ()
    plane.close()


def test_a_write_that_lost_the_race_is_decided_again() -> None:
    """A person stops a job in the moment in which the loop starts it."""
    plane = Plane()
    real = plane.loop._make_decisions

    def meddle(snapshot: Snapshot, now: float) -> Decisions:
        decisions = real(snapshot, now)
        for action in decisions.actions:
            if plane.job(action.job).phase is Phase.PENDING:
                plane.services.actions.stop(ANN, action.job)
        return decisions

    plane.loop._make_decisions = meddle
    job = plane.submit()
    assert plane.phase(job) is Phase.STOPPED
    assert plane.engine.workers_alive.started == []
    plane.close()


def test_the_audit_finds_and_repairs_what_was_never_told(caplog: pytest.LogCaptureFixture) -> None:
    plane = Plane()
    job = plane.submit()
    plane.loop._mailbox.take()
    stored = plane.job(job)
    plane.store.replace(replace(stored, reason="changed behind the loop's back"), None)
    plane.loop._mailbox.take()
    with caplog.at_level(logging.ERROR):
        plane.engine.advance(plane.settings.safety_tick)
        plane.loop.settle(plane.now)
        assert plane.loop.drift == 0  # it may still be on its way
        plane.engine.advance(1.0)
        plane.loop.settle(plane.now)
    assert plane.loop.drift == 1
    assert "drift" in caplog.text
    with plane.loop.snapshot() as snapshot:
        known = snapshot.job(job)
    assert known == plane.job(job)
    plane.close()


def test_the_audit_is_silent_in_a_sound_system() -> None:
    plane = Plane()
    for number in range(6):
        plane.submit(f"j{number}", gpus=0.5)
    for _ in range(5):
        plane.after(plane.settings.safety_tick)
    assert plane.loop.drift == 0
    plane.close()


def test_retention_leaves_what_a_job_on_record_waits_for() -> None:
    plane = Plane()
    first, second = plane.submit("first"), plane.submit("second")
    last = plane.submit("last", after=[first, second])
    plane.do(lambda: plane.engine.finish(first))
    plane.after(plane.settings.job_retention + 10)
    assert prune(plane.store, plane.engine, plane.settings, plane.now) > 0, "its old events go"
    plane.do(lambda: plane.engine.finish(second))
    assert plane.phase(last) is Phase.RUNNING
    plane.do(lambda: plane.engine.finish(last))
    prune(plane.store, plane.engine, plane.settings, plane.now)
    assert {job.id for job in plane.store.jobs()} == {second, last}
    plane.close()


def test_retention_leaves_what_a_job_on_record_is_given_while_it_may_start_again() -> None:
    plane = Plane()
    maker = plane.submit("maker", outputs=(Output("data"),))
    user = plane.submit("user", inputs=(Input("in", maker, "data"),), after=[maker])
    plane.engine.reports(maker, json.dumps({"artefacts": [["data", "ab" * 32, 7]]}))
    plane.do(lambda: plane.engine.finish(maker))
    plane.do(lambda: plane.services.actions.pause(ANN, user))
    plane.after(plane.settings.job_retention + 10)
    prune(plane.store, plane.engine, plane.settings, plane.now)
    plane.do(lambda: plane.services.actions.resume(ANN, user))
    (worker,) = plane.engine.alive(user)
    assert "ab" * 32 in " ".join(plane.engine.workers_alive.known[worker].spec.argv)
    plane.close()


def test_retention_leaves_the_trials_of_a_sweep_that_goes_on() -> None:
    plane = Plane()
    search = Sweep(
        axes=(Axis(name="lr", low=1e-4, high=1.0),),
        metric="loss",
        sampler="random",
        stopping=Stopping(rule=Rule.NONE),
        budget=Budget(trials=2),
        parallel=1,
    )
    spec = replace(a_spec("tune"), type=JobType.SWEEP, sweep=search)
    sweep = plane.services.actions.submit(ANN, spec).result().id
    plane.search()
    _ends_with_a_figure(plane)
    plane.after(plane.settings.job_retention + 10)
    prune(plane.store, plane.engine, plane.settings, plane.now)
    plane.restart()
    _ends_with_a_figure(plane)
    assert plane.phase(sweep) is Phase.SUCCEEDED
    assert len(plane.engine.workers_alive.started) == 2, "the first trial was counted"
    plane.close()


def test_retention_leaves_a_sweep_that_has_ended_before_its_trials() -> None:
    sweep, trial = a_job("tune"), a_job("trial")
    over = replace(sweep, phase=Phase.STOPPED, submitted_at=0.0, ended_at=1.0)
    part = Trial(sweep=sweep.id, number=0)
    store = MemoryStore()
    for job in (over, replace(trial, spec=replace(trial.spec, trial=part))):
        store.create(job, Event(at=0.0, kind="submitted", text="", job=job.id)).result()
    plane = Plane()
    prune(store, plane.engine, plane.settings, 2 * plane.settings.job_retention)
    assert {job.id for job in store.jobs()} == {sweep.id, trial.id}
    plane.close()


def _ends_with_a_figure(plane: Plane) -> None:
    """The trial that runs."""
    line = {"at": plane.now, "figures": {"step": 1, "loss": 1.0}}
    plane.engine.reports("", json.dumps(line))
    plane.engine.finish("")
    plane.search()


def test_retention_does_not_read_through_all_that_has_ended_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = Plane(state=tmp_path / "state")
    for name in ("one", "two", "three"):
        plane.engine.finish(plane.submit(name, gpus=1))
        plane.settle()
    read: list[Job] = []
    jobs = plane.store.jobs

    def noted(**how: Any) -> list[Job]:
        found = jobs(**how)
        read.extend(found)
        return found

    monkeypatch.setattr(plane.store, "jobs", noted)
    prune(plane.store, plane.engine, plane.settings, plane.now)
    assert read == []
    plane.after(plane.settings.job_retention + 10)
    assert prune(plane.store, plane.engine, plane.settings, plane.now) > 0
    assert len({job.id for job in read}) == 3
    plane.close()


# ---------------------------------------------------------------------------------------- the thread


def test_the_thread_serves_jobs_and_goes_on_after_a_failed_pass(tmp_path: Path) -> None:
    """A fault in a decision stops neither the thread nor what comes after it."""
    faults = [RuntimeError("a bug in a decision")]

    def sometimes(snapshot: Snapshot, now: float) -> Decisions:
        if faults:
            raise faults.pop()
        return decide(snapshot, now)

    store, engine = MemoryStore(), SimulatedEngine(a_pool("1x4"))
    store.put(USERS, ANN)
    settings = Settings(state=tmp_path)
    running = threading.Event()
    store.subscribe(lambda written: running.set() if written[0][0].phase is Phase.RUNNING else None)
    loop = ControlLoop(store, engine, settings=settings, decide=sometimes)
    services = Services(store, engine, loop, settings=settings)
    loop.start()
    services.actions.submit(ANN, a_spec()).result()
    assert running.wait(300)
    assert loop.pulse.trouble == "RuntimeError: a bug in a decision"
    loop.close()
    services.close()


def test_a_fenced_thread_stops_and_says_so(tmp_path: Path) -> None:
    store, engine = MemoryStore(), SimulatedEngine(a_pool("1x4"))
    store.put(USERS, ANN)
    settings = Settings(state=tmp_path)
    told = threading.Event()
    loop = ControlLoop(store, engine, settings=settings, on_stopped=lambda _: told.set())
    services = Services(store, engine, loop, settings=settings)
    loop.start()
    store.take_over()
    services.actions.submit(ANN, a_spec()).result()
    assert told.wait(300)
    assert loop.pulse.stopped
    assert engine.workers() == ()
    loop.close()
    loop.close()
    services.close()


def test_what_an_administrator_changed_counts_when_the_call_returns(tmp_path: Path) -> None:
    store, engine = MemoryStore(), SimulatedEngine(a_pool("1x4"))
    store.put(USERS, ANN)
    settings = Settings(state=tmp_path)
    loop = ControlLoop(store, engine, settings=settings)
    services = Services(store, engine, loop, settings=settings)
    loop.start()
    try:
        for number in range(20):
            queue = Queue(name=QueueName(f"q{number}"))
            services.queues.put(ADMIN, queue)
            services.actions.submit(ANN, a_spec(queue=queue.name)).result()
            node = services.pool.nodes(ADMIN)[0].id
            services.pool.cordon(ADMIN, node, number % 2 == 0)
            assert services.pool.nodes(ADMIN)[0].cordoned == (number % 2 == 0)
    finally:
        loop.close()
        services.close()


def test_nobody_waits_for_a_loop_that_is_closed() -> None:
    box = Mailbox()
    before = box.refresh()
    box.close()
    assert before.is_set()
    assert box.refresh().is_set()


def test_a_mailbox_wakes_its_reader_and_loses_nothing() -> None:
    box = Mailbox()
    box.wait(0.0)
    assert not box.waiting
    box.refresh()
    box.wait(60.0)
    assert box.take().refresh
    assert not box.waiting
