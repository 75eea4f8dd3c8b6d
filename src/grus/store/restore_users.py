"""Access rights across a restore: they do not go back in time with a record; rights revoked since stay
revoked.

Users, their tokens and the members of queues are those of the record that is replaced. Users missing there
keep their names in the restored record, because of their jobs, and have no token. Audit records written since
are kept as well.
"""

import sqlite3
from dataclasses import dataclass, replace
from typing import TypeVar

from grus.model.audit import AuditRecord
from grus.model.identifiers import QueueName, UserName
from grus.model.interfaces import QUEUES, TOKENS, USERS, Collection, Token, User
from grus.model.queues import Queue
from grus.store import codec, sql_tables
from grus.store.audit_log import audit_row, insert_audit

T = TypeVar("T")

NumberedAudit = tuple[int, str, str, str]
"""Number, actor, target and text of an audit record."""


@dataclass(frozen=True, slots=True)
class Access:
    """Access rights in a record: users, tokens, queues and audit."""

    users: list[User]
    tokens: dict[str, Token]
    queues: dict[QueueName, Queue]
    audit: list[NumberedAudit]
    """Audit records; empty for a record of a version without an audit log."""


def read_access(record: sqlite3.Connection) -> Access:
    users, tokens, queues = _values(record, USERS), _values(record, TOKENS), _values(record, QUEUES)
    audit = record.execute("SELECT seq, actor, target, body FROM audit") if _has_audit(record) else ()
    by_name = {one.name: one for one in queues}
    return Access(users, {one.digest: one for one in tokens}, by_name, list(audit))


def _values(record: sqlite3.Connection, collection: Collection[T]) -> list[T]:
    rows = record.execute(f"SELECT body FROM {collection.name}")  # noqa: S608 - fixed words
    return [codec.of(collection).decode(body) for (body,) in rows]


def _has_audit(record: sqlite3.Connection) -> bool:
    sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'audit'"
    return record.execute(sql).fetchone() is not None


@dataclass(frozen=True, slots=True)
class AccessChanges:
    """Differences between the access rights of a backup and those of the record that it becomes."""

    revoked: tuple[str, ...]
    """Tokens that it loses."""
    returned: tuple[UserName, ...]
    """Users that had been deleted since; they have no token."""


def keep_access(record: sqlite3.Connection, last: Access) -> AccessChanges:
    """Transfer access rights to a record that goes back in time, in the caller's transaction."""
    then = read_access(record)
    gone = [token for token in then.tokens.values() if token.digest not in last.tokens]
    sql_tables.put(USERS, last.users)(record)
    for token in gone:
        sql_tables.delete(TOKENS, token.digest)(record)
    sql_tables.put(TOKENS, list(last.tokens.values()))(record)
    queues = [
        replace(queue, members=last.queues.get(queue.name, queue).members) for queue in then.queues.values()
    ]
    sql_tables.put(QUEUES, queues)(record)
    if _has_audit(record):
        known = max((row[0] for row in then.audit), default=0)
        later = [row for row in last.audit if row[0] > known]
        record.executemany("INSERT INTO audit (seq, actor, target, body) VALUES (?, ?, ?, ?)", later)
    revoked = sorted(f"{token.user} ({token.label or token.digest[:8]})" for token in gone)
    returned = sorted({user.name for user in then.users} - {user.name for user in last.users})
    return AccessChanges(tuple(revoked), tuple(returned))


def note_restore(record: sqlite3.Connection, note: AuditRecord) -> None:
    """Append the audit record of the restore itself, where the record has an audit log."""
    if _has_audit(record):
        insert_audit(record, [audit_row(note)])
