"""Durable store of one machine: an SQLite file in WAL mode, `synchronous=FULL`, one writer, many readers.

Values become text and calls become work for the writer's thread (`writer`, `write_batch`); reads bypass it
(`readers`). One process at a time may own the file: the caller ensures that with a lock on its folder, and
the leader term (`epoch`) fences a process that continues to act after being replaced. Never put the file on a
network file system.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from grus.concurrency.listeners import Listeners
from grus.model.activity_labels import Tag
from grus.model.audit import AuditRecord
from grus.model.errors import GrusError, StoreFailed
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.interfaces import Collection, Event, NewJob, PruneLimits, Written
from grus.model.jobs import TERMINAL, Job, Phase
from grus.store import codec, rules, sql_tables
from grus.store.durable_files import FileInPlace, make_folder, sync_folder
from grus.store.migrations import migrate, version_of
from grus.store.readers import BUSY, Readers, read_only
from grus.store.write_batch import Elsewhere, JobWrite, WriteGroup
from grus.store.writer import Work, Writer

T = TypeVar("T")

PAGE = 50
"""Jobs read at a time: they are decoded in one call, some two milliseconds in which no other thread
computes.
"""

PRUNED_AT_ONCE = 500
"""Rows of one transaction of a prune: some 10 ms."""

WAL_BYTES = 64 * 1024 * 1024
"""Size to which the log is cut back at a checkpoint, if a burst has made it longer."""


class SqliteStore:
    """SQLite store; see `grus.model.interfaces.Store` for its guarantees.

    Listeners are called from the writer's thread before the futures of the commit are done: a thread that
    waited for a future knows that the listeners were called. So a listener must not wait for a future of the
    store, nor for a lock whose holder may do so.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, lasting: bool = True, elsewhere: Elsewhere | None = None
    ) -> None:
        """Set up. `lasting` false: a file that need not survive power loss; `elsewhere`: jobs are made
        durable there first.
        """
        self.path = Path(path)
        self._connection = _open(self.path, lasting)
        self._listeners: Listeners[Sequence[Written]] = Listeners("the store's writes")
        self._readers = Readers(self.path)
        self._in_place = FileInPlace(self.path)
        """Check of the file's place; not used if jobs are durable elsewhere: a copy that is lost is made
        again.
        """
        gone = self.gone if elsewhere is None else lambda: ""
        self._writer = Writer(self._connection, self._listeners, str(self.path), elsewhere, gone)

    def gone(self) -> str:
        """Return the reason why the file is not in the place at which it was opened; "" while it is. Nothing
        is written then.
        """
        return self._in_place.trouble()

    # ------------------------------------------------------------------------------------ jobs, written

    def take_over(self) -> int:
        return self._writer.do(sql_tables.next_epoch).result()

    def raise_epoch(self, seen: int) -> None:
        """Raise the leader term: the next one is above this one, which an engine has seen and below which it
        does not act.
        """
        self._writer.do(sql_tables.raise_epoch(seen)).result()

    def create(
        self, job: Job, event: Event, key: str | None = None, epoch: int | None = None
    ) -> "Future[Job]":
        return self._write(
            lambda: JobWrite(job=replace(job, version=1), event=event, new=True, key=key, epoch=epoch)
        )

    def create_all(self, new: Sequence[NewJob], epoch: int | None = None) -> "Future[list[Job]]":
        def give() -> "Future[list[Job]]":
            rules.check_apart(new)
            jobs = [(replace(one.job, version=1), one) for one in new]
            writes = [
                JobWrite(job=job, event=one.event, new=True, key=one.key, epoch=epoch) for job, one in jobs
            ]
            return self._writer.write_all(WriteGroup(tuple(writes)))

        return unless_refused(give)

    def replace(
        self,
        job: Job,
        event: Event | None,
        epoch: int | None = None,
        *,
        record: AuditRecord | None = None,
    ) -> "Future[Job]":
        changed = replace(job, version=job.version + 1)
        return self._write(lambda: JobWrite(job=changed, event=event, new=False, epoch=epoch, record=record))

    def _write(self, write: Callable[[], JobWrite]) -> "Future[Job]":
        return unless_refused(lambda: self._writer.write(write()))

    # --------------------------------------------------------------------------------------- jobs, read

    def job(self, job: JobId) -> Job:
        body = self._readers.text("SELECT CAST(body AS BLOB) FROM jobs WHERE id = ?", (job,))
        if not body:
            raise rules.no_job(job)
        return codec.JOB.decode(body)

    def jobs(
        self,
        *,
        phases: Sequence[Phase] | None = None,
        queue: QueueName | None = None,
        user: UserName | None = None,
        limit: int | None = None,
        after: tuple[float, JobId] | None = None,
    ) -> list[Job]:
        given = {"queue": queue, "user": user}
        where = ["true", *(f"{column} = ?" for column, value in given.items() if value is not None)]
        values: list[object] = [value for value in given.values() if value is not None]
        if phases is not None:
            where.append(f"phase IN ({', '.join('?' * len(phases))})")
            values += phases
        found: list[Job] = []
        while limit is None or len(found) < limit:
            wanted = PAGE if limit is None else min(PAGE, limit - len(found))
            page = self._page(where, values, wanted, after)
            found += page
            if len(page) < wanted:
                break
            after = page[-1].submitted_at, page[-1].id
        return found

    def _page(
        self, where: list[str], values: list[object], limit: int, after: tuple[float, JobId] | None
    ) -> list[Job]:
        if after is not None:
            where, values = [*where, "(submitted_at, id) < (?, ?)"], [*values, *after]
        # Rows are chosen and ordered by the indexes alone; only then are the bodies of the chosen ones read.
        chosen = f"""SELECT rowid FROM jobs WHERE {" AND ".join(where)}
            ORDER BY submitted_at DESC, id DESC LIMIT ?"""  # noqa: S608 - only fixed text and placeholders
        rows = f"SELECT body FROM jobs WHERE rowid IN ({chosen})"  # noqa: S608 - likewise
        page = codec.JOB.decode_list(self._readers.text(_as_array(rows), (*values, limit)))
        page.sort(key=lambda job: (job.submitted_at, job.id), reverse=True)
        return page

    def count(self) -> dict[Phase, int]:
        counted = "SELECT phase, count(*) AS jobs FROM jobs GROUP BY phase"
        counts = self._readers.text(f"SELECT CAST(json_group_object(phase, jobs) AS BLOB) FROM ({counted})")  # noqa: S608 - fixed text
        return {Phase(phase): jobs for phase, jobs in json.loads(counts).items()}

    def events(self, *, after: int = 0, job: JobId | None = None, limit: int = 1000) -> list[Event]:
        where, values = "seq > ?", [after, limit] if job is None else [after, job, limit]
        if job is not None:
            where += " AND job = ?"
        rows = f"SELECT body FROM events WHERE {where} ORDER BY seq LIMIT ?"  # noqa: S608 - only fixed text
        found = codec.EVENT.decode_list(self._readers.text(_as_array(rows), values))
        found.sort(key=lambda event: event.seq)
        return found

    def subscribe(self, listener: Callable[[Sequence[Written]], None]) -> Callable[[], None]:
        return self._listeners.add(listener)

    # ------------------------------------------------------------------------- queues, users and the rest

    def put(self, collection: Collection[T], *values: T, record: AuditRecord | None = None) -> "Future[None]":
        return self._put(lambda: sql_tables.put(collection, values), record)

    def get(self, collection: Collection[T], *key: str) -> T:
        fields: dict[str, Any] = dict(zip(collection.key, key, strict=True))
        for value in self.find(collection, limit=1, **fields):
            return value
        raise rules.not_there(collection, key)

    def find(
        self,
        collection: Collection[T],
        *,
        limit: int | None = None,
        after: tuple[object, ...] | None = None,
        **fields: str | None,
    ) -> list[T]:
        rows, values = sql_tables.page(collection, limit, after, fields)
        found = codec.of(collection).decode_list(self._readers.text(_as_array(rows), values))
        by = attrgetter(*(collection.order or collection.key))  # faster than `place_of`
        return sorted(found, key=by, reverse=collection.newest_first)

    def delete(
        self, collection: Collection[Any], key: str, *, record: AuditRecord | None = None
    ) -> "Future[None]":
        return self._put(lambda: sql_tables.delete(collection, key), record)

    def put_tags(self, tags: Mapping[str, Tag | None]) -> "Future[None]":
        return self._put(lambda: sql_tables.put_tags(tags))

    def tags(self) -> dict[str, Tag]:
        rows = self._readers.text("SELECT CAST(json_group_object(key, json(body)) AS BLOB) FROM tags")
        return codec.TAGS.decode(rows)

    def without_result(self, limit: int) -> list[Job]:
        rows = f"""SELECT body FROM jobs WHERE phase IN ({", ".join("?" * len(TERMINAL))})
            AND NOT EXISTS (SELECT 1 FROM results WHERE job = id) LIMIT ?"""  # noqa: S608 - only placeholders
        return codec.JOB.decode_list(self._readers.text(_as_array(rows), (*TERMINAL, limit)))

    def prune(self, limits: PruneLimits) -> "Future[int]":
        whole: Future[int] = Future()
        whole.set_running_or_notify_cancel()
        self._prune_on(whole, 0, sql_tables.prune(limits, PRUNED_AT_ONCE))
        return whole

    def _prune_on(self, whole: "Future[int]", gone: int, slice_: Work[sql_tables.Pruned]) -> None:
        """Prune a slice at a time, so that concurrent writers wait for one slice only."""

        def go_on(done: "Future[sql_tables.Pruned]") -> None:
            if (error := done.exception()) is not None:
                whole.set_exception(error)
            elif done.result().more:
                self._prune_on(whole, gone + done.result().gone, slice_)
            else:
                whole.set_result(gone + done.result().gone)

        self._writer.do(slice_).add_done_callback(go_on)

    def close(self) -> None:
        self._writer.close()
        self._readers.close()
        # The last connection out, able to write: SQLite moves the log into the file and removes it.
        self._connection.close()

    def _put(self, work: Callable[[], Work[None]], record: AuditRecord | None = None) -> "Future[None]":
        return unless_refused(lambda: self._writer.do(sql_tables.with_record(work(), record)))


def _as_array(rows: str) -> str:
    """Return a query for one row with a JSON array of all the bodies, instead of a row each: see
    `Readers.row`.
    """
    return f"SELECT CAST('[' || coalesce(group_concat(body), '') || ']' AS BLOB) FROM ({rows})"  # noqa: S608 - fixed text


def unless_refused(give: Callable[[], "Future[T]"]) -> "Future[T]":
    """Return the future of a write, or one that has failed if the write cannot be given at all."""
    try:
        return give()
    except GrusError as error:
        refused: Future[T] = Future()
        refused.set_exception(error)
        return refused


def _open(path: Path, lasting: bool) -> sqlite3.Connection:
    """Return the writing connection to a file that only its owner can read, in the latest schema."""
    try:
        _make_private(path)
        _look(path)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=BUSY)
    except (OSError, sqlite3.Error) as error:
        raise StoreFailed(f"could not open {path}: {error}") from error
    try:
        _configure(connection, lasting)
        migrate(connection)
        sync_folder(path.parent)  # SQLite does this for its log alone
    except (OSError, sqlite3.Error) as error:
        connection.close()
        raise StoreFailed(f"could not open {path}: {error}") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _look(path: Path) -> None:
    """Refuse a file of another program before anything, the mode of its log included, is changed."""
    with closing(read_only(path)) as looking:
        try:
            version_of(looking)
        except sqlite3.OperationalError as error:
            # A file that was cut off in the middle of a change is recovered before it can be read; `migrate`
            # checks then.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
                raise


def _make_private(path: Path) -> None:
    """Set mode 0700 for folders made here, 0600 for the file; SQLite gives its log the same mode as
    the file.
    """
    make_folder(path.parent)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        # Not opened here: closing any descriptor of the file drops the locks that this process has on it.
        path.chmod(0o600)


def _configure(connection: sqlite3.Connection, lasting: bool) -> None:
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise StoreFailed(f"the file system does not support SQLite's write-ahead log (it says {mode!r})")
    connection.execute(f"PRAGMA synchronous = {'FULL' if lasting else 'OFF'}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
