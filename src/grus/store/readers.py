"""Read-only connections to the file, a few, lent to readers.

A reader sees the last commit and never waits for the writer. Read-only connections cannot checkpoint: only
the writer does, because SQLite before 3.51.3 can damage its log when two connections do it at once.
"""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from grus.model.errors import StoreFailed

IDLE = 8
"""Connections kept open while no thread reads."""
BUSY = 10.0
"""Seconds to wait for another process's lock before giving up."""


def read_only(path: Path) -> sqlite3.Connection:
    """Return a connection that can neither write nor checkpoint, so it may read a file that another process
    writes.
    """
    address = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY)


class Readers:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    def row(self, sql: str, values: Sequence[object] = ()) -> tuple[object, ...] | None:
        """Return the first row, if any. Ask for one only: each further one has to acquire the interpreter's
        lock again.
        """
        with self._lent() as connection:
            row: tuple[object, ...] | None = connection.execute(sql, values).fetchone()
            return row

    def text(self, sql: str, values: Sequence[object] = ()) -> bytes:
        """Return the single value of a query that yields one text as a BLOB; empty for NULL or nothing."""
        row = self.row(sql, values)
        value = row[0] if row else None
        return value if isinstance(value, bytes) else b""

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _lent(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._closed:
                raise StoreFailed("the store is closed")
            connection = self._idle.pop() if self._idle else None
        try:
            connection = connection or read_only(self._path)
            yield connection
        except sqlite3.Error as error:
            if connection is not None:
                connection.close()
            raise StoreFailed(f"could not read {self._path}: {error}") from error
        self._take_back(connection)

    def _take_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < IDLE:
                self._idle.append(connection)
                return
        connection.close()
