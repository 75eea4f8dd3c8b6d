"""A real server with two projects that are closed to each other, and somebody of every kind who asks it.

Whatever the first project calls its own carries a mark with the field's name in it, so that a mark in an
answer to anybody else is a leak, and says of what. Nothing that is submitted later ever runs: the only node
is cordoned when the first project's jobs have their GPUs.
"""

import hashlib
import os
import pwd
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from grus.model.artifacts import Artifact
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.interfaces import PROFILES, QUEUES, RESULTS, TOKENS, USERS, AccessRole, Event, Token, User
from grus.model.jobs import Exit, ExitCause, Job, JobType, PauseCause, Phase
from grus.model.profiles import JobProfile
from grus.model.queues import Queue, Quota
from grus.model.results import Metric, Result
from grus.model.sweep_search import Axis, Sweep
from grus.sdk.client import Client
from grus.sdk.state_paths import running
from grus.sdk.transport import Transport
from grus.server.runtime.first_start import ensure_admin
from grus.store.sqlite import SqliteStore
from tests.dashboard.sweeps import put_sweep, put_trial
from tests.live.pool import LivePool
from tests.server.process import eventually
from tests.store.builders import a_job
from tests.trust.asking import Door

MARK = re.compile(r"q7([a-z]+)7q")
ENDED, PAUSED, SWEEP = JobId("jended00001"), JobId("jpaused0001"), JobId("jsweep00001")
FINGERPRINT = "f00d" * 16
POOL = "1x4x4GB"


def mark(field: str) -> str:
    """What the first project writes into this field; a valid name, too."""
    return f"q7{field}7q"


def marks_in(text: str) -> set[str]:
    """Fields of the first project that can be read in a text."""
    return {found.lower() for found in MARK.findall(text.lower())}


OWNER, VIEWER, EXPIRED = UserName(mark("member")), UserName(mark("viewer")), UserName(mark("former"))
EVE, IVY, BOB = UserName("eve"), UserName("ivy"), UserName("bob")
CLOSED, OTHER, SPARE = QueueName(mark("queue")), QueueName("others"), QueueName("spare")


@dataclass(frozen=True)
class Caller:
    """Somebody who asks."""

    name: str
    token: str
    """"" for none."""
    known: bool
    """Whether anything but what is public may answer at all."""
    inside: bool
    """Whether the first project's things are theirs to see."""


CALLERS = (
    Caller("none", "", known=False, inside=False),
    Caller("unknown", "grus_nobody", known=False, inside=False),
    Caller("expired", "grus_expired", known=False, inside=False),
    Caller("viewer of another project", "grus_ivy", known=True, inside=False),
    Caller("member of another project", "grus_eve", known=True, inside=False),
    Caller("viewer", "grus_viewer", known=True, inside=True),
    Caller("member", "grus_member", known=True, inside=True),
    Caller("admin", "grus_admin", known=True, inside=True),
)
"""Those who see least come first: what others do later is no news to them."""
PEOPLE = {
    OWNER: (AccessRole.MEMBER, "grus_member"),
    VIEWER: (AccessRole.VIEWER, "grus_viewer"),
    EXPIRED: (AccessRole.ADMIN, "grus_expired"),
    EVE: (AccessRole.MEMBER, "grus_eve"),
    IVY: (AccessRole.VIEWER, "grus_ivy"),
    BOB: (AccessRole.MEMBER, "grus_bob"),
    UserName("root"): (AccessRole.ADMIN, "grus_admin"),
}


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class Projects(LivePool):
    """The server. What there is to ask for is in `known`."""

    patience = 180.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, POOL)
        (self.home / "state").mkdir(parents=True)
        store = SqliteStore(self.home / "state" / "grus.db")
        ensure_admin(store, self.home / "token", time.time())
        _put_people(store)
        _put_past(store)
        store.close()
        self.live: list[str] = []

    def client_of(self, token: str) -> Client:
        return Client(transport=Transport(None, token, timeout=60.0, patience=5.0, env=self.env))

    def settle_in(self) -> None:
        """The first project works for a moment; then no job starts any more."""
        with self.client_of("grus_member") as owner:
            left = owner.submit(_a_maker(self.home))
            assert left.wait(300).phase == "succeeded", left.events()
            runs = owner.submit(_a_speaker(self.home))
            eventually(lambda: bool(owner.job(runs.id).progress), "it has reported")
            self.grus.cordon(self.grus.nodes()[0].id)
            waits = owner.submit({**_a_speaker(self.home), "name": mark("waiting")})
        self.live = [left.id, runs.id, waits.id]
        with self.client_of("grus_eve") as eve:
            eve.submit({"name": "mine", "run": "true", "queue": OTHER, "workdir": "/"})

    @property
    def address(self) -> str:
        found = running(self.places)
        assert found is not None
        return found.address

    def sessions_door(self, token: str) -> Door:
        """The second app, on the port beside: development sessions, each under a name of its own."""
        host, port = urlsplit(self.address).hostname, (urlsplit(self.address).port or 0) + 1
        door = Door(f"http://{host}:{port}", token, {"Host": f"{self.live[1]}.localhost:{port}"})
        assert "development sessions" in door.ask("GET", "/").body
        return door

    @property
    def known(self) -> dict[str, list[str]]:
        """By parameter: what there is in the first project to ask for by name."""
        jobs = [*self.live, ENDED, PAUSED, SWEEP, f"{SWEEP}t0"]
        return {
            "id": jobs,
            "other": jobs,
            "job": jobs,
            "after": jobs,
            "fingerprint": [FINGERPRINT],
            "digest": [digest("grus_bob"), digest("grus_member")],
            "queue": [CLOSED],
            "name": [CLOSED, OWNER, mark("artefact"), *self.live],
        }


@contextmanager
def two_projects(folder: Path) -> Iterator[Projects]:
    """The server for as long as it is asked."""
    with Projects(folder) as pool:
        pool.settle_in()
        yield pool


def _put_people(store: SqliteStore) -> None:
    myself = pwd.getpwuid(os.geteuid()).pw_name  # a server of root's wants to know whom jobs run as
    for name, (role, secret) in PEOPLE.items():
        store.put(USERS, User(name=name, role=role, unix_user=myself)).result()
        ends = 1.0 if name == EXPIRED else None
        label = mark("label") if name not in (EVE, IVY) else "mine"
        token = Token(digest=digest(secret), user=name, label=label, created_at=0.0, expires_at=ends)
        store.put(TOKENS, token).result()
    closed = Queue(name=CLOSED, quota=Quota.of(2), members=(OWNER, VIEWER, EXPIRED))
    for queue in (closed, Queue(name=OTHER, quota=Quota.of(1), members=(EVE, IVY)), Queue(name=SPARE)):
        store.put(QUEUES, queue).result()


def _put_past(store: SqliteStore) -> None:
    """What cannot be made in a moment: jobs that ended, a search, what was kept of them."""
    for job in _jobs():
        event = Event(at=job.submitted_at, kind="submitted", text=mark("event"), job=job.id)
        store.create(job, event).result()
    axis = Axis(name=mark("axis"), choices=(mark("choice"), "other"))
    search = Sweep(axes=(axis,), metric=mark("metric"))
    sweep = put_sweep(store, SWEEP, search, name=mark("sweep"), queue=CLOSED, user=OWNER, phase=Phase.PAUSED)
    put_trial(store, sweep, 0, ((axis.name, mark("choice")),), [1.0])
    store.put(RESULTS, _result()).result()
    profile = JobProfile(
        fingerprint=FINGERPRINT,
        name=mark("profile"),
        user=OWNER,
        command=mark("command"),
        image=mark("image"),
    )
    store.put(PROFILES, profile).result()


def _jobs() -> list[Job]:
    now = time.time()
    base = a_job("jbase", name=mark("name"), queue=CLOSED, user=OWNER, submitted_at=now - 600)
    spec = replace(
        base.spec,
        run=("sh", "-c", f"echo {mark('command')}"),
        env=(("NOTE", mark("env")),),
        setup=(f"echo {mark('setup')}",),
        data=(mark("data"),),
        workdir=f"/{mark('workdir')}",
        params=((mark("param"), mark("value")),),
    )
    base = replace(base, spec=spec, reason=mark("reason"), first_started_at=now - 500, attempt=1)
    ended = replace(
        base,
        id=ENDED,
        phase=Phase.FAILED,
        started_at=now - 500,
        ended_at=now - 300,
        exit=Exit(ExitCause.CODE, 1, mark("exit")),
        progress=((mark("figure"), 1.0), ("step", 5.0)),
    )
    return [ended, replace(base, id=PAUSED, phase=Phase.PAUSED, paused_by=PauseCause.PERSON)]


def _result() -> Result:
    now = time.time()
    return Result(
        job=ENDED,
        name=mark("run"),
        user=OWNER,
        queue=CLOSED,
        type=JobType.TRAIN,
        phase=Phase.FAILED,
        submitted_at=now - 600,
        started_at=now - 500,
        ended_at=now - 300,
        reason=mark("reason"),
        command=("/bin/sh", "-c", mark("command")),
        params=((mark("param"), mark("value")),),
        metrics=(Metric(mark("metric"), 1.0, 1.0, 2.0),),
        outputs=(Artifact(mark("artefact"), "d" * 64, 1),),
        fingerprint=FINGERPRINT,
    )


def _a_maker(home: Path) -> dict[str, object]:
    """A job that leaves something behind."""
    out = f"GRUS_OUTPUT_{mark('artefact').upper()}"
    return {
        "name": mark("maker"),
        "run": f'mkdir -p "${out}" && echo {mark("content")} > "${out}/{mark("file")}"',
        "queue": CLOSED,
        "outputs": [mark("artefact")],
        "workdir": str(home),
        "resources": {"gpu": 1},
    }


def _a_speaker(home: Path) -> dict[str, object]:
    """A job that writes a log, reports, and stays."""
    says = (
        f"import grus, sys, time; print('{mark('log')}', flush=True); grus.report(step=1, {mark('figure')}=2)"
    )
    return {
        "name": mark("speaker"),
        "run": [sys.executable, "-c", f"{says}; time.sleep(900)"],
        "queue": CLOSED,
        "env": {"NOTE": mark("env")},
        "params": {mark("param"): mark("value")},
        "workdir": str(home),
        "resources": {"gpu": 1},
    }
