"""Examination of the database file as it is: SQLite's own checks, and a comparison of every row with the text
that it stores.

Read only, and of one moment: a server may continue to write, and is not disturbed (its log cannot be cut back
until the examination is over). Nothing here trusts what it reads: a row that cannot be read is a finding.
`grus.controlplane.integrity.fsck_event_log` checks how the rows relate to each other.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from grus.model.errors import NotFound
from grus.model.integrity_findings import Finding
from grus.model.interfaces import (
    PREDICTIONS,
    PROFILES,
    REPORTS,
    TOKENS,
    Collection,
    Event,
)
from grus.model.jobs import Job
from grus.store import codec, rules
from grus.store.codec import Codec
from grus.store.migrations import STEPS, migrate
from grus.store.readers import read_only

T = TypeVar("T")

RESTORE = "stop the server and bring back the last backup: `grus restore BACKUP --force`"
PAGE = 1000
"""Rows read in one go."""
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""Exceptions that a damaged file causes; the second if SQLite's own message quotes the damaged data."""
MANY = 20
"""Maximum number of findings of one kind of row that are listed one by one."""
EDGE = 3600.0
"""Seconds after the oldest kept event within which numbers may be missing: retention goes by time, and times
follow the numbers closely, not exactly.
"""
_CHILDREN = {
    "keys": ("job", "key", "jobs", "id", "job"),
    "predictions": ("job", "job", "jobs", "id", "job"),
    "reports": ("job", "job", "jobs", "id", "job"),
    "tokens": ("user", "digest", "users", "name", "user"),
}
"""Tables whose rows need one of another table: column, name of a row, that table, its key, its name."""


class Examination:
    """Made by `examine`; valid inside it. Rows that cannot be read are left out, and listed in `findings`."""

    def __init__(self, connection: sqlite3.Connection, findings: list[Finding], *, sound: bool) -> None:
        self._connection = connection
        self.findings = findings
        self.sound = sound
        """True if rows can be queried at all."""

    def jobs(self) -> Iterator[Job]:
        columns = "id, version, phase, queue, user, submitted_at, ended_at"
        return self._read("jobs", columns, codec.JOB, _of_job)

    def events(self) -> Iterator[Event]:
        """Yield the events in the order of the log."""
        return self._read(
            "events", "seq, at, job", codec.EVENT, lambda event: (event.seq, event.at, event.job)
        )

    def values(self, collection: Collection[T]) -> Iterator[T]:
        columns = (*collection.key, *collection.others)

        def of(value: T) -> tuple[object, ...]:
            return tuple(getattr(value, column) for column in columns)

        return self._read(collection.name, ", ".join(columns), codec.of(collection), of)

    def keyed(self) -> Iterator[tuple[str, str, str]]:
        """Yield user, key and job of each idempotency key."""
        for user, key, job in self._rows("SELECT user, key, job FROM keys"):
            yield str(user), str(key), str(job)

    def others(self) -> None:
        """Read all rows that no other check reads, only to find what cannot be read."""
        others: tuple[Collection[Any], ...] = (TOKENS, PREDICTIONS, PROFILES, REPORTS)
        for collection in others:
            for _ in self.values(collection):
                pass
        for _ in self._read("tags", "key", codec.TAG, None):
            pass

    def _read(
        self, table: str, columns: str, kind: Codec[T], of: Callable[[T], tuple[object, ...]] | None
    ) -> Iterator[T]:
        order = "ORDER BY seq" if table == "events" else ""
        unreadable = 0
        for row in self._rows(f"SELECT {columns}, body FROM {table} {order}"):  # noqa: S608 - fixed words
            *known, body = row
            try:
                value = kind.decode(str(body))
            except (msgspec.MsgspecError, TypeError) as error:
                unreadable += 1
                if unreadable <= MANY:
                    text = f"a row of {table} cannot be read: {error}"
                    self.findings.append(Finding(check="rows", which=str(known[0]), text=text, fix=RESTORE))
                continue
            if of is not None and tuple(known) != of(value):
                text = f"the columns of {table} say {tuple(known)}, its text says {of(value)}"
                self.findings.append(Finding(check="rows", which=str(known[0]), text=text, fix=RESTORE))
            yield value
        if unreadable > MANY:
            text = f"{unreadable - MANY} more rows of {table} cannot be read"
            self.findings.append(Finding(check="rows", which=table, text=text, fix=RESTORE))

    def _rows(self, sql: str) -> Iterator[tuple[object, ...]]:
        try:
            cursor = self._connection.execute(sql)
            while page := cursor.fetchmany(PAGE):
                yield from page
        except UNREADABLE as error:
            self.findings.append(
                Finding(
                    check="file", which=sql.split(" FROM ")[-1].strip(), text=f"reading: {error}", fix=RESTORE
                )
            )


@contextmanager
def examine(path: Path) -> Iterator[Examination]:
    """Examine the file as it is now. Raises NotFound if there is none."""
    if not path.is_file():
        raise NotFound(f"there is no file {path}; nothing was ever stored there")
    with closing(read_only(path)) as connection:
        findings: list[Finding] = []
        try:
            connection.execute("BEGIN")
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            findings += _damages(connection)
        except UNREADABLE as error:
            damage = Finding(check="file", which=path.name, text=f"it is damaged: {error}", fix=RESTORE)
            yield Examination(connection, [*findings, damage], sound=False)
            return
        if found := _not_ours(connection, path, version):
            yield Examination(connection, [*findings, found], sound=False)
        elif version == len(STEPS):
            yield Examination(connection, findings + _looked_at(connection), sound=True)
        else:
            with closing(sqlite3.connect("", isolation_level=None)) as newer:
                try:
                    connection.backup(newer)
                    migrate(newer)
                except UNREADABLE as error:
                    text = f"it has version {version}, and cannot become a newer one: {error}"
                    damage = Finding(check="file", which=path.name, text=text, fix=RESTORE)
                    yield Examination(connection, [*findings, damage], sound=False)
                    return
                findings += [_older(path, version), *_looked_at(newer)]
                yield Examination(newer, findings, sound=True)


def _damages(connection: sqlite3.Connection) -> Iterator[Finding]:
    for (text,) in connection.execute("PRAGMA integrity_check"):
        if text != "ok":
            yield Finding(check="file", which="grus.db", text=f"SQLite says: {text}", fix=RESTORE)


def _not_ours(connection: sqlite3.Connection, path: Path, version: int) -> Finding | None:
    """Return the reason why its rows must not be read."""
    if version > len(STEPS):
        text = f"it has version {version}, this Grus knows versions up to {len(STEPS)}: a newer one wrote it"
        return Finding(
            check="schema", which=path.name, text=text, fix="upgrade Grus, or use another state folder"
        )
    if version == 0:
        empty = connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is None
        text = "it is empty" if empty else "it is an SQLite file of another program"
        return Finding(check="schema", which=path.name, text=text, fix="use another state folder, or restore")
    return None


def _older(path: Path, version: int) -> Finding:
    text = f"it has version {version}; looked at as what it becomes"
    fix = f"none needed: the next `grus up` brings it to version {len(STEPS)}"
    return Finding(check="schema", which=path.name, text=text, fix=fix, grave=False)


def _looked_at(connection: sqlite3.Connection) -> list[Finding]:
    """Return all findings that need no single rows; a failed check is reported, and the rest continues."""
    found: list[Finding] = []
    for look in (_shape, _orphans, _numbers):
        try:
            for one in look(connection):
                found.append(one)
        except UNREADABLE as error:
            what = look.__name__.strip("_")
            found.append(Finding(check="file", which=what, text=f"reading: {error}", fix=RESTORE))
    return found


def _shape(connection: sqlite3.Connection) -> Iterator[Finding]:
    """Yield tables, indexes and triggers that differ from the migration steps."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        migrate(fresh)
        wanted, found = _parts(fresh), _parts(connection)
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            how = (
                "is missing" if name not in found else "is not ours" if name not in wanted else "has changed"
            )
            yield Finding(check="schema", which=name, text=f"{name} {how}", fix=RESTORE)


def _parts(connection: sqlite3.Connection) -> dict[str, str]:
    rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return {name: " ".join(sql.split()) for name, sql in rows}


def _orphans(connection: sqlite3.Connection) -> Iterator[Finding]:
    """Yield rows whose job or user is not on record."""
    for table, (column, called, other, key, word) in _CHILDREN.items():
        sql = f"""SELECT {column}, min({called}), count(*) FROM {table}
            WHERE NOT EXISTS (SELECT 1 FROM {other} WHERE {other}.{key} = {table}.{column})
            GROUP BY {column}"""  # noqa: S608 - the fixed words above
        for missing, name, count in connection.execute(sql).fetchall():
            text = f"{count} of {table} (such as {name[:16]}) of {word} {missing}, who is not on record"
            yield Finding(check=table, which=missing, text=text, fix=RESTORE)


def _numbers(connection: sqlite3.Connection) -> Iterator[Finding]:
    """Check for missing numbers of the log, and the two counters beside it."""
    last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
    highest, oldest = connection.execute("SELECT coalesce(max(seq), 0), min(at) FROM events").fetchone()
    if highest > (last[0] if last else 0):
        text = f"the log ends at {highest}, but the next number given would be {(last[0] if last else 0) + 1}"
        yield Finding(check="log", which=str(highest), text=text, fix=RESTORE)
    gaps = """SELECT before, seq, at FROM
        (SELECT seq, at, lag(seq) OVER log AS before, lag(at) OVER log AS since FROM events
        WINDOW log AS (ORDER BY seq))
        WHERE seq > before + 1 AND since > ? LIMIT ?"""
    for before, seq, _ in connection.execute(
        gaps, (-1.0 if oldest is None else _edge(connection, oldest), MANY)
    ):
        names = f"{before + 1}" if seq == before + 2 else f"{before + 1} to {seq - 1}"
        yield Finding(check="log", which=names, text=f"the log lacks {names}, not its oldest", fix=RESTORE)
    control = connection.execute("SELECT count(*), sum(pruning IS NOT NULL) FROM control").fetchone()
    if control != (1, 0):
        text = f"{control[0]} rows that hold the epoch, {control[1] or 0} of them in the midst of a prune"
        yield Finding(check="file", which="control", text=text, fix=RESTORE)


def _edge(connection: sqlite3.Connection, oldest: float) -> float:
    """Return the time up to which numbers may be missing: none while number 1 is there, because then nothing
    was pruned.
    """
    first = connection.execute("SELECT 1 FROM events WHERE seq = 1").fetchone()
    return oldest - 1.0 if first else oldest + EDGE


def _of_job(job: Job) -> tuple[object, ...]:
    user, queue, submitted_at = rules.identity(job)
    return job.id, job.version, job.phase, queue, user, submitted_at, job.ended_at
