"""A seeded storm over the whole control plane in virtual time, then a calm in which everything must finish.

In the storm jobs come, workers fail, are lost or finish, people change their minds, messages are lost and
repeated, graces run out, and control planes die; some jobs are seen to train, to idle or to hang. After every
step the invariants are checked by `Plane`.
"""

import random
from collections.abc import Callable

import pytest

from grus.model.activity_labels import Tag, WorkloadKind
from grus.model.errors import Conflict
from grus.model.jobs import TERMINAL, Idle, Phase
from grus.model.resources import Range
from tests.controlplane.plane import ANN, Plane
from tests.scheduler.builders import a_queue, a_role

STEPS = 120


class Storm:
    def __init__(self, seed: int, record: list[bytes] | None = None) -> None:
        self.chance = random.Random(seed)
        queues = a_queue("A", quota=2), a_queue("B", quota=3, reserved=1)
        self.plane = Plane(*queues, pool="2x4", record=record)
        self.deeds: list[Callable[[], object]] = [
            self.submit,
            self.submit,
            self.submit,
            self.a_worker_ends,
            self.a_worker_ends,
            self.somebody_asks,
            self.time_passes,
            self.moods_change,
            self.news_is_repeated,
            self.news_is_lost,
            self.plane.restart,
        ]

    def blow(self) -> None:
        for _ in range(STEPS):
            self.chance.choice(self.deeds)()
            if self.chance.random() < 0.2:
                self.somebody_is_recognised()
            if self.chance.random() < 0.8:
                self.plane.settle()

    def submit(self) -> None:
        queue = self.chance.choice(["A", "B", "default"])
        retries = self.chance.choice([0, 3])
        gpus: object = self.chance.choice([1, 2, 4, "1..4", "2..3", 0.5, "6GB"])
        extra: dict[str, object] = {"setup": ("true",)} if self.chance.random() < 0.2 else {}
        if self.chance.random() < 0.1:
            extra["roles"] = (a_role("launcher", 1, 0), a_role("worker", "1..3", 1))
        elif self.chance.random() < 0.3 and gpus in (1, 2):
            extra["one_node"] = True
        if self.chance.random() < 0.15 and (known := self.plane.store.jobs()):
            extra["after"] = [self.chance.choice(known).id]
        if self.chance.random() < 0.1:
            extra["max_runtime"] = 40.0
        if self.chance.random() < 0.2:
            extra["idle"] = Idle(seconds=20.0, action=self.chance.choice(["pause", "notify"]))
        self.plane.submit("job", ANN, queue=queue, gpus=gpus, retries=retries, **extra)

    def a_worker_ends(self) -> None:
        engine = self.plane.engine
        if alive := engine.alive():
            worker = self.chance.choice(alive)
            deed = self.chance.choice(["finish", "finish", "exit", "lose", "kill", "job"])
            if deed == "job":
                engine.finish(worker.partition(".")[0])
            elif deed == "exit":
                engine.exit(worker, 1)
            else:
                getattr(engine, deed)(worker)

    def somebody_asks(self) -> None:
        open_ = [job for job in self.plane.store.jobs() if not job.terminal]
        if not open_:
            return
        job = self.chance.choice(open_)
        services = self.plane.services
        wish = self.chance.choice(
            [
                services.actions.pause,
                services.actions.resume,
                services.actions.resume,
                services.actions.stop,
                None,
            ]
        )
        try:
            if wish is not None:
                wish(ANN, job.id)
            elif (role := job.spec.request.elastic) is not None:
                low = role.replicas.low
                services.actions.scale(
                    ANN, job.id, self.chance.choice([None, Range(low, low), role.replicas])
                )
        except Conflict:
            pass  # it is being stopped, or has a fixed size

    def time_passes(self) -> None:
        self.plane.engine.advance(self.chance.choice([0.5, 3.0, 61.0]))

    def moods_change(self) -> None:
        engine = self.plane.engine
        engine.obedient = self.chance.random() < 0.5
        engine.up_at_once = self.chance.random() < 0.7
        engine.cannot_start = {"worker.1"} if self.chance.random() < 0.1 else set()
        engine.up()

    def somebody_is_recognised(self) -> None:
        """A job has a rhythm, idles or hangs, or nobody vouches for anything any more."""
        holding = [job for job in self.plane.store.jobs() if job.seats]
        if not holding or self.chance.random() < 0.1:
            self.plane.tags = {}
            return
        now, period = self.plane.now, self.chance.choice([None, 8.0, 50.0, 200.0])
        tag = Tag(
            kind=self.chance.choice([WorkloadKind.TRAINING, WorkloadKind.TRAINING, WorkloadKind.IDLE]),
            at=now,
            expires=now + self.chance.choice([30.0, 600.0]),
            period=period,
            boundary=None if period is None else now - self.chance.random() * period,
            hung_since=now if self.chance.random() < 0.1 else None,
        )
        self.plane.tags = {**self.plane.tags, self.chance.choice(holding).id: tag}
        self.plane.engine.advance(6.0)  # the loop looks at its nodes

    def news_is_repeated(self) -> None:
        self.plane.engine.repeat("")

    def news_is_lost(self) -> None:
        engine = self.plane.engine
        listeners, engine._listeners = engine._listeners, []
        self.a_worker_ends()
        engine._listeners = listeners

    def calm(self) -> None:
        """No more faults: every job must come to an end, and nothing be left."""
        engine = self.plane.engine
        self.plane.tags = {}
        engine.obedient = engine.up_at_once = True
        engine.cannot_start = set()
        for _ in range(400):
            for job in self.plane.store.jobs(phases=[Phase.PAUSED, Phase.PAUSING]):
                if job.desired.value == "pause":
                    self.plane.services.actions.resume(ANN, job.id)
            engine.up()
            engine.finish("")
            self.plane.after(31.0)
            if all(job.terminal for job in self.plane.store.jobs()):
                return
        left = [(job.id, job.phase, job.reason) for job in self.plane.store.jobs() if not job.terminal]
        raise AssertionError(f"not ended: {left}")


@pytest.mark.parametrize("seed", range(15))
def test_after_any_storm_everything_ends_and_nothing_is_left(seed: int) -> None:
    storm = Storm(seed)
    storm.blow()
    storm.calm()
    plane = storm.plane
    assert {job.phase for job in plane.store.jobs()} <= TERMINAL
    assert plane.engine.workers() == ()
    started = plane.engine.workers_alive.started
    assert len(started) == len(set(started)), "a worker was started twice"
    for job in plane.store.jobs():
        assert job.failures <= job.spec.retries + 1
    plane.close()
