"""Whatever is done to both, the SQLite store and the in-memory reference answer the same."""

import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from grus.model.activity_labels import Tag, WorkloadKind
from grus.model.errors import GrusError
from grus.model.identifiers import JobId, NodeId, QueueName, UserName
from grus.model.interfaces import (
    CORDONS,
    PROFILES,
    QUEUES,
    REPORTS,
    RESULTS,
    TOKENS,
    USERS,
    Event,
    NewJob,
    PruneLimits,
    Store,
    Token,
    User,
)
from grus.model.jobs import TERMINAL, Job, Phase
from grus.model.nodes import Cordon
from grus.model.queues import Queue, Quota
from grus.model.results import Result
from grus.store.memory import MemoryStore
from grus.store.sqlite import SqliteStore
from tests.store.builders import a_full_profile, a_job, a_report, a_result, cordoned, result_by_key

IDS = st.sampled_from(["j0", "j1", "j2", "j3"]).map(JobId)
NAMES = st.sampled_from(["ada", "bob"])
TEAMS = st.sampled_from(["vision", "audio"])
KEYS = st.sampled_from([None, "k1", "k2"])
TIMES = st.sampled_from([0.1 + 0.2, 0.3, 1 / 3, 1.0, 2.0])
PHASES = st.sampled_from(Phase)

Write = Callable[[Store], "Future[Any]"]


@contextmanager
def held(store: SqliteStore) -> Iterator[None]:
    """Hold the writer meanwhile, so that all that is given goes into one commit."""
    release = threading.Event()
    store._writer.do(lambda _: release.wait(30))
    yield
    release.set()


def outcome(future: "Future[Any]") -> object:
    """The result, or the kind and the sentence of the refusal."""
    try:
        return future.result(timeout=300)
    except GrusError as error:
        return type(error), str(error)


class SqliteAgainstMemory(RuleBasedStateMachine):
    @initialize()
    def open(self) -> None:
        self.stack = ExitStack()
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        self.path = Path(folder) / "grus.db"
        self.memory, self.sqlite = MemoryStore(), self.opened()
        self.waiting: list[Write] = []
        self.heard: tuple[list[object], list[object]] = ([], [])
        self.listen()

    def opened(self) -> SqliteStore:
        return SqliteStore(self.path)

    def listen(self) -> None:
        self.memory.subscribe(self.heard[0].extend)
        self.sqlite.subscribe(self.heard[1].extend)

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            self.sqlite.close()
            self.stack.close()

    # ---------------------------------------------------------------- writes are gathered, then given at once

    @rule(id=IDS, user=NAMES, queue=TEAMS, key=KEYS, at=TIMES, name=NAMES, phase=PHASES)
    def create(
        self, id: JobId, user: str, queue: str, key: str | None, at: float, name: str, phase: Phase
    ) -> None:
        job = a_job(id, name=name, queue=queue, user=user, submitted_at=at, phase=phase)
        if phase in TERMINAL:
            job = replace(job, ended_at=at)
        self.waiting.append(lambda store: store.create(job, _event(job, at), key))

    @rule(
        id=IDS,
        phase=PHASES,
        ahead=st.integers(-1, 2),
        epoch=st.none() | st.integers(0, 3),
        told=st.booleans(),
    )
    def replace(self, id: JobId, phase: Phase, ahead: int, epoch: int | None, told: bool) -> None:
        present = {job.id: job for job in self.memory.jobs()}.get(id, a_job(id))
        job = replace(present, phase=phase, version=present.version + ahead, ended_at=0.3)
        event = _event(job, 1.0) if told else None
        self.waiting.append(lambda store: store.replace(job, event, epoch))

    @rule(id=IDS, queue=TEAMS, user=NAMES, at=TIMES)
    def replace_by_another(self, id: JobId, queue: str, user: str, at: float) -> None:
        version = {job.id: job.version for job in self.memory.jobs()}.get(id, 0)
        job = replace(a_job(id, queue=queue, user=user, submitted_at=at), version=version)
        self.waiting.append(lambda store: store.replace(job, None))

    @rule(name=TEAMS, quota=st.integers(0, 3), delete=st.booleans())
    def queue(self, name: str, quota: int, delete: bool) -> None:
        queue = Queue(name=QueueName(name), quota=Quota.of(quota))
        self.waiting.append(
            lambda store: store.delete(QUEUES, queue.name) if delete else store.put(QUEUES, queue)
        )

    @rule(name=NAMES, unix=NAMES, delete=st.booleans())
    def user(self, name: str, unix: str, delete: bool) -> None:
        user = User(name=UserName(name), unix_user=unix)
        self.waiting.append(
            lambda store: store.delete(USERS, user.name) if delete else store.put(USERS, user)
        )

    @rule(digest=st.sampled_from("ab"), name=NAMES, delete=st.booleans())
    def token(self, digest: str, name: str, delete: bool) -> None:
        token = Token(digest=digest, user=UserName(name), label="x", created_at=1.0)
        self.waiting.append(
            lambda store: store.delete(TOKENS, digest) if delete else store.put(TOKENS, token)
        )

    @rule(node=NAMES, cordoned=st.booleans())
    def cordon(self, node: str, cordoned: bool) -> None:
        name = NodeId(node)
        self.waiting.append(
            lambda store: store.put(CORDONS, Cordon(name)) if cordoned else store.delete(CORDONS, node)
        )

    @rule(name=NAMES, at=TIMES)
    def profile(self, name: str, at: float) -> None:
        profile = replace(a_full_profile(name), updated_at=at)
        self.waiting.append(lambda store: store.put(PROFILES, profile))

    @rule(id=IDS, numbers=st.lists(st.integers(0, 5), min_size=1))
    def report(self, id: JobId, numbers: list[int]) -> None:
        reports = [a_report(id, number) for number in numbers]
        self.waiting.append(lambda store: store.put(REPORTS, *reports))

    @rule(keys=st.lists(NAMES, min_size=1), at=TIMES, gone=st.booleans())
    def tags(self, keys: list[str], at: float, gone: bool) -> None:
        tag = None if gone else Tag(kind=WorkloadKind.IDLE, at=at, expires=at + 1 / 3)
        self.waiting.append(lambda store: store.put_tags(dict.fromkeys(keys, tag)))

    @rule(id=IDS, at=TIMES, user=NAMES, queue=TEAMS, key=st.sampled_from(["", "k1", "k2"]), phase=PHASES)
    def result(self, id: JobId, at: float, user: str, queue: str, key: str, phase: Phase) -> None:
        result = a_result(id, ended_at=at, user=user, queue=queue, name=user, key=key, phase=phase)
        self.waiting.append(lambda store: store.put(RESULTS, result))

    @rule(events=TIMES, jobs=TIMES, results=TIMES, keep=st.lists(IDS, max_size=2))
    def prune(self, events: float, jobs: float, results: float, keep: list[JobId]) -> None:
        self.waiting.append(
            lambda store: store.prune(
                PruneLimits(events_before=events, jobs_before=jobs, results_before=results, keep=keep)
            )
        )

    # ----------------------------------------------------------------------------------------- and compared

    @rule()
    def give(self) -> None:
        waiting, self.waiting = self.waiting, []
        expected = [write(self.memory) for write in waiting]
        with held(self.sqlite):
            given = [write(self.sqlite) for write in waiting]
        assert [outcome(future) for future in given] == [outcome(future) for future in expected]

    @rule()
    def take_over(self) -> None:
        assert self.sqlite.take_over() == self.memory.take_over()

    @rule()
    def reopen(self) -> None:
        self.sqlite.close()
        self.sqlite = self.opened()
        self.sqlite.subscribe(self.heard[1].extend)

    @rule(
        phases=st.none() | st.lists(PHASES, max_size=3),
        queue=st.none() | TEAMS,
        user=st.none() | NAMES,
        limit=st.none() | st.integers(0, 3),
        after=st.none() | st.tuples(TIMES, IDS),
    )
    def listings_agree(
        self,
        phases: list[Phase] | None,
        queue: str | None,
        user: str | None,
        limit: int | None,
        after: tuple[float, JobId] | None,
    ) -> None:
        def listed(store: Store) -> list[Job]:
            in_queue = QueueName(queue) if queue else None
            by = UserName(user) if user else None
            return store.jobs(phases=phases, queue=in_queue, user=by, limit=limit, after=after)

        assert listed(self.sqlite) == listed(self.memory)

    @rule(
        user=st.none() | NAMES,
        queue=st.none() | TEAMS,
        name=st.none() | NAMES,
        limit=st.none() | st.integers(0, 3),
        after=st.none() | st.tuples(TIMES, IDS),
    )
    def results_agree(
        self,
        user: str | None,
        queue: str | None,
        name: str | None,
        limit: int | None,
        after: tuple[float, JobId] | None,
    ) -> None:
        def listed(store: Store) -> list[Result]:
            in_queue = QueueName(queue) if queue else None
            by = UserName(user) if user else None
            return store.find(RESULTS, user=by, queue=in_queue, name=name, limit=limit, after=after)

        assert listed(self.sqlite) == listed(self.memory)

    @rule(after=st.integers(0, 10), job=st.none() | IDS, limit=st.integers(0, 5))
    def logs_agree(self, after: int, job: JobId | None, limit: int) -> None:
        assert self.sqlite.events(after=after, job=job, limit=limit) == self.memory.events(
            after=after, job=job, limit=limit
        )

    @invariant()
    def everything_agrees(self) -> None:
        if not hasattr(self, "stack"):
            return
        assert self.sqlite.jobs() == self.memory.jobs()
        assert self.sqlite.events() == self.memory.events()
        assert self.sqlite.count() == self.memory.count()
        assert self.sqlite.find(QUEUES) == self.memory.find(QUEUES)
        assert self.sqlite.find(USERS) == self.memory.find(USERS)
        assert self.sqlite.find(TOKENS) == self.memory.find(TOKENS)
        assert cordoned(self.sqlite) == cordoned(self.memory)
        assert self.sqlite.find(PROFILES) == self.memory.find(PROFILES)
        assert self.sqlite.tags() == self.memory.tags()
        assert self.sqlite.find(RESULTS) == self.memory.find(RESULTS)
        for user, key in product(("ada", "bob"), ("", "k1", "k2")):
            name = UserName(user)
            assert result_by_key(self.sqlite, name, key) == result_by_key(self.memory, name, key)
        unkept = [{job.id for job in store.without_result(99)} for store in (self.sqlite, self.memory)]
        assert unkept[0] == unkept[1]
        for id_ in ("j0", "j1", "j2", "j3"):
            assert self.sqlite.find(REPORTS, job=JobId(id_)) == self.memory.find(REPORTS, job=JobId(id_))
        assert self.heard[1] == self.heard[0]


def _event(job: Job, at: float) -> Event:
    return Event(at=at, kind="tick", text="It ticked.", job=job.id)


class SqliteWithSubmissions(SqliteAgainstMemory):
    """What a cluster's store cannot do: several jobs in one write."""

    @rule(ids=st.lists(IDS, max_size=3), keys=st.lists(KEYS, min_size=3, max_size=3), name=NAMES, at=TIMES)
    def create_all(self, ids: list[JobId], keys: list[str | None], name: str, at: float) -> None:
        jobs = [a_job(id_, name=name, submitted_at=at) for id_ in ids]
        new = [NewJob(job, _event(job, at), key) for job, key in zip(jobs, keys, strict=False)]
        self.waiting.append(lambda store: store.create_all(new))


TestSqliteAgainstMemory = SqliteWithSubmissions.TestCase
TestSqliteAgainstMemory.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
