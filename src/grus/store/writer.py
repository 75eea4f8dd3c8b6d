"""Writer thread and group commit.

All work that waits in the queue goes into one transaction: one fsync confirms all of it. Futures are done
only after COMMIT has returned, and after the listeners were called. The thread outlives every failure of the
disk: the waiting callers get the error, and the next batch starts afresh. Nothing else may write to the file.
"""

import itertools
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from grus.concurrency.listeners import Listeners
from grus.model.errors import GrusError, StoreFailed
from grus.model.interfaces import Written
from grus.model.jobs import Job
from grus.store import write_batch
from grus.store.write_batch import Elsewhere, JobWrite, WriteGroup, WriteOutcome

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
"""Any other write. It checks before it writes, and raises a GrusError only while it has written nothing.

Its result is the future's; an `WriteOutcome` is passed on unchanged, with the messages for listeners.
"""

BATCH = 2048
"""Maximum number of writes of one commit, so that the first of them does not wait for an endless stream."""

FAULT_OF_A_WRITE = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
)
"""Errors of the database that are caused by the written data; all others are about disk and file."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _QueuedWrite:
    work: JobWrite | WriteGroup | Work[Any]
    future: "Future[Any]"


class Writer:
    """Only this object may use the connection until `close` has returned."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        listeners: Listeners[Sequence[Written]],
        path: str,
        elsewhere: Elsewhere | None = None,
        gone: Callable[[], str] = lambda: "",
    ) -> None:
        """Set up. `gone` returns the reason why written data could not be found again; "" while it can be."""
        self._elsewhere = elsewhere
        self._gone = gone
        self._connection = connection
        self._listeners = listeners
        self._path = path
        self._queue: queue.SimpleQueue[_QueuedWrite | None] = queue.SimpleQueue()
        self._giving = threading.Lock()
        self._closed = False
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="grus-store-writer", daemon=True)
        self._thread.start()

    def write(self, write: JobWrite) -> "Future[Job]":
        return self._give(write)

    def write_all(self, writes: WriteGroup) -> "Future[list[Job]]":
        return self._give(writes)

    def do(self, work: Work[T]) -> "Future[T]":
        return self._give(work)

    def close(self) -> None:
        """Finish the accepted work, then end the thread."""
        with self._giving:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _give(self, work: JobWrite | WriteGroup | Work[Any]) -> "Future[Any]":
        future: Future[Any] = Future()
        with self._giving:
            if self._closed:
                future.set_exception(StoreFailed("the store is closed"))
            else:
                self._queue.put(_QueuedWrite(work, future))
        return future

    # ------------------------------------------------------------------------------------- in the thread

    def _run(self) -> None:
        while not self._ending:
            first = self._queue.get()
            if first is None:
                break
            self._commit([first], gather=True)

    def _commit(self, given: list[_QueuedWrite], *, gather: bool) -> None:
        """Write all of these in one transaction, then confirm them one by one."""
        if why := self._gone():  # some microseconds, of a commit's milliseconds
            for one in given:
                self._refuse(one, StoreFailed(why))
            return
        try:
            self._begin()
            if gather:
                given.extend(self._waiting())
            given = [
                one for one in given if one.future.running() or one.future.set_running_or_notify_cancel()
            ]
            outcomes = self._apply([one.work for one in given])
            self._connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - the edge of the thread: whoever waits must hear of it
            self._roll_back()
            self._recover(given, error)
            return
        self._confirm(given, outcomes)

    def _begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def _waiting(self) -> Iterator[_QueuedWrite]:
        """Yield the work queued up to now; read as late as possible, so that a commit takes many along."""
        for _ in range(BATCH):
            try:
                one = self._queue.get_nowait()
            except queue.Empty:
                return
            if one is None:
                self._ending = True
                return
            yield one

    def _apply(self, works: Sequence[JobWrite | WriteGroup | Work[Any]]) -> list[WriteOutcome]:
        outcomes: list[WriteOutcome] = []
        for many, run in itertools.groupby(works, key=lambda work: isinstance(work, JobWrite | WriteGroup)):
            if many:
                for some in write_batch.portions(
                    work for work in run if isinstance(work, JobWrite | WriteGroup)
                ):
                    outcomes += write_batch.apply(self._connection, some, self._elsewhere)
            else:
                outcomes += [self._do(work) for work in run if not isinstance(work, JobWrite | WriteGroup)]
        return outcomes

    def _do(self, work: Work[Any]) -> WriteOutcome:
        try:
            result = work(self._connection)
            return result if isinstance(result, WriteOutcome) else WriteOutcome(result=result)
        except GrusError as error:
            return WriteOutcome(error=error)

    def _confirm(self, given: Sequence[_QueuedWrite], outcomes: Sequence[WriteOutcome]) -> None:
        written = [one for outcome in outcomes for one in outcome.written]
        if written:
            self._listeners.tell(written)
        for one, outcome in zip(given, outcomes, strict=True):
            if outcome.error is not None:
                one.future.set_exception(outcome.error)
            else:
                one.future.set_result(outcome.result)

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            log.exception("rolling back in %s failed", self._path)

    def _recover(self, given: list[_QueuedWrite], error: Exception) -> None:
        """Recover from a failed batch, of which nothing was kept. A failing disk fails all of it; a bad write
        must fail alone.
        """
        if isinstance(error, sqlite3.Error) and not isinstance(error, FAULT_OF_A_WRITE):
            log.error("%d writes to %s failed: %s", len(given), self._path, error)
            failure = _failure(self._path, error)
            for one in given:
                self._refuse(one, failure)
        elif len(given) == 1:
            self._refuse(given[0], error)
        else:
            for one in given:
                self._commit([one], gather=False)

    def _refuse(self, one: _QueuedWrite, error: Exception) -> None:
        if one.future.running() or one.future.set_running_or_notify_cancel():
            one.future.set_exception(error)


def _failure(path: str, error: sqlite3.Error) -> StoreFailed:
    advice = "see that its disk works, has room and may be written to, then try again"
    failure = StoreFailed(f"could not write to {path}: {error}; {advice}")
    failure.__cause__ = error
    return failure
