"""The one thread that writes, and the group commit.

Whatever waits in the queue goes into one transaction: one fsync confirms all of it. Futures are done only
after COMMIT has returned, and after the listeners have heard. The thread outlives every failure of the disk:
those who waited hear of it, and the next batch starts afresh. Nothing else may write to the file.
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

from grus.model.errors import GrusError, StoreFailed
from grus.model.jobs import Job
from grus.store import batch
from grus.store.batch import Elsewhere, JobWrite, Outcome, Together
from grus.store.listeners import Listeners

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
"""Any other write. It checks before it writes, and raises a GrusError only while it has written nothing.

Its result is the future's; an `Outcome` is taken as it is, with what listeners are to hear.
"""

BATCH = 2048
"""Most writes of one commit, so that the first of them does not wait for an endless stream."""

FAULT_OF_A_WRITE = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
)
"""Errors of the database that say something about what was written; all others are about disk and file."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Given:
    work: JobWrite | Together | Work[Any]
    future: "Future[Any]"


class Writer:
    """Nobody else may use the connection until `close` has returned."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        listeners: Listeners,
        path: str,
        elsewhere: Elsewhere | None = None,
        gone: Callable[[], str] = lambda: "",
    ) -> None:
        """`gone` says why nobody would find what is written; "" while somebody would."""
        self._elsewhere = elsewhere
        self._gone = gone
        self._connection = connection
        self._listeners = listeners
        self._path = path
        self._queue: queue.SimpleQueue[_Given | None] = queue.SimpleQueue()
        self._giving = threading.Lock()
        self._closed = False
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="grus-store-writer", daemon=True)
        self._thread.start()

    def write(self, write: JobWrite) -> "Future[Job]":
        return self._give(write)

    def write_all(self, writes: Together) -> "Future[list[Job]]":
        return self._give(writes)

    def do(self, work: Work[T]) -> "Future[T]":
        return self._give(work)

    def close(self) -> None:
        """Finish what was given, then end the thread."""
        with self._giving:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _give(self, work: JobWrite | Together | Work[Any]) -> "Future[Any]":
        future: Future[Any] = Future()
        with self._giving:
            if self._closed:
                future.set_exception(StoreFailed("the store is closed"))
            else:
                self._queue.put(_Given(work, future))
        return future

    # ------------------------------------------------------------------------------------- in the thread

    def _run(self) -> None:
        while not self._ending:
            first = self._queue.get()
            if first is None:
                break
            self._commit([first], gather=True)

    def _commit(self, given: list[_Given], *, gather: bool) -> None:
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

    def _waiting(self) -> Iterator[_Given]:
        """What has come up to now; asked for as late as possible, so that a commit takes many along."""
        for _ in range(BATCH):
            try:
                one = self._queue.get_nowait()
            except queue.Empty:
                return
            if one is None:
                self._ending = True
                return
            yield one

    def _apply(self, works: Sequence[JobWrite | Together | Work[Any]]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for many, run in itertools.groupby(works, key=lambda work: isinstance(work, JobWrite | Together)):
            if many:
                for some in batch.portions(work for work in run if isinstance(work, JobWrite | Together)):
                    outcomes += batch.apply(self._connection, some, self._elsewhere)
            else:
                outcomes += [self._do(work) for work in run if not isinstance(work, JobWrite | Together)]
        return outcomes

    def _do(self, work: Work[Any]) -> Outcome:
        try:
            result = work(self._connection)
            return result if isinstance(result, Outcome) else Outcome(result=result)
        except GrusError as error:
            return Outcome(error=error)

    def _confirm(self, given: Sequence[_Given], outcomes: Sequence[Outcome]) -> None:
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

    def _recover(self, given: list[_Given], error: Exception) -> None:
        """Nothing of the batch was kept. A failing disk fails all of it; a bad write must fail alone."""
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

    def _refuse(self, one: _Given, error: Exception) -> None:
        if one.future.running() or one.future.set_running_or_notify_cancel():
            one.future.set_exception(error)


def _failure(path: str, error: sqlite3.Error) -> StoreFailed:
    advice = "see that its disk works, has room and may be written to, then try again"
    failure = StoreFailed(f"could not write to {path}: {error}; {advice}")
    failure.__cause__ = error
    return failure
