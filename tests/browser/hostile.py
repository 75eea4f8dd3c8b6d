"""A server's state in which everybody was malicious: markup and scripts in every field that people can fill.

Most names cannot be given like this through the API; they are written into the store, so that pages are safe
by themselves and not by what others refuse.
"""

import time
from dataclasses import replace
from pathlib import Path

from grus.model.artifacts import Artifact, Input, Output
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.interfaces import QUEUES, REPORTS, RESULTS, TOKENS, USERS, AccessRole, Event, Token, User
from grus.model.jobs import LONGEST_BACK_OFF, Exit, ExitCause, Job, JobType, PauseCause, Phase
from grus.model.metrics_history import Reported
from grus.model.queues import Queue, Quota
from grus.model.results import Metric, Result
from grus.model.sweep_search import Axis, Stopping, Sweep
from grus.server.runtime.first_start import ensure_admin
from grus.store.sqlite import SqliteStore
from tests.dashboard.sweeps import put_sweep, put_trial
from tests.store.builders import a_job

ENDED, PAUSED, WAITS = JobId("jended00001"), JobId("jpaused0001"), JobId("jwaits00001")
SWEEP = JobId("jsweep00001")


def evil(field: str) -> str:
    """Markup that would run in several places, and that names its field; no page may take it for anything."""
    return (
        f"{field}\"'><img src=x onerror=window.hacked='{field}'><script>window.hacked='{field}'</script>"
        "</script>{{7*7}}${7*7}&lt;blink&gt;"
    )


def put_into(home: Path) -> None:
    """Fills the store before its server starts."""
    (home / "state").mkdir(parents=True)
    store = SqliteStore(home / "state" / "grus.db")
    ensure_admin(store, home / "token", time.time())
    user, queue = UserName(evil("user")), QueueName(evil("queue"))
    store.put(USERS, User(name=user, role=AccessRole.MEMBER, unix_user=evil("unix"))).result()
    store.put(QUEUES, Queue(name=queue, quota=Quota.of(2), members=(user,), nodes=(evil("node"),))).result()
    token = Token(digest="e" * 64, user=user, label=evil("label"), created_at=time.time())
    store.put(TOKENS, token).result()
    for job in jobs(user, queue):
        event = Event(at=job.submitted_at, kind=evil("kind"), text=evil("event"), job=job.id)
        store.create(job, event).result()
    said = Reported(job=ENDED, number=0, attempt=1, at=time.time(), figures=((evil("figure"), 1.0),))
    store.put(REPORTS, said).result()
    put_search(store, user, queue)
    put_run(store, user, queue)
    store.close()


def put_search(store: SqliteStore, user: UserName, queue: QueueName) -> None:
    """A sweep that is paused, with a trial."""
    axis = Axis(name=evil("axis"), choices=(evil("choice"), "other"))
    search = Sweep(axes=(axis,), metric=evil("metric"), stopping=Stopping(by=evil("by")))
    sweep = put_sweep(store, SWEEP, search, name=evil("name"), queue=queue, user=user, phase=Phase.PAUSED)
    put_trial(store, sweep, 0, ((axis.name, evil("choice")),), [1.0])


def put_run(store: SqliteStore, user: UserName, queue: QueueName) -> None:
    """What is kept of a job that has ended."""
    now = time.time()
    run = Result(
        job=ENDED,
        name=evil("name"),
        user=user,
        queue=queue,
        type=JobType.TRAIN,
        phase=Phase.FAILED,
        submitted_at=now - 600,
        started_at=now - 500,
        ended_at=now - 300,
        reason=evil("reason"),
        command=("/bin/sh", "-c", evil("command")),
        params=((evil("axis"), evil("choice")),),
        env=((evil("variable"), evil("digest")),),
        inputs=(Artifact(evil("input"), evil("digest"), 1),),
        metrics=(Metric(evil("metric"), 1.0, 1.0, 2.0),),
        outputs=(Artifact(evil("output"), evil("digest"), 1),),
    )
    store.put(RESULTS, run).result()


def jobs(user: UserName, queue: QueueName) -> list[Job]:
    now = time.time()
    base = a_job("jbase", name=evil("name"), queue=queue, user=user, submitted_at=now - 600)
    spec = replace(
        base.spec,
        run=("sh", "-c", evil("command")),
        env=(("EVIL", evil("env")),),
        node_selector=(("zone", evil("selector")),),
        setup=(evil("setup"),),
        params=((evil("param"), evil("value")),),
        data=(evil("data"),),
        image=evil("image"),
        inputs=(Input(evil("input"), JobId("jbefore0001"), evil("output")),),
        outputs=(Output(evil("output"), evil("path")),),
        workdir="/",
    )
    base = replace(base, spec=spec, reason=evil("reason"), first_started_at=now - 500, attempt=1)
    ended = replace(
        base,
        id=ENDED,
        phase=Phase.FAILED,
        started_at=now - 500,
        ended_at=now - 300,
        exit=Exit(ExitCause.CODE, 1, evil("exit")),
        progress=((evil("figure"), 1.0), ("step", 5.0)),
    )
    paused = replace(base, id=PAUSED, phase=Phase.PAUSED, paused_by=PauseCause.PERSON)
    waits = replace(base, id=WAITS, attempt=0, first_started_at=None, not_before=now + LONGEST_BACK_OFF)
    return [ended, paused, waits]
