"""The small writes: queues, users, tokens, cordoned nodes, predictions, profiles, results, tags, epochs, …

Each function makes a piece of work for the writer's thread, done inside its transaction. Work checks before
it writes: a GrusError says that nothing was written.
"""

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from grus.model.curves import MOST_POINTS, Reported, stride_of
from grus.model.errors import NotFound
from grus.model.identifiers import JobId, NodeId, QueueName, UserName
from grus.model.jobs import TERMINAL
from grus.model.ports import MOST_PROFILES, Prediction, Token, User
from grus.model.profiles import JobProfile
from grus.model.queues import Queue
from grus.model.results import Result
from grus.model.tags import Tag
from grus.store import codec
from grus.store.writer import Work

# A clock that was set back lets jobs end before they were submitted: those are not old.
# The plus keeps SQLite from other indexes, which would walk all ended jobs.
_ENDED = f"ended_at < ? AND +submitted_at < ? AND +phase IN ({', '.join('?' * len(TERMINAL))})"
_NOT_KEPT = "id NOT IN (SELECT value FROM json_each(?))"


def next_epoch(connection: sqlite3.Connection) -> int:
    connection.execute("UPDATE control SET epoch = epoch + 1")
    return int(connection.execute("SELECT epoch FROM control").fetchone()[0])


def raise_epoch(seen: int) -> Work[None]:
    return _execute("UPDATE control SET epoch = max(epoch, ?)", seen)


def set_epoch(epoch: int) -> Work[None]:
    """For stores whose epochs are counted elsewhere."""
    return _execute("UPDATE control SET epoch = ?", epoch)


def ended(connection: sqlite3.Connection, before: float, keep: Collection[JobId]) -> list[JobId]:
    """Jobs that a prune would drop."""
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
    """Not INSERT OR REPLACE: that would delete the old row, and the user's tokens with it."""
    sql = """INSERT INTO users (name, body) VALUES (?, ?)
        ON CONFLICT (name) DO UPDATE SET body = excluded.body"""
    return _execute(sql, user.name, codec.USER.encode(user))


def delete_user(name: UserName) -> Work[None]:
    """The user's tokens go with it, by their foreign key."""
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


def set_cordoned(node: NodeId, cordoned: bool) -> Work[None]:
    insert = "INSERT INTO cordoned (node) VALUES (?) ON CONFLICT DO NOTHING"
    return _execute(insert if cordoned else "DELETE FROM cordoned WHERE node = ?", node)


def put_predictions(predictions: Sequence[Prediction]) -> Work[None]:
    """The first one of a job stays; one of a job that is gone would break the foreign key, and is dropped."""
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
    """One statement for all of them: they come with every look at what runs."""
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
    """Events, jobs and results; keys, predictions and reports go with their jobs and are not counted."""
    more: bool
    """Whether there may be more to remove."""


ALL = 1 << 60


def prune(
    events_before: float,
    jobs_before: float,
    results_before: float,
    keep: Collection[JobId],
    most: int = ALL,
) -> Work[Pruned]:
    """Remove so many rows at most: whoever writes waits for as long as that takes."""
    old = (jobs_before, jobs_before, *TERMINAL, json.dumps(list(keep)))
    old_events = "DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE at < ? LIMIT ?)"
    # Before their jobs, which would take all of theirs along: a thousand each.
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
