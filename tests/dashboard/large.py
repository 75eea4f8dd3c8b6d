"""A large pool, served: 1,000 GPUs and 5,000 jobs in a real SQLite store, with the real loop and services.

Only the machines are pretended: the engine of `tests.fakes` says that workers run, and a source makes up what
GPUs measure, the same for the same seed. `built` makes it, `served` puts it behind HTTP on a loopback port.
"""

import hashlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from grus.controlplane.facade.services import Services
from grus.controlplane.fingerprint.profile_cache import Profiles
from grus.controlplane.monitoring.activity_tag_store import TagKeeper
from grus.controlplane.monitoring.profile_query import Insight
from grus.controlplane.monitoring.telemetry_collector import Watching, holding
from grus.controlplane.reconciler.loop import ControlLoop
from grus.controlplane.settings import Settings
from grus.dashboard.mounting import mount as dashboard
from grus.model.activity_labels import Tag, WorkloadKind
from grus.model.identifiers import JobId, UserName, WorkerId
from grus.model.interfaces import QUEUES, TOKENS, USERS, AccessRole, Event, Token, User
from grus.model.jobs import Exit, ExitCause, Job, JobType, Phase
from grus.model.nodes import Health, Node
from grus.model.queues import Queue
from grus.server.app import create_app
from grus.server.http import listener
from grus.store.sqlite import SqliteStore
from grus.telemetry.samples import Batch, Measure, Sample, Subject
from grus.telemetry.telemetry_analyzer import JobFacts
from grus.telemetry.tsdb import Recorder
from grus.telemetry.virtual_gpus import parse_pool
from tests.fakes.engine import SimulatedEngine
from tests.scheduler.builders import a_job, a_queue

PEOPLE = ("ada", "ben", "cleo", "dan", "eve", "finn", "gus", "hana")
NAMES = ("resnet50", "bert-large", "gan", "speech", "segment", "rl-agent", "llm-tune", "detect")
ROLES = {"admin": AccessRole.ADMIN, "ada": AccessRole.MEMBER, "vic": AccessRole.VIEWER}
"""Who can sign in; each one's token is the name with "-token" behind it."""
DAY = 86400.0


def pool_of(gpus: int) -> tuple[Node, ...]:
    """Nodes of eight GPUs each, of three types; a few of them not well."""
    nodes = max(1, gpus // 8)
    fast, middle = nodes // 5, nodes // 2
    shape = [(fast, "80GB:H100"), (middle, "40GB:A100"), (nodes - fast - middle, "16GB:V100")]
    pool = parse_pool("+".join(f"{count}x8x{kind}" for count, kind in shape if count))
    return tuple(_with_troubles(node, number) for number, node in enumerate(pool))


def _with_troubles(node: Node, number: int) -> Node:
    changes: dict[int, dict[str, object]] = {}
    if number % 25 == 7:
        changes[3] = {"health": Health.QUARANTINED}
    if number % 40 == 11:
        changes[5] = {"outside": "pid 4711 python, user 1000"}
    if number % 50 == 3:
        changes[6] = {"health": Health.DIRTY}
    devices = tuple(
        replace(device, **changes.get(place, {}))  # type: ignore[arg-type]  # keywords of many types
        for place, device in enumerate(node.devices)
    )
    return replace(node, devices=devices, cordoned=number % 60 == 19)


def queues_of(gpus: int) -> list[Queue]:
    """A tree of teams: two departments and one that nobody reserved anything for."""
    return [
        a_queue("research", quota=gpus // 2),
        a_queue("vision", parent="research", quota=gpus // 4, reserved=gpus // 20),
        a_queue("speech", parent="research", quota=gpus // 5, weight=2),
        a_queue("product", quota=gpus // 4, limit=gpus // 2),
        a_queue("serving", parent="product", quota=gpus // 8, reserved=gpus // 16),
        a_queue("tuning", parent="product", quota=gpus // 10),
    ]


LEAVES = ("vision", "speech", "serving", "tuning", "default")


def jobs_of(gpus: int, count: int, now: float, rng: random.Random) -> Iterator[Job]:
    """So many jobs of all kinds: most have ended, enough live to fill the pool, and more wait."""
    live = min(count, gpus + gpus // 2)
    for number in range(count - live):
        yield _ended(_a_job(number, gpus, now - rng.uniform(DAY / 2, 14 * DAY), rng), rng)
    for number in range(count - live, count):
        yield _a_job(number, gpus, now - rng.uniform(60, DAY / 2), rng)


def _a_job(number: int, gpus: int, at: float, rng: random.Random) -> Job:
    sizes: Sequence[int | float | str] = (1, 1, 1, 2, 4, 0.5, 0.25, "1..4") if gpus >= 8 else (1, 0.5)
    dev = rng.random() < 0.15
    job = a_job(
        f"{rng.choice(NAMES)}-{number}",
        queue=rng.choice(LEAVES),
        gpus=rng.choice((1, 0.5)) if dev else rng.choice(sizes),
        type=JobType.DEV if dev else JobType.TRAIN,
        user=rng.choice(PEOPLE),
        submitted_at=at,
    )
    return replace(job, id=JobId(f"j-{number:06d}"), spec=replace(job.spec, workdir="/"))


def _ended(job: Job, rng: random.Random) -> Job:
    phase = rng.choices((Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED), (80, 12, 8))[0]
    began = job.submitted_at + rng.uniform(1, 3600)
    ended = began + rng.uniform(60, DAY / 3)
    exit_ = Exit(ExitCause.CODE, 1, "exit code 1") if phase is Phase.FAILED else Exit(ExitCause.DONE, 0)
    reason = {Phase.FAILED: "exit code 1", Phase.STOPPED: f"stopped by {job.user}"}.get(phase, "done")
    return replace(
        job,
        phase=phase,
        attempt=1,
        started_at=began,
        first_started_at=began,
        ended_at=ended,
        exit=exit_,
        reason=reason,
    )


class MadeUp:
    """A `SampleSource` and a recogniser in one: what GPUs measure and what runs there, made up."""

    shortest = 1.0

    def __init__(self, jobs: Callable[[], Sequence[Job]], nodes: Callable[[], Sequence[Node]]) -> None:
        self._jobs = jobs
        self._nodes = nodes
        self._rounds = 0

    def sample(self, now: float) -> Batch:
        """Every GPU once; each wanders around a level of its own."""
        self._rounds += 1
        held = {device for job in self._jobs() for seat in job.seats for device in seat.devices}
        found = []
        for node in self._nodes():
            for device in node.devices:
                level = _part(device.id) if device.id in held else 0.0
                use = min(1.0, level * (0.9 + 0.2 * _part(f"{device.id} {self._rounds}")))
                values = {Measure.UTILISATION: use, Measure.MEMORY: device.memory * level * 0.9}
                found.append(Sample(Subject(node.id, device.id), now, values))
        return Batch(tuple(found))

    def close(self) -> None:
        """Nothing to end."""

    def take(self, batch: Batch) -> None:
        """Recognised is what runs, not what it measures."""

    def hear(
        self,
        job: JobId,
        figures: Mapping[str, float],
        at: float,
        worker: WorkerId | None = None,
        saved_at: float | None = None,
    ) -> None:
        """As above."""

    def known(self, job: JobId, facts: JobFacts) -> None:
        """As above."""

    def forget(self, job: JobId) -> None:
        """As above."""

    def tags(self, now: float) -> Mapping[Subject, Tag]:
        return {
            Subject(seat.node, device): _tag(job, now)
            for job in self._jobs()
            for seat in job.seats
            for device in seat.devices
        }

    def jobs(self, now: float) -> Mapping[JobId, Tag]:
        return {job.id: _tag(job, now) for job in self._jobs()}


def _part(text: str) -> float:
    """A number from 0 to 1 that belongs to this text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest()) / 0xFFFFFFFF


def _tag(job: Job, now: float) -> Tag:
    kinds = (
        WorkloadKind.TRAINING,
        WorkloadKind.TRAINING,
        WorkloadKind.INFERENCE,
        WorkloadKind.RETRAINING,
        WorkloadKind.IDLE,
        WorkloadKind.UNKNOWN,
    )
    kind = WorkloadKind.DEV if job.spec.type is JobType.DEV else kinds[int(_part(job.id) * 5.99)]
    return Tag(kind=kind, at=job.started_at or now, expires=now + 600.0, confidence=0.9)


class World:
    """Build it once; `close` lets everything go. Times are real, so that pages tell sensible ones."""

    def __init__(self, folder: Path, *, gpus: int = 1000, jobs: int = 5000, seed: int = 1) -> None:
        self.store = SqliteStore(folder / "grus.db", lasting=False)
        self._fill(gpus, jobs, random.Random(seed))
        self.engine = SimulatedEngine(pool_of(gpus), now=time.time())
        self.engine.trap = lambda _: self._pass_time()
        settings = Settings(state=folder, environment=(("PATH", "/bin"),))
        # By hand until nothing more can start; then as after a restart, on a thread of its own.
        first = ControlLoop(self.store, self.engine, settings=settings, clock=time.time)
        first.open()
        first.settle(time.time())
        first.close()
        self.loop = ControlLoop(self.store, self.engine, settings=settings, clock=time.time)
        self.loop.start()
        self.source = MadeUp(lambda: holding(self.loop), lambda: self.loop.picture.nodes)
        self._recorder = Recorder(folder / "telemetry.db")
        self.watching = Watching(self.engine, self.loop, self._recorder, [self.source], profiler=self.source)
        keeper = TagKeeper(self.store)
        keeper.watch(self.watching, lambda: holding(self.loop))
        self.services = Services(
            self.store,
            self.engine,
            self.loop,
            settings=settings,
            watching=self.watching,
            insight=Insight(self.store, Profiles(self.store), keeper, True, time.time),
        )
        self.measure()
        while self.running() and not self.services.pool.tags():  # they are shown when they have lasted
            self.measure()

    def _fill(self, gpus: int, count: int, rng: random.Random) -> None:
        now = time.time()
        for name in {*PEOPLE, *ROLES}:
            role = ROLES.get(name, AccessRole.MEMBER)
            self.store.put(USERS, User(name=UserName(name), role=role)).result()
        for name in ROLES:
            digest = hashlib.sha256(f"{name}-token".encode()).hexdigest()
            token = Token(digest=digest, user=UserName(name), label="large", created_at=now)
            self.store.put(TOKENS, token).result()
        for queue in queues_of(gpus):
            self.store.put(QUEUES, queue).result()
        written = [self.store.create(job, _submitted(job)) for job in jobs_of(gpus, count, now, rng)]
        for future in written:
            future.result()

    def _pass_time(self) -> None:
        self.engine.now = time.time()

    def measure(self) -> None:
        """Sample what runs and look at it, as the server's threads do."""
        now = time.time()
        self.watching.take(self.source.sample(now))
        self.watching.count(now)
        self.watching.look(now)

    def running(self) -> list[Job]:
        """Jobs that run now, in the order of their ids."""
        return [job for job in holding(self.loop) if job.phase is Phase.RUNNING]

    def finish(self, job: JobId) -> None:
        """Its workers end by themselves; what waits may take their place."""
        self._pass_time()
        self.engine.finish(f"{job}.")

    def close(self) -> None:
        self.services.close()
        self.watching.close()
        self._recorder.close()
        self.loop.close()
        self.store.close()


def _submitted(job: Job) -> Event:
    return Event(at=job.submitted_at, kind="submitted", text=f"{job.user} submitted it", job=job.id)


@contextmanager
def served(world: World, mount: Callable[[FastAPI], None] | None = dashboard) -> Iterator[str]:
    """The world behind a real HTTP server on a loopback port, on a thread; its address."""
    app = create_app(world.services, pulse=world.loop.pulse, requests_per_second=1e6, mount=mount)
    sock = listener.bind("127.0.0.1", 0)
    sock.listen(listener.BACKLOG)
    config = uvicorn.Config(app, ws="none", log_config=None, access_log=False, timeout_graceful_shutdown=1)
    server = listener.HttpServer(config, app.state.streams)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, name="http", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        sock.close()


@contextmanager
def built(folder: Path, **options: int) -> Iterator[World]:
    world = World(folder, **options)
    try:
        yield world
    finally:
        world.close()
