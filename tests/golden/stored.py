"""Everything that the stores write: values as JSON, words, tables, the status of a cluster object."""

import inspect
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import Any

from grus.model.activity_labels import Tag
from grus.model.audit import AuditRecord
from grus.model.interfaces import (
    AUDIT,
    PREDICTIONS,
    PROFILES,
    REPORTS,
    RESULTS,
    TOKENS,
    USERS,
    Event,
    Prediction,
    Token,
    User,
)
from grus.model.jobs import Job
from grus.model.metrics_history import Reported
from grus.model.nodes import Drain
from grus.model.profiles import JobProfile
from grus.model.queues import Queue
from grus.model.results import Result
from grus.store import codec
from grus.store.kubernetes import job_status_codec
from grus.store.migrations import migrate
from tests.golden.complete import complete
from tests.golden.complete import words as words_in

CODECS: dict[type, Any] = {
    Job: codec.JOB,
    Event: codec.EVENT,
    Result: codec.of(RESULTS),
    JobProfile: codec.of(PROFILES),
    Tag: codec.TAG,
    Queue: codec.QUEUE,
    Reported: codec.of(REPORTS),
    Prediction: codec.of(PREDICTIONS),
    User: codec.of(USERS),
    Token: codec.of(TOKENS),
    AuditRecord: codec.of(AUDIT),
    Drain: codec.DRAIN,
}
POD = '{"metadata": {"labels": {"team": "vision"}}}'
NAMES = {JobProfile: "profile", Reported: "report", AuditRecord: "audit"}


def texts() -> dict[str, Any]:
    """One complete value of each kind, as it is stored."""
    return {_name(kind): json.loads(one.encode(complete(kind))) for kind, one in CODECS.items()}


def words() -> dict[str, list[str]]:
    """The values that a stored word can have, by its place."""
    return {place: found for kind in CODECS for place, found in words_in(complete(kind), _name(kind))}


def _name(kind: type) -> str:
    return NAMES.get(kind, kind.__name__.lower())


def cluster() -> dict[str, Any]:
    """A job as a cluster keeps it: its object, and its status, of which the record is the job's own text."""
    event, job = complete(Event), complete(Job)
    assert job.sizing is not None
    roles = tuple(replace(one, pod=POD) for one in job.sizing.asked.roles)
    sizing = replace(job.sizing, asked=replace(job.sizing.asked, roles=roles))
    job = replace(job, spec=replace(job.spec, pod=POD), sizing=sizing)
    made = job_status_codec.new_object(job, namespace="team", now=1.0, key="key", finalizers=("finalizer",))
    before = {"metadata": {"namespace": "team", "name": "name", "uid": "uid", "resourceVersion": "1"}}
    body = codec.JOB.encode(job)
    status = job_status_codec.recorded(before, job, body, [(job.version, event)], epoch_now=2, now=3.0)[
        "status"
    ]
    assert status.pop("record") == body
    return {"object": made, "status": {**status, "recent": json.loads(status["recent"])}}


def tables() -> str:
    """The statements that make the database of this version."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name")
        statements = [f"{inspect.cleandoc(one)};\n" for (one,) in rows]
    return "".join([*statements, f"PRAGMA user_version = {version};\n"])
