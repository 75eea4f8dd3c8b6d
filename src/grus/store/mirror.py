"""Mirror: synchronize a file with the place that it is a copy of; newer records replace older ones.

For stores whose source of truth is elsewhere. The copy takes everything it finds; rules were checked by the
writer.
"""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace

from grus.model.identifiers import JobId
from grus.model.interfaces import Event, Written
from grus.model.jobs import Desired, Job, Phase
from grus.store import codec, write_batch
from grus.store.write_batch import WriteOutcome, numbered


@dataclass(frozen=True, slots=True)
class MirroredJob:
    """Job as it is at the source."""

    job: Job
    events: Sequence[tuple[int, Event]] = ()
    """Last events, each with the version of the job that it came with."""
    key: str | None = None


def take(connection: sqlite3.Connection, found: Sequence[MirroredJob]) -> WriteOutcome:
    """Write what is newer than the copy; listeners receive each event that they do not know once."""
    told: list[Written] = []
    for at in range(0, len(found), write_batch.LIMIT):
        told += _take_some(connection, {one.job.id: one for one in found[at : at + write_batch.LIMIT]})
    return WriteOutcome(written=told)


def end(connection: sqlite3.Connection, gone: Sequence[JobId], now: float, why: str) -> WriteOutcome:
    """End jobs whose record has vanished at the source: those that had not ended are stopped."""
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
            ended.append(MirroredJob(stopped, [(stopped.version, event)]))
    return take(connection, ended)


def _take_some(connection: sqlite3.Connection, found: dict[JobId, MirroredJob]) -> list[Written]:
    known, seq = versions(connection, list(found))
    newer = [one for id_, one in found.items() if one.job.version > known.get(id_, 0)]
    outcomes = [WriteOutcome(written=_written(one, known.get(one.job.id, 0))) for one in newer]
    told = [one for outcome in numbered(outcomes, seq) for one in outcome.written]
    write_batch.insert_jobs(connection, [(one.job, codec.JOB.encode(one.job)) for one in newer])
    write_batch.insert_events(connection, [event for _, event in told if event is not None])
    write_batch.insert_keys(
        connection, [(one.job.user, one.key, one.job.id) for one in newer if one.key is not None]
    )
    return told


def _written(one: MirroredJob, known: int) -> list[Written]:
    """Return the messages for listeners: each new event, or at least that the job changed."""
    events = [event for version, event in one.events if version > known]
    return [(one.job, event) for event in events] or [(one.job, None)]


def versions(connection: sqlite3.Connection, ids: Sequence[JobId]) -> tuple[dict[JobId, int], int]:
    """Return the versions of the existing jobs, and the last number of the log."""
    sql = """SELECT
        coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0),
        (SELECT json_group_object(id, version) FROM jobs WHERE id IN (SELECT value FROM json_each(?)))"""
    row = connection.execute(sql, (json.dumps(ids),)).fetchone()
    return json.loads(row[1]), row[0]


def _jobs(connection: sqlite3.Connection, ids: Sequence[JobId]) -> list[Job]:
    sql = """SELECT '[' || coalesce(group_concat(body), '') || ']' FROM jobs
        WHERE id IN (SELECT value FROM json_each(?))"""
    return codec.JOB.decode_list(connection.execute(sql, (json.dumps(ids),)).fetchone()[0])
