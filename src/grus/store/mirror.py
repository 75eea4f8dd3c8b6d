"""Keeping a file in step with the place whose copy it is: what was found there goes in, newer over older.

For stores whose truth is elsewhere. The copy takes what it finds; rules were kept where it was written.
"""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace

from grus.model.identifiers import JobId
from grus.model.jobs import Desired, Job, Phase
from grus.model.ports import Event
from grus.store import batch, codec
from grus.store.batch import Outcome, numbered
from grus.store.listeners import Written


@dataclass(frozen=True, slots=True)
class Found:
    """A job as it is elsewhere."""

    job: Job
    events: Sequence[tuple[int, Event]] = ()
    """Its last ones, each with the version of the job that it came with."""
    key: str | None = None


def take(connection: sqlite3.Connection, found: Sequence[Found]) -> Outcome:
    """Write down what is newer than the copy; listeners hear of it, each event that they do not know once."""
    told: list[Written] = []
    for at in range(0, len(found), batch.LIMIT):
        told += _take_some(connection, {one.job.id: one for one in found[at : at + batch.LIMIT]})
    return Outcome(written=told)


def end(connection: sqlite3.Connection, gone: Sequence[JobId], now: float, why: str) -> Outcome:
    """Jobs whose record has vanished elsewhere: those that had not ended are stopped."""
    ended = []
    for job in _jobs(connection, gone):
        if not job.terminal:
            stopped = replace(
                job,
                version=job.version + 1,
                phase=Phase.STOPPED,
                desired=Desired.STOP,
                seats=(),
                ended_at=now,
                reason=why,
            )
            event = Event(at=now, kind="stopped", text=why, job=job.id, attempt=job.attempt)
            ended.append(Found(stopped, [(stopped.version, event)]))
    return take(connection, ended)


def _take_some(connection: sqlite3.Connection, found: dict[JobId, Found]) -> list[Written]:
    known, seq = versions(connection, list(found))
    newer = [one for id_, one in found.items() if one.job.version > known.get(id_, 0)]
    outcomes = [Outcome(written=_written(one, known.get(one.job.id, 0))) for one in newer]
    told = [one for outcome in numbered(outcomes, seq) for one in outcome.written]
    batch.insert_jobs(connection, [(one.job, codec.JOB.encode(one.job)) for one in newer])
    batch.insert_events(connection, [event for _, event in told if event is not None])
    batch.insert_keys(
        connection, [(one.job.user, one.key, one.job.id) for one in newer if one.key is not None]
    )
    return told


def _written(one: Found, known: int) -> list[Written]:
    """What listeners hear of it: each new event, and at the least that it changed."""
    events = [event for version, event in one.events if version > known]
    return [(one.job, event) for event in events] or [(one.job, None)]


def versions(connection: sqlite3.Connection, ids: Sequence[JobId]) -> tuple[dict[JobId, int], int]:
    """Versions of those that are there, and the last number of the log."""
    sql = """SELECT
        coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0),
        (SELECT json_group_object(id, version) FROM jobs WHERE id IN (SELECT value FROM json_each(?)))"""
    row = connection.execute(sql, (json.dumps(ids),)).fetchone()
    return json.loads(row[1]), row[0]


def _jobs(connection: sqlite3.Connection, ids: Sequence[JobId]) -> list[Job]:
    sql = """SELECT '[' || coalesce(group_concat(body), '') || ']' FROM jobs
        WHERE id IN (SELECT value FROM json_each(?))"""
    return codec.JOB.decode_list(connection.execute(sql, (json.dumps(ids),)).fetchone()[0])
