"""Small writes: queues, users, tokens, cordoned nodes, predictions, profiles, results, tags, leader terms, …

Each function makes a piece of work for the writer's thread, done inside its transaction. Work checks before
it writes: a GrusError means that nothing was written.
"""

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from grus.model.activity_labels import Tag
from grus.model.audit import AuditRecord
from grus.model.errors import NotFound
from grus.model.identifiers import JobId, NodeId, QueueName, UserName
from grus.model.interfaces import MOST_PROFILES, Prediction, Token, User
from grus.model.jobs import TERMINAL
from grus.model.metrics_history import MOST_POINTS, Reported, stride_of
from grus.model.nodes import Drain
from grus.model.profiles import JobProfile
from grus.model.queues import Queue
from grus.model.results import Result
from grus.store import codec
from grus.store.audit_log import audit_row, insert_audit
from grus.store.writer import Work

# A clock that was set back lets jobs end before they were submitted: those are not old. The plus keeps SQLite
# from other indexes, which would walk all ended jobs.
_ENDED = f"ended_at < ? AND +submitted_at < ? AND +phase IN ({', '.join('?' * len(TERMINAL))})"
_NOT_KEPT = "id NOT IN (SELECT value FROM json_each(?))"


def next_epoch(connection: sqlite3.Connection) -> int:
    connection.execute("UPDATE control SET epoch = epoch + 1")
    return int(connection.execute("SELECT epoch FROM control").fetchone()[0])


def raise_epoch(seen: int) -> Work[None]:
    return _execute("UPDATE control SET epoch = max(epoch, ?)", seen)


def set_epoch(epoch: int) -> Work[None]:
    """Set the leader term, for stores that count them elsewhere."""
    return _execute("UPDATE control SET epoch = ?", epoch)


def ended(connection: sqlite3.Connection, before: float, keep: Collection[JobId]) -> list[JobId]:
    """Return jobs that a prune would delete."""
    sql = f"SELECT id FROM jobs WHERE {_ENDED} AND {_NOT_KEPT}"  # noqa: S608 - only placeholders go in
    rows = connection.execute(sql, (before, before, *TERMINAL, json.dumps(list(keep))))
    return [JobId(row[0]) for row in rows]


def put_queue(queue: Queue) -> Work[None]:
    sql = """INSERT INTO queues (name, body) VALUES (?, ?)
        ON CONFLICT (name) DO UPDATE SET body = excluded.body"""
    return _execute(sql, queue.name, codec.QUEUE.encode(queue))


def delete_queue(name: QueueName) -> Work[None]:
    return _delete("DELETE FROM queues WHERE name = ?", name, f"there is no queue {name}")


def put_user(user: User) -> Work[None]:
    """Store a user. Not INSERT OR REPLACE: that would delete the old row, and the user's tokens with it."""
    sql = """INSERT INTO users (name, body) VALUES (?, ?)
        ON CONFLICT (name) DO UPDATE SET body = excluded.body"""
    return _execute(sql, user.name, codec.USER.encode(user))


def delete_user(name: UserName) -> Work[None]:
    """Delete a user. The user's tokens go with it, by their foreign key."""
    return _delete("DELETE FROM users WHERE name = ?", name, f"there is no user {name}")


def put_token(token: Token) -> Work[None]:
    sql = """INSERT INTO tokens (digest, user, body) VALUES (?, ?, ?)
        ON CONFLICT (digest) DO UPDATE SET user = excluded.user, body = excluded.body"""
    put = _execute(sql, token.digest, token.user, codec.TOKEN.encode(token))

    def work(connection: sqlite3.Connection) -> None:
        if not connection.execute("SELECT 1 FROM users WHERE name = ?", (token.user,)).fetchone():
            raise NotFound(f"there is no user {token.user}")
        put(connection)

    return work


def delete_token(digest: str) -> Work[None]:
    return _delete("DELETE FROM tokens WHERE digest = ?", digest, "there is no such token")


def set_cordoned(node: NodeId, cordoned: bool, drain: Drain | None = None) -> Work[None]:
    insert = "INSERT INTO cordoned (node) VALUES (?) ON CONFLICT DO NOTHING"
    body = None if drain is None else codec.DRAIN.encode(drain)

    def work(connection: sqlite3.Connection) -> None:
        connection.execute(insert if cordoned else "DELETE FROM cordoned WHERE node = ?", (node,))
        connection.execute("DELETE FROM drains WHERE node = ?", (node,))
        if cordoned and body is not None:
            connection.execute("INSERT INTO drains (node, body) VALUES (?, ?)", (node, body))

    return work


def with_record(work: Work[None], record: AuditRecord | None) -> Work[None]:
    """Return the same work, which writes the audit record in its transaction. Raises BadInput."""
    if record is None:
        return work
    row = audit_row(record)

    def both(connection: sqlite3.Connection) -> None:
        work(connection)
        insert_audit(connection, [row])

    return both


def put_predictions(predictions: Sequence[Prediction]) -> Work[None]:
    """Store predictions. The first one of a job stays; one of a deleted job would break the foreign key, and
    is dropped.
    """
    sql = """INSERT INTO predictions (job, at, body) SELECT ?, ?, ?
        WHERE EXISTS (SELECT 1 FROM jobs WHERE id = ?) ON CONFLICT (job) DO NOTHING"""
    rows = [(one.job, one.at, codec.PREDICTION.encode(one), one.job) for one in predictions]

    def work(connection: sqlite3.Connection) -> None:
        connection.executemany(sql, rows)

    return work


def put_profile(profile: JobProfile) -> Work[None]:
    sql = """INSERT INTO profiles (fingerprint, updated_at, body) VALUES (?, ?, ?)
        ON CONFLICT (fingerprint) DO UPDATE SET updated_at = excluded.updated_at, body = excluded.body"""
    row = (profile.fingerprint, profile.updated_at, codec.PROFILE.encode(profile))
    drop = """DELETE FROM profiles WHERE fingerprint IN (
        SELECT fingerprint FROM profiles ORDER BY updated_at DESC, fingerprint DESC LIMIT -1 OFFSET ?)"""

    def work(connection: sqlite3.Connection) -> None:
        connection.execute(sql, row)
        connection.execute(drop, (MOST_PROFILES,))

    return work


def put_reports(reports: Sequence[Reported]) -> Work[None]:
    """Store reports in one statement for all of them: they come with every poll of the running jobs."""
    sql = """INSERT INTO reports (job, number, body)
        SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)
        WHERE EXISTS (SELECT 1 FROM jobs WHERE id = value ->> 0) ON CONFLICT DO NOTHING"""
    rows = json.dumps([(one.job, one.number, codec.REPORTED.encode(one)) for one in reports])
    whose = json.dumps(sorted({one.job for one in reports}))
    many = """SELECT job, max(number) FROM reports WHERE job IN (SELECT value FROM json_each(?))
        GROUP BY job HAVING count(*) > ?"""
    drop = "DELETE FROM reports WHERE job = ? AND number < ? AND number % ?"

    def work(connection: sqlite3.Connection) -> None:
        connection.execute(sql, (rows,))
        for job, newest in connection.execute(many, (whose, MOST_POINTS)).fetchall():
            connection.execute(drop, (job, newest, stride_of(newest)))

    return work


def put_tags(tags: Mapping[str, Tag | None]) -> Work[None]:
    kept = [(key, codec.TAG.encode(tag)) for key, tag in tags.items() if tag is not None]
    gone = [(key,) for key, tag in tags.items() if tag is None]
    sql = "INSERT INTO tags (key, body) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET body = excluded.body"

    def work(connection: sqlite3.Connection) -> None:
        connection.executemany("DELETE FROM tags WHERE key = ?", gone)
        connection.executemany(sql, kept)

    return work


def put_result(result: Result) -> Work[None]:
    sql = """INSERT INTO results (job, user, queue, name, phase, key, ended_at, body)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job) DO UPDATE SET
        user = excluded.user, queue = excluded.queue, name = excluded.name, phase = excluded.phase,
        key = excluded.key, ended_at = excluded.ended_at, body = excluded.body"""
    return _execute(
        sql,
        result.job,
        result.user,
        result.queue,
        result.name,
        result.phase,
        result.key,
        result.ended_at,
        codec.RESULT.encode(result),
    )


@dataclass(frozen=True, slots=True)
class Pruned:
    gone: int
    """Number of deleted events, jobs and results; keys, predictions and reports go with their jobs and are
    not counted.
    """
    more: bool
    """True if there may be more to remove."""


ALL = 1 << 60


def prune(
    events_before: float,
    jobs_before: float,
    results_before: float,
    keep: Collection[JobId],
    most: int = ALL,
) -> Work[Pruned]:
    """Remove so many rows at most: writers wait for as long as that takes."""
    old = (jobs_before, jobs_before, *TERMINAL, json.dumps(list(keep)))
    old_events = "DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE at < ? LIMIT ?)"
    # Before their jobs, whose deletion would delete all of theirs too: a thousand each.
    old_reports = f"""DELETE FROM reports WHERE (job, number) IN (SELECT job, number
        FROM jobs CROSS JOIN reports ON job = id WHERE {_ENDED} AND {_NOT_KEPT} LIMIT ?)"""  # noqa: S608 - only placeholders
    old_jobs = f"""DELETE FROM jobs WHERE id IN (SELECT id
        FROM jobs WHERE {_ENDED} AND {_NOT_KEPT} LIMIT ?)"""  # noqa: S608 - likewise
    old_results = """DELETE FROM results WHERE job IN (SELECT job FROM results
        WHERE ended_at < ? AND NOT EXISTS (SELECT 1 FROM jobs WHERE id = job) LIMIT ?)"""

    def work(connection: sqlite3.Connection) -> Pruned:
        connection.execute("UPDATE control SET pruning = ?", (events_before,))
        events = connection.execute(old_events, (events_before, most)).rowcount
        connection.execute("UPDATE control SET pruning = NULL")
        left = most - events
        left -= connection.execute(old_reports, (*old, left)).rowcount
        jobs = connection.execute(old_jobs, (*old, left)).rowcount
        left -= jobs
        results = connection.execute(old_results, (results_before, left)).rowcount
        return Pruned(events + jobs + results, more=left == results)

    return work


def _execute(sql: str, *values: str | float) -> Work[None]:
    def work(connection: sqlite3.Connection) -> None:
        connection.execute(sql, values)

    return work


def _delete(sql: str, key: str, missing: str) -> Work[None]:
    def work(connection: sqlite3.Connection) -> None:
        if connection.execute(sql, (key,)).rowcount == 0:
            raise NotFound(missing)

    return work
