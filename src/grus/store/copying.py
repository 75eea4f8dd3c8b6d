"""The file as a copy of one moment, and a copy made into the file of a state again.

A copy is made through a connection that can only read, in one step: the server goes on writing, and what it
commits meanwhile is not in the copy. A copy is one file, without a log of its own.
"""

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from grus.model.errors import StoreFailed
from grus.store.migrations import STEPS
from grus.store.readers import read_only

LOG, SHARED = "-wal", "-shm"
"""What SQLite keeps beside the file."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What is in a copy."""

    schema: int
    epoch: int
    jobs: int
    last_event: int
    """Number of the last one."""


def copy(source: Path, target: Path) -> Copied:
    """Make `target`, of mode 0600 and on disk when this returns. Raises StoreFailed, leaving nothing."""
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with closing(read_only(source)) as reader, closing(sqlite3.connect(target)) as writer:
            reader.backup(writer)
            writer.execute("PRAGMA journal_mode = DELETE")
            copied = _checked(writer, target)
        _sync(target)
    except BaseException as error:
        target.unlink(missing_ok=True)
        if isinstance(error, sqlite3.Error):
            raise StoreFailed(f"could not copy {source}: {error}") from error
        raise
    return copied


def look(file: Path) -> Copied:
    """What is in a copy. Raises StoreFailed if it is damaged, of a newer Grus, or of another program."""
    try:
        with closing(read_only(file)) as reader:
            return _checked(reader, file)
    except sqlite3.Error as error:
        raise StoreFailed(f"{file} cannot be read: {error}") from error


def epoch_of(file: Path) -> int:
    """The epoch that a file has come to, as far as it can be read; 0 if it cannot."""
    try:
        with closing(read_only(file)) as reader:
            return int(reader.execute("SELECT epoch FROM control").fetchone()[0])
    except (sqlite3.Error, StoreFailed, TypeError):
        return 0


def install(copied: Path, file: Path, epoch: int, aside: Path) -> None:
    """Make a copy the file of a state that no server uses, with this epoch; what stood there goes `aside`.

    The old log goes first: SQLite would play it into whatever file it finds beside it.
    """
    fresh = file.with_name(f"{file.name}.new")
    fresh.unlink(missing_ok=True)
    copy(copied, fresh)
    try:
        with closing(sqlite3.connect(fresh)) as writer:
            writer.execute("PRAGMA synchronous = FULL")
            writer.execute("UPDATE control SET epoch = ?", (epoch,))
            writer.commit()
    except sqlite3.Error as error:
        raise StoreFailed(f"could not write {fresh}: {error}") from error
    for end in (LOG, SHARED, ""):
        old = file.with_name(file.name + end)
        if old.exists():
            old.rename(aside.with_name(aside.name + end))
    fresh.rename(file)
    _sync(file.parent)


def _checked(connection: sqlite3.Connection, file: Path) -> Copied:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(STEPS):
        raise StoreFailed(
            f"{file} has version {version}, this Grus knows versions up to {len(STEPS)}: "
            "it was written by a newer Grus; upgrade first"
        )
    if version == 0:
        raise StoreFailed(f"{file} is not a state of Grus")
    damage = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if damage != "ok":
        raise StoreFailed(f"{file} is damaged: {damage}")
    epoch, jobs, last = connection.execute(
        """SELECT epoch, (SELECT count(*) FROM jobs),
            coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0) FROM control"""
    ).fetchone()
    return Copied(version, epoch, jobs, last)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
