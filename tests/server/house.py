"""A whole server without a process: the real app, services and loop on a simulated engine.

People: `admin`; `ada`, member of the queue `vision`; `vic`, who may look at it; `eve`, member of another
queue; `bob`, whom nobody minds losing. Each one's token is the name with "-token" behind it.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from grus.controlplane.facade.services import Services
from grus.controlplane.fingerprint.profile_cache import Profiles
from grus.controlplane.monitoring.activity_tag_store import TagKeeper
from grus.controlplane.monitoring.profile_query import Insight
from grus.controlplane.monitoring.telemetry_collector import Watching, holding
from grus.controlplane.monitoring.worker_source import OwnSamples
from grus.controlplane.reconciler.loop import ControlLoop
from grus.controlplane.settings import Settings
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.interfaces import PROFILES, QUEUES, RESULTS, TOKENS, USERS, AccessRole, Token, User
from grus.model.profiles import JobProfile
from grus.model.queues import Queue, Quota
from grus.server.app import create_app
from grus.server.http.event_streams import Streams
from grus.store.memory import MemoryStore
from grus.telemetry.tsdb import Recorder
from grus.telemetry.virtual_gpus import parse_pool
from tests.fakes.engine import SimulatedEngine
from tests.store.builders import a_result

T = TypeVar("T")
Talk = Callable[[httpx2.AsyncClient], Coroutine[Any, Any, T]]
RUN = JobId("jrun")
"""A job of `ada` in `vision` that ended long ago."""
NOW = 1_700_000_000.0
"""In the past, so that a token that is valid for a day is valid."""
PEOPLE = {
    "admin": AccessRole.ADMIN,
    "ada": AccessRole.MEMBER,
    "vic": AccessRole.VIEWER,
    "eve": AccessRole.MEMBER,
    "bob": AccessRole.MEMBER,
}
JOB: dict[str, Any] = {
    "name": "topsecret",
    "run": "echo topsecret",
    "queue": "vision",
    "workdir": "/",
    "resources": {"gpu": "1..2"},
}

SWEEP: dict[str, Any] = {
    "metric": "loss",
    "space": {"lr": {"log": [1e-4, 1e-1]}},
    "sampler": "random",
    "budget": {"trials": 4},
}


def digest(name: str) -> str:
    return hashlib.sha256(f"{name}-token".encode()).hexdigest()


class House:
    """Drive it by hand: `ask` sends a request, `settle` lets the loop do all there is to do."""

    def __init__(self, state: Path, pool: str = "1x4x16GB", **options: Any) -> None:
        self.store = MemoryStore()
        for name, role in PEOPLE.items():
            self.store.put(USERS, User(name=UserName(name), role=role))
            self.store.put(
                TOKENS, Token(digest=digest(name), user=UserName(name), label="test", created_at=NOW)
            )
        for name, members in {"vision": ("ada", "vic"), "speech": ("eve",), "spare": ()}.items():
            quota = Quota.of(0 if name == "spare" else 2)
            people = tuple(UserName(member) for member in members)
            self.store.put(QUEUES, Queue(name=QueueName(name), quota=quota, members=people))
        self.engine = SimulatedEngine(parse_pool(pool), now=NOW)
        configured = frozenset({QueueName("speech")})
        settings = Settings(state=state, boxed=True, configured_queues=configured)
        clock = lambda: self.engine.now  # noqa: E731 - read at each call
        self.loop = ControlLoop(self.store, self.engine, settings=settings, clock=clock)
        self.loop.open()
        self.own = OwnSamples(
            self.engine, lambda: holding(self.loop), nodes=lambda: self.loop.picture.nodes, pretended=True
        )
        recorder = Recorder(state / "telemetry.db", clock=clock)
        self.watching = Watching(self.engine, self.loop, recorder, [self.own], clock=clock)
        self.store.put(PROFILES, JobProfile(fingerprint="f00d", name="topsecret", user=UserName("ada")))
        self.store.put(RESULTS, a_result(RUN, user="ada", queue="vision", name="topsecret"))
        # As if code were in containers: what is on this machine's disk is no business of these tests.
        self.insight = Insight(self.store, Profiles(self.store), TagKeeper(self.store), True, clock)
        self.services = Services(
            self.store,
            self.engine,
            self.loop,
            settings=settings,
            clock=clock,
            watching=self.watching,
            insight=self.insight,
        )
        self.streams = Streams()
        options.setdefault("streams", self.streams)
        self.app = create_app(self.services, pulse=self.loop.pulse, **options)
        self.settle()
        self._runner = asyncio.Runner()
        self._life = self.app.router.lifespan_context(self.app)
        self._runner.run(_begin(self._life))

    def settle(self) -> None:
        self.loop.settle(self.engine.now)

    def measure(self) -> None:
        """Sample what runs, count what is wanted, and look at it, as the server's threads do."""
        now = self.engine.now
        self.watching.take(self.own.sample(now))
        self.watching.count(now)
        self.watching.look(now)

    def close(self) -> None:
        self._runner.run(_end(self._life))
        self._runner.close()
        self.services.close()
        self.watching.recorder.close()
        self.loop.close()

    def submit(self, who: str = "ada", /, **changes: Any) -> JobId:
        response = self.ask("POST", "/v1/jobs", who, json={**JOB, **changes})
        assert response.status_code == 201, response.text
        self.settle()
        return JobId(response.json()["id"])

    def ask(self, method: str, path: str, who: str | None = "admin", **options: Any) -> httpx2.Response:
        async def asked(client: httpx2.AsyncClient) -> httpx2.Response:
            return await client.request(method, path, **options)

        return self.run(asked, who)

    def run(self, talk: Talk[T], who: str | None = "admin") -> T:
        """Let a client talk to the app."""

        async def whole() -> T:
            headers = {"Authorization": f"Bearer {who}-token"} if who else {}
            transport = httpx2.ASGITransport(self.app)
            base = "http://127.0.0.1:7600"
            async with httpx2.AsyncClient(transport=transport, base_url=base, headers=headers) as client:
                return await talk(client)

        return self._runner.run(whole())


async def _begin(life: AbstractAsyncContextManager[Any]) -> None:
    await life.__aenter__()


async def _end(life: AbstractAsyncContextManager[Any]) -> None:
    await life.__aexit__(None, None, None)


def events_of(text: str) -> list[tuple[str, Any, str]]:
    """The server-sent events in a text: kind, data, id."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line and not line.startswith(":"))
        if "data" in fields:
            found.append((fields.get("event", "message"), json.loads(fields["data"]), fields.get("id", "")))
    return found
