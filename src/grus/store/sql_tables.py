"""Small writes: collections, tags and leader terms, and the queries of collections.

Each function makes a piece of work for the writer's thread, done inside its transaction. Work checks before
it writes: a GrusError means that nothing was written.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from grus.model.activity_labels import Tag
from grus.model.audit import AuditRecord
from grus.model.identifiers import JobId
from grus.model.interfaces import (
    AUDIT,
    CORDONS,
    MOST_PROFILES,
    PROFILES,
    REPORTS,
    USERS,
    Collection,
    PruneLimits,
)
from grus.model.jobs import TERMINAL
from grus.model.metrics_history import MOST_POINTS, stride_of
from grus.model.nodes import Cordon
from grus.store import codec, rules
from grus.store.audit_log import audit_row, insert_audit
from grus.store.write_batch import LIMIT, placeholders
from grus.store.writer import Work

T = TypeVar("T")

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


def _old(limits: PruneLimits) -> tuple[object, ...]:
    """Return the values to bind for `_ENDED` and `_NOT_KEPT`."""
    return limits.jobs_before, limits.jobs_before, *TERMINAL, json.dumps(list(limits.keep))


def ended(connection: sqlite3.Connection, limits: PruneLimits) -> list[JobId]:
    """Return jobs that a prune would delete."""
    sql = f"SELECT id FROM jobs WHERE {_ENDED} AND {_NOT_KEPT}"  # noqa: S608 - only placeholders go in
    return [JobId(row[0]) for row in connection.execute(sql, _old(limits))]


_BODIES: Mapping[Collection[Any], str] = {
    CORDONS: "json_object('node', node, 'drain', json(body)) AS body",
    AUDIT: "json_set(body, '$.seq', seq) AS body",  # the row's number: a record is encoded before it has one
}
_TABLES: Mapping[Collection[Any], str] = {CORDONS: "cordoned LEFT JOIN drains USING (node)"}


def put(collection: Collection[T], values: Sequence[T]) -> Work[None]:
    """Store values, in few statements. Raises BadInput if one could not be read back."""
    if collection is CORDONS:
        return _cordon(cast("Sequence[Cordon]", values))
    columns = (*collection.key, *collection.others)
    rows = [
        (*(getattr(value, column) for column in columns), codec.of(collection).encode(value))
        for value in values
    ]
    users = {str(getattr(value, "user", "")) for value in values} if collection.of_user else set[str]()

    def work(connection: sqlite3.Connection) -> None:
        for user in users:
            if not connection.execute("SELECT 1 FROM users WHERE name = ?", (user,)).fetchone():
                raise rules.not_there(USERS, (user,))
        for begin in range(0, len(rows), LIMIT):
            some = rows[begin : begin + LIMIT]
            connection.execute(_insert_sql(collection, len(some)), [one for row in some for one in row])
        if collection is PROFILES:
            connection.execute(_SURPLUS_PROFILES, (MOST_PROFILES,))
        if collection is REPORTS:
            _thin_reports(connection, sorted({row[0] for row in rows}))

    return work


def _insert_sql(collection: Collection[Any], count: int) -> str:
    """Return the statement that stores so many rows. Not INSERT OR REPLACE: that would delete the old row of
    a user, and the user's tokens with it.
    """
    columns = (*collection.key, *collection.others, "body")
    given = ", ".join(f"column{number + 1}" for number in range(len(columns)))
    there = "EXISTS (SELECT 1 FROM jobs WHERE id = column1)" if collection.of_job else "true"
    changed = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in collection.key)
    then = "NOTHING" if collection.first_stays else f"UPDATE SET {changed}"
    return f"""INSERT INTO {collection.name} ({", ".join(columns)})
        SELECT {given} FROM (VALUES {placeholders(len(columns), count)}) WHERE {there}
        ON CONFLICT ({", ".join(collection.key)}) DO {then}"""  # noqa: S608 - only fixed text and placeholders


_SURPLUS_PROFILES = """DELETE FROM profiles WHERE fingerprint IN (
    SELECT fingerprint FROM profiles ORDER BY updated_at DESC, fingerprint DESC LIMIT -1 OFFSET ?)"""


def _thin_reports(connection: sqlite3.Connection, jobs: Sequence[str]) -> None:
    many = """SELECT job, max(number) FROM reports WHERE job IN (SELECT value FROM json_each(?))
        GROUP BY job HAVING count(*) > ?"""
    drop = "DELETE FROM reports WHERE job = ? AND number < ? AND number % ?"
    for job, newest in connection.execute(many, (json.dumps(jobs), MOST_POINTS)).fetchall():
        connection.execute(drop, (job, newest, stride_of(newest)))


def _cordon(cordons: Sequence[Cordon]) -> Work[None]:
    """Store cordons, which have two tables: what drains a node was added to the first one later."""
    nodes = [(one.node,) for one in cordons]
    drains = [(one.node, codec.DRAIN.encode(one.drain)) for one in cordons if one.drain is not None]

    def work(connection: sqlite3.Connection) -> None:
        connection.executemany("INSERT INTO cordoned (node) VALUES (?) ON CONFLICT DO NOTHING", nodes)
        connection.executemany("DELETE FROM drains WHERE node = ?", nodes)
        connection.executemany("INSERT INTO drains (node, body) VALUES (?, ?)", drains)

    return work


def delete(collection: Collection[Any], key: str) -> Work[None]:
    """Delete a value. A user's tokens and the drain of a node go with it, by their foreign keys."""
    sql = f"DELETE FROM {collection.name} WHERE {collection.key[0]} = ?"  # noqa: S608 - fixed words

    def work(connection: sqlite3.Connection) -> None:
        if connection.execute(sql, (key,)).rowcount == 0 and collection.missing:
            raise rules.not_there(collection, (key,))

    return work


def page(
    collection: Collection[Any],
    limit: int | None,
    after: tuple[object, ...] | None,
    fields: Mapping[str, str | None],
) -> tuple[str, list[object]]:
    """Return the query for the bodies of a page, as `Store.find` describes it, and the values to bind."""
    given = {name: value for name, value in fields.items() if value is not None}
    # The second condition is that of a partial index: without it SQLite does not use it.
    unset = (name for name in collection.optional if name in given)
    where = ["true", *(f"{name} = ?" for name in given), *(f"{name} != ''" for name in unset)]
    values: list[object] = list(given.values())
    order = collection.order or collection.key
    if after is not None:
        than = "<" if collection.newest_first else ">"
        where.append(f"({', '.join(order)}) {than} ({', '.join('?' * len(order))})")
        values += after
    direction = "DESC" if collection.newest_first else "ASC"
    rows = f"""SELECT {_BODIES.get(collection, "body")} FROM {_TABLES.get(collection, collection.name)}
        WHERE {" AND ".join(where)}
        ORDER BY {", ".join(f"{name} {direction}" for name in order)} LIMIT ?"""  # noqa: S608 - only fixed text
    return rows, [*values, -1 if limit is None else limit]


def with_record(work: Work[None], record: AuditRecord | None) -> Work[None]:
    """Return the same work, which writes the audit record in its transaction. Raises BadInput."""
    if record is None:
        return work
    row = audit_row(record)

    def both(connection: sqlite3.Connection) -> None:
        work(connection)
        insert_audit(connection, [row])

    return both


def put_tags(tags: Mapping[str, Tag | None]) -> Work[None]:
    kept = [(key, codec.TAG.encode(tag)) for key, tag in tags.items() if tag is not None]
    gone = [(key,) for key, tag in tags.items() if tag is None]
    sql = "INSERT INTO tags (key, body) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET body = excluded.body"

    def work(connection: sqlite3.Connection) -> None:
        connection.executemany("DELETE FROM tags WHERE key = ?", gone)
        connection.executemany(sql, kept)

    return work


@dataclass(frozen=True, slots=True)
class Pruned:
    gone: int
    """Number of deleted events, jobs and results; keys, predictions and reports go with their jobs and are
    not counted.
    """
    more: bool
    """True if there may be more to remove."""


ALL = 1 << 60


def prune(limits: PruneLimits, most: int = ALL) -> Work[Pruned]:
    """Remove so many rows at most: writers wait for as long as that takes."""
    old = _old(limits)
    old_events = "DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE at < ? LIMIT ?)"
    # Before their jobs, whose deletion would delete all of theirs too: a thousand each.
    old_reports = f"""DELETE FROM reports WHERE (job, number) IN (SELECT job, number
        FROM jobs CROSS JOIN reports ON job = id WHERE {_ENDED} AND {_NOT_KEPT} LIMIT ?)"""  # noqa: S608 - only placeholders
    old_jobs = f"""DELETE FROM jobs WHERE id IN (SELECT id
        FROM jobs WHERE {_ENDED} AND {_NOT_KEPT} LIMIT ?)"""  # noqa: S608 - likewise
    old_results = """DELETE FROM results WHERE job IN (SELECT job FROM results
        WHERE ended_at < ? AND NOT EXISTS (SELECT 1 FROM jobs WHERE id = job) LIMIT ?)"""

    def work(connection: sqlite3.Connection) -> Pruned:
        connection.execute("UPDATE control SET pruning = ?", (limits.events_before,))
        events = connection.execute(old_events, (limits.events_before, most)).rowcount
        connection.execute("UPDATE control SET pruning = NULL")
        left = most - events
        left -= connection.execute(old_reports, (*old, left)).rowcount
        jobs = connection.execute(old_jobs, (*old, left)).rowcount
        left -= jobs
        results = connection.execute(old_results, (limits.results_before, left)).rowcount
        return Pruned(events + jobs + results, more=left == results)

    return work


def _execute(sql: str, *values: str | float) -> Work[None]:
    def work(connection: sqlite3.Connection) -> None:
        connection.execute(sql, values)

    return work
