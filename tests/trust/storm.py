"""Carrying deeds out: what each kind of deed does to a world. All chance is the deed's own."""

import random
from collections.abc import Callable
from dataclasses import replace

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.yaml_job_file import parse_job_file
from grus.controlplane.history import retention
from grus.model.activity_labels import Tag, WorkloadKind
from grus.model.errors import BadInput, Conflict, DoesNotFit, Fenced, NotFound, StoreFailed
from grus.model.identifiers import JobId, QueueName
from grus.model.jobs import Checkpoint, Idle, Job, JobType, Spec
from grus.model.nodes import Health
from grus.model.queues import Quota
from grus.model.resources import GPU, Range
from grus.model.sweep_search import Axis, Budget, Rule, Stopping, Sweep
from tests.controlplane.plane import ADMIN, ANN, a_spec
from tests.scheduler.builders import a_pool, a_queue, a_role
from tests.trust.deeds import Deed
from tests.trust.machines import Moods
from tests.trust.violations import Broken
from tests.trust.world import ControlPlane, World

LOOKS = 2 * 5.0
"""Seconds of two looks at the pool."""
QUEUES = (
    a_queue("a", quota=2),
    a_queue("b", quota=3, reserved=1, limit=6),
    a_queue("c", quota=2),
    a_queue("c1", parent="c", quota=1),
    a_queue("c2", parent="c", quota=1, limit=3),
)
LEAVES = ("a", "b", "c1", "c2", "default")
LR = Axis(name="lr", low=1e-4, high=1.0, log=True)
STAGES = """
resources: {gpu: 1}
stages:
  first-NUMBER: {run: x}
  second-NUMBER: {run: x, after: [first-NUMBER], resources: {gpu: 1..2}}
  third-NUMBER: {run: x, after: [first-NUMBER, second-NUMBER]}
"""
REFUSALS = (BadInput, Conflict, DoesNotFit, NotFound, StoreFailed, Fenced)
"""What people are told when it cannot be done: nothing was promised to them."""


class Storm:
    """Over one world."""

    def __init__(self, keep: bool = False) -> None:
        self.world = World(a_pool("2x4"), QUEUES, keep)
        self.asked: dict[str, Spec] = {}
        """By the key under which it was submitted; asked again by whoever got no answer."""
        self.graphs: dict[str, list[JobIn]] = {}
        self._deeds: dict[str, Callable[[Deed, random.Random], None]] = {
            "submit": self._submit,
            "submit again": self._submit_again,
            "stages": self._stages,
            "wish": self._wish,
            "queue": self._queue,
            "cordon": self._cordon,
            "worker ends": self._worker_ends,
            "crash": self._crash,
            "two servers": self._two_servers,
            "weather": self._weather,
            "news again": self._news_again,
            "clock": self._clock,
            "node": self._node,
            "gpu": self._gpu,
            "workers hang": self._workers_hang,
            "disk full": self._disk_full,
            "slow disk": self._slow_disk,
            "answers lost": self._answers_lost,
            "engine trouble": self._engine_trouble,
            "tags": self._tags,
            "retention": self._retention,
        }

    def do(self, deed: Deed) -> None:
        """Let time pass, then do it."""
        world = self.world
        world.advance(deed.after)
        self._deeds[deed.kind](deed, random.Random(deed.chance))
        world.serve()

    def _said(self, deed: Deed, text: str) -> None:
        self.world.note("deed", f"deed {deed.number}: {text}")

    # -------------------------------------------------------------------------------------- people

    def ask(self, call: Callable[[ControlPlane], object]) -> object | None:
        """Somebody asks the control plane; None if there is none, or it refuses, or dies of it."""
        world = self.world
        plane = world.plane
        if plane is None:
            return None
        with world.acting(plane):
            try:
                return call(plane)
            except TimeoutError as error:
                if not plane.fenced:
                    raise Broken("L1", "somebody asks, and is never answered") from error
                return None  # it died meanwhile, of something else that it did
            except REFUSALS as error:
                if isinstance(error, Fenced) and world.plane is plane:
                    raise Broken(
                        "S6", f"epoch {plane.epoch} is the newest and was refused: {error}"
                    ) from error
        return None

    def submit(self, key: str) -> None:
        """Submit what belongs to the key, for the first time or again."""
        if key in self.graphs:
            jobs = self.graphs[key]
            self.world.promises.submits(str(job.name) for job in jobs)
            found = self.ask(lambda plane: plane.services.workflows.submit(ANN, jobs, key=key))
        else:
            spec = self.asked[key]
            found = self.ask(lambda plane: [plane.services.actions.submit(ANN, spec, key=key).result()])
        if isinstance(found, list):
            for job in found:
                self.world.promises.acknowledged(job)

    def _submit(self, deed: Deed, chance: random.Random) -> None:
        spec = self._a_spec(deed, chance)
        key = f"key-{deed.number}"
        self._said(deed, f"somebody submits {spec.name} to {spec.queue}: {spec.type.value}, {_size(spec)}")
        self.asked[key] = spec
        self.submit(key)

    def _a_spec(self, deed: Deed, chance: random.Random) -> Spec:
        queue = chance.choice(LEAVES)
        gpus: object = chance.choice([1, 1, 2, 4, "1..4", "2..3", "1..8", 0.5, 0.25, "6GB"])
        words = {"queue": queue, "gpus": gpus, "retries": chance.choice([0, 1, 3])}
        kind, name = chance.random(), "job"
        if kind < 0.08:
            words["roles"] = (a_role("launcher", 1, 0), a_role("worker", "1..3", 1))
        elif kind < 0.14:
            words["roles"] = (a_role("server", 1, 1), a_role("worker", 2, 1))
        elif kind < 0.24 and gpus in (1, 2, 4):
            words["one_node"] = True
        elif kind < 0.34:
            words["gpus"], name = chance.choice(["1..4", "2..4"]), "team"
        elif kind < 0.38:
            name = "poison"
        elif kind < 0.46:
            words["type"], words["gpus"] = "dev", chance.choice([1, 0.5])
        elif kind < 0.52:
            words["type"], words["gpus"] = "serve", chance.choice([1, "1..2", 0.5])
        elif kind < 0.58 and gpus == 1:
            words["shares"] = True
        elif kind < 0.64:
            return self._a_sweep(deed, queue, chance)
        if chance.random() < 0.15:
            words["setup"] = ("true",)
        if chance.random() < 0.1:
            words["max_runtime"] = chance.choice([20.0, 60.0])
        if chance.random() < 0.15 and (known := list(self.world.disk.every_job)):
            words["after"] = [known[int(chance.random() * len(known))]]
        if chance.random() < 0.1:
            words["idle"] = Idle(seconds=20.0, action=chance.choice(["pause", "notify"]))
        if chance.random() < 0.3:
            words["checkpoint"] = Checkpoint(path="/ckpt", grace=chance.choice([0.0, 2.0, 10.0, 30.0]))
        return a_spec(f"{name}-{deed.number}", **words)

    def _a_sweep(self, deed: Deed, queue: str, chance: random.Random) -> Spec:
        rule = chance.choice([Rule.NONE, Rule.MEDIAN, Rule.ASHA])
        search = Sweep(
            axes=(LR,),
            metric="loss",
            sampler="random",
            stopping=Stopping(rule=rule, first=1.0, most=9.0),
            budget=Budget(trials=chance.choice([2, 4])),
            parallel=chance.choice([None, 2]),
        )
        made = a_spec(f"tune-{deed.number}", queue=queue, gpus=chance.choice([1, 0.5, 2]))
        return replace(made, type=JobType.SWEEP, sweep=search)

    def _submit_again(self, deed: Deed, chance: random.Random) -> None:
        if keys := [*self.asked, *self.graphs]:
            key = chance.choice(keys)
            self._said(deed, f"somebody submits {key} again")
            self.submit(key)

    def _stages(self, deed: Deed, chance: random.Random) -> None:
        text = STAGES.replace("NUMBER", str(deed.number)) + f"queue: {chance.choice(LEAVES)}\n"
        key = f"key-{deed.number}"
        self._said(deed, f"somebody submits three stages under {key}")
        self.graphs[key] = parse_job_file(text, folder="/nowhere")
        self.submit(key)

    def _wish(self, deed: Deed, chance: random.Random) -> None:
        open_ = self.world.open_jobs()
        wish = chance.choice(["pause", "pause", "resume", "resume", "resume", "stop", "scale", "scale"])
        place, low, high = chance.random(), chance.randint(1, 3), chance.randint(0, 2)
        if not open_:
            return
        job = open_[int(place * len(open_))]
        self._said(deed, f"somebody asks to {wish} {job.id}")
        if wish == "scale":
            size = None if high == 0 else Range(low, low + high)
            self.ask(lambda plane: plane.services.actions.scale(ANN, job.id, size))
        else:
            self.wish(wish, job.id)

    def wish(self, wish: str, job: JobId) -> None:
        self.ask(lambda plane: getattr(plane.services.actions, wish)(ANN, job))

    def _queue(self, deed: Deed, chance: random.Random) -> None:
        name = chance.choice(["a", "b", "c2"])
        quota, reserved, limit = chance.randint(0, 2), chance.randint(0, 1), chance.choice([None, 3, 4])
        queue = a_queue(name, quota=quota, reserved=min(quota, reserved), limit=limit)
        if name == "c2":
            queue = replace(queue, parent=QueueName("c"), quota=Quota.of(min(quota, 1)), reserved=0)
        self._said(deed, f"queue {name} is given quota {quota}, reserved {reserved}, limit {limit}")
        self.ask(lambda plane: plane.services.queues.put(ADMIN, queue))

    def _cordon(self, deed: Deed, chance: random.Random) -> None:
        node, closed = chance.choice(self.world.pool.whole).id, chance.random() < 0.5
        self._said(deed, f"node {node} is {'closed' if closed else 'opened'} by a person")
        self.ask(lambda plane: plane.services.pool.cordon(ADMIN, node, closed))

    # --------------------------------------------------------------------------------- control planes

    def _crash(self, deed: Deed, chance: random.Random) -> None:
        world = self.world
        world.fuse, world.kept = int(chance.expovariate(0.15)), chance.choice([0.0, 0.5, 1.0])
        world.down_for = chance.choice([0.0, 0.0, 2.0, 15.0, 70.0])
        self._said(deed, f"the control plane will die in {world.fuse} places, for {world.down_for:g} s")

    def _two_servers(self, deed: Deed, chance: random.Random) -> None:
        world = self.world
        world.halt, world.halted_for = int(chance.expovariate(0.15)), chance.choice([0.0, 1.0, 20.0, 90.0])
        self._said(
            deed, f"the control plane will stand still in {world.halt} places, for {world.halted_for:g} s"
        )

    # ---------------------------------------------------------------------------------------- faults

    def _worker_ends(self, deed: Deed, chance: random.Random) -> None:
        alive = self.world.pool.alive()
        place, how = (
            chance.random(),
            chance.choice(["done", "done", "code", "signal", "lost", "memory", "out"]),
        )
        engines = self.world.pool.engines
        if alive and engines:
            worker = alive[int(place * len(alive))]
            self._said(deed, f"worker {worker} ends: {how}")
            engines[-1].end(worker, how)

    def _weather(self, deed: Deed, chance: random.Random) -> None:
        moods = self.world.pool.moods
        moods.lost, moods.late, moods.twice = chance.choice(
            [(0.0, 0.0, 0.0), (0.3, 0.0, 0.0), (0.0, 0.5, 0.0), (0.0, 0.0, 0.5), (0.2, 0.3, 0.3)]
        )
        moods.failing = chance.choice([0.0, 0.2, 0.5])
        self._said(deed, f"of messages {moods.lost} are lost, {moods.late} late, {moods.twice} told twice")

    def _news_again(self, deed: Deed, _: random.Random) -> None:
        self._said(deed, "everything is told again")
        if self.world.pool.engines:
            self.world.pool.engines[-1].tell_again()

    def _clock(self, deed: Deed, chance: random.Random) -> None:
        jump = chance.choice([-3600.0, -300.0, -5.0, 5.0, 300.0, 3600.0])
        self._said(deed, f"the clock jumps by {jump:+g} s")
        self.world.skew += jump

    def _node(self, deed: Deed, chance: random.Random) -> None:
        pool = self.world.pool
        node, for_ = chance.choice(pool.whole).id, chance.choice([1.0, 12.0, 100.0])
        self._said(deed, f"node {node} is out of reach for {for_:g} s")
        pool.vanish(node)
        self.world.later(for_, lambda: pool.come_back(node))

    def _gpu(self, deed: Deed, chance: random.Random) -> None:
        pool = self.world.pool
        device = chance.choice([device.id for node in pool.whole for device in node.devices])
        health, for_ = chance.choice([Health.DIRTY, Health.QUARANTINED]), chance.choice([1.0, 12.0, 200.0])
        self._said(deed, f"device {device} is {health.value} for {for_:g} s")
        pool.health(device, health)
        self.world.later(for_, lambda: pool.health(device, Health.HEALTHY))

    def _workers_hang(self, deed: Deed, chance: random.Random) -> None:
        moods = self.world.pool.moods
        moods.deaf, moods.undead = chance.choice([(0.0, 0.0), (0.5, 0.0), (1.0, 0.0), (0.5, 0.3)])
        moods.stuck = chance.choice([0.0, 0.0, 0.2])
        self._said(deed, f"of workers {moods.deaf} are deaf, {moods.undead} undead, {moods.stuck} never run")

    def _disk_full(self, deed: Deed, chance: random.Random) -> None:
        world, for_ = self.world, chance.choice([0.5, 4.0, 40.0])
        self._said(deed, f"the disk is full for {for_:g} s")
        world.disk.mood.full = True
        world.later(for_, lambda: setattr(world.disk.mood, "full", False))

    def _answers_lost(self, deed: Deed, chance: random.Random) -> None:
        world, for_ = self.world, chance.choice([0.5, 4.0])
        self._said(deed, f"answers of the disk are lost for {for_:g} s")
        world.disk.mood.answers_lost = True
        world.later(for_, lambda: setattr(world.disk.mood, "answers_lost", False))

    def _slow_disk(self, deed: Deed, chance: random.Random) -> None:
        world, slow, for_ = self.world, chance.choice([0.1, 1.0, 12.0]), chance.choice([2.0, 30.0])
        self._said(deed, f"each commit takes {slow:g} s, for {for_:g} s")
        world.slow = slow
        world.later(for_, lambda: setattr(world, "slow", 0.0))

    def _engine_trouble(self, deed: Deed, chance: random.Random) -> None:
        moods, for_ = self.world.pool.moods, chance.choice([2.0, 20.0])
        moods.refusing = chance.choice([0.3, 1.0])
        self._said(deed, f"the engine refuses {moods.refusing} of all effects, for {for_:g} s")
        self.world.later(for_, lambda: setattr(moods, "refusing", 0.0))

    def _tags(self, deed: Deed, chance: random.Random) -> None:
        """A job has a rhythm, idles or hangs, or nobody vouches for anything any more."""
        world = self.world
        holding = [job for job in world.open_jobs() if job.seats]
        place, now, period = chance.random(), world.wall(), chance.choice([None, 8.0, 50.0, 200.0])
        tag = Tag(
            kind=chance.choice([WorkloadKind.TRAINING, WorkloadKind.TRAINING, WorkloadKind.IDLE]),
            at=now,
            expires=now + chance.choice([30.0, 600.0]),
            period=period,
            boundary=None if period is None else now - chance.random() * period,
            hung_since=now if chance.random() < 0.1 else None,
        )
        if not holding or chance.random() < 0.1:
            self._said(deed, "nothing is recognised any more")
            world.tags = {}
            return
        job = holding[int(place * len(holding))]
        self._said(deed, f"{job.id} is recognised as {tag.kind.value}")
        world.tags = {**world.tags, job.id: tag}

    def _retention(self, deed: Deed, chance: random.Random) -> None:
        """What has ended some time ago goes; who submits while that is looked up comes too late for it."""
        world, age = self.world, chance.choice([5.0, 60.0, 600.0])
        self._said(deed, f"what ended {age:g} s ago is removed")
        settings = replace(world.settings, job_retention=age)
        world.promises.needs_kept = frozenset(world.disk.every_job)
        self.ask(lambda plane: retention.prune(world.disk, plane.engine, settings, world.wall()))

    # ------------------------------------------------------------------------------------------ calm

    def clear(self) -> None:
        """Nothing is wrong any more."""
        world, pool = self.world, self.world.pool
        world.note("calm", "the storm is over")
        world.fuse = world.halt = None
        world.slow, world.tags = 0.0, {}
        world.disk.mood.full = world.disk.mood.answers_lost = False
        pool.moods = Moods()
        for node in pool.whole:
            pool.come_back(node.id)
            for device in node.devices:
                pool.health(device.id, Health.HEALTHY)
        if world.plane is None:
            world.begin()
        world.advance(LOOKS)  # until the control plane has seen that its nodes are back
        plane = world.plane
        if plane is None:
            raise Broken("L1", "nothing is wrong any more, and the control plane is gone")
        with world.acting(plane):
            for queue in QUEUES:
                # What was let in, or made larger, under other rules could never start again under these.
                plane.services.queues.put(ADMIN, replace(queue, limit=None, reserved=0))
            for node in pool.whole:
                plane.services.pool.cordon(ADMIN, node.id, False)


def _size(spec: Spec) -> str:
    roles = [f"{role.replicas} {role.name} of {_takes(role.replica)}" for role in spec.request.roles]
    return ", ".join(roles) + (f", after {', '.join(spec.after)}" if spec.after else "")


def _takes(replica: object) -> str:
    gpus, share, memory = (getattr(replica, name) for name in ("gpus", "share", "gpu_memory"))
    return f"{gpus} GPUs" if gpus else f"{share / GPU:g} GPU" if share else f"{memory / 1e9:g} GB"


def unfinished(jobs: list[Job]) -> str:
    return "; ".join(
        f"{job.id} {job.spec.name} {job.phase.value} {job.desired.value}: {job.reason}" for job in jobs
    )
