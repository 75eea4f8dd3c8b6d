"""Copies of the database file: make a consistent copy of one moment, and restore one.

A copy is made through a connection that can only read, in one step: the server continues to write, and its
later commits are not in the copy. A copy is one file, without a log of its own.
"""

import itertools
import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from grus.model.audit import AuditRecord
from grus.model.errors import StoreFailed
from grus.model.identifiers import UserName
from grus.store.durable_files import sync_folder
from grus.store.migrations import STEPS
from grus.store.readers import BUSY, read_only
from grus.store.restore_users import Access, keep_access, note_restore, read_access

BESIDE = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite keeps beside a database; it plays a log or a journal into any database
that it finds there.
"""
DAMAGED = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


@dataclass(frozen=True, slots=True)
class Copied:
    """Content of a copy."""

    schema: int
    epoch: int
    jobs: int
    last_event: int
    """Number of the last event."""


def copy(source: Path, target: Path) -> Copied:
    """Make the copy `target`, of mode 0600 and on disk when this returns. Raises StoreFailed, leaving
    nothing.
    """
    try:
        os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise StoreFailed(f"could not make {target}: {error.strerror}") from error
    try:
        with closing(read_only(source)) as reader, closing(sqlite3.connect(target)) as writer:
            reader.backup(writer)
            writer.execute("PRAGMA journal_mode = DELETE")
            copied = _checked(writer, target)
        _sync(target)
    except BaseException as error:
        _remove(target)
        if isinstance(error, sqlite3.Error | OSError):
            advice = f"see that {source.name} can be read, and that there is room in {target.parent}"
            raise StoreFailed(f"could not copy {source} to {target}: {error}; {advice}") from error
        raise
    return copied


def look(file: Path) -> Copied:
    """Return the content of a copy. Raises StoreFailed if it is damaged, of a newer Grus, or of another
    program.
    """
    try:
        with closing(read_only(file)) as reader:
            return _checked(reader, file)
    except sqlite3.Error as error:
        raise StoreFailed(f"{file} cannot be read: {error}") from error


def lacks_log(file: Path) -> bool:
    """Return whether it was written with a log that does not lie beside it: data that was only in the log is
    missing.
    """
    with file.open("rb") as opened:
        with_log = opened.read(20)[18:] == b"\2\2"  # the versions for writing and reading, in SQLite's head
    log = file.with_name(f"{file.name}-wal")
    return with_log and not (log.exists() and log.stat().st_size)


def epoch_of(file: Path) -> int:
    """Return the leader term (`epoch`) that a file has reached, as far as it can be read; 0 if it cannot."""
    if _holds_nothing(file):
        return 0
    try:
        with closing(read_only(file)) as reader:
            return int(reader.execute("SELECT epoch FROM control").fetchone()[0])
    except (sqlite3.Error, StoreFailed, TypeError):
        return 0


def users_in(file: Path) -> int:
    """Number of users in a file, as far as it can be read; 0 if it cannot."""
    if _holds_nothing(file):
        return 0
    try:
        with closing(read_only(file)) as reader:
            return int(reader.execute("SELECT count(*) FROM users").fetchone()[0])
    except (sqlite3.Error, StoreFailed, TypeError):
        return 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """Copy that can become the file of a state."""

    path: Path
    revoked: tuple[str, ...] | None
    """Tokens that it had, and the file no longer has; None if there is no file to compare with."""
    returned: tuple[UserName, ...] = ()
    """Users that it has, and the file no longer has."""


def prepare(copied: Path, file: Path, epoch: int, note: AuditRecord | None = None) -> Prepared:
    """Prepare a restore: do all that can fail before a copy becomes the file of a state that no server uses,
    with this leader term, and this audit record of the restore.

    The copy is whole and on disk when this returns, under a name of its own; the present file is one file by
    then, if it can be read, and still the state. Raises StoreFailed.
    """
    fresh = file.with_name(f"{file.name}.new")
    if fresh.exists() and fresh.samefile(copied):
        raise StoreFailed(f"{fresh} may be cut off: it was left by a restore that died; name the backup")
    _remove(fresh)  # of a process that died here
    _try_link(file)
    copy(copied, fresh)
    last = _last_access(file)
    try:
        with closing(sqlite3.connect(fresh)) as writer:
            writer.execute("PRAGMA synchronous = FULL")
            writer.execute("UPDATE control SET epoch = ?", (epoch,))
            changes = None if last is None else keep_access(writer, last)
            if note is not None:
                note_restore(writer, note)
            writer.commit()
        _sync(fresh)
        _fold(file)
        sync_folder(file.parent)
    except BaseException as error:
        _remove(fresh)
        if isinstance(error, sqlite3.Error | msgspec.MsgspecError | OSError):
            raise StoreFailed(f"could not write {fresh}: {error}") from error
        raise
    return Prepared(fresh, None) if changes is None else Prepared(fresh, changes.revoked, changes.returned)


def _try_link(file: Path) -> None:
    """Raise StoreFailed if `install` could not keep the old file: that must not be found out there."""
    trial = file.with_name(f"{file.name}.link")
    try:
        trial.unlink(missing_ok=True)  # of a process that died here
        if file.exists():
            os.link(file, trial)
            trial.unlink()
    except OSError as error:
        raise StoreFailed(
            f"{file} cannot be kept under a second name here ({error}), which is how it is put aside; "
            "move it away yourself, with all whose names begin like its own, then restore again"
        ) from error


def _last_access(file: Path) -> Access | None:
    """Return the access rights of the file that is replaced, if it can be read."""
    if _holds_nothing(file):
        return None
    try:
        with closing(read_only(file)) as replaced:
            return read_access(replaced)
    except (sqlite3.Error, msgspec.MsgspecError):
        return None


def install(fresh: Path, file: Path, aside: Path) -> None:
    """Put the prepared file in the file's place; keep the previous one under the name `aside`.

    One rename does it: a process that dies here leaves the old state whole, or the new one.
    """
    try:
        if file.exists() and not aside.exists():
            os.link(file, aside)
        # Of a file that is missing or damaged: any other is one piece by now.
        for end in BESIDE:
            if file.with_name(file.name + end).exists():
                file.with_name(file.name + end).rename(aside.with_name(aside.name + end))
        sync_folder(file.parent)
        fresh.replace(file)
        sync_folder(file.parent)
        if aside.exists() and not any(aside.with_name(aside.name + end).exists() for end in BESIDE):
            _mark_whole(aside)
    except OSError as error:
        raise StoreFailed(f"could not put {fresh} in the place of {file}: {error}") from error


def aside_of(file: Path, when: str) -> Path:
    """Return an unused name for the existing file; or the one that a process which died has given it."""
    for earlier in sorted(file.parent.glob(f"{file.name}.before-*")):
        if file.exists() and earlier.samefile(file):
            return earlier
    names = (f"{file.name}.before-{when}{f'-{n}' if n > 1 else ''}" for n in itertools.count(1))
    return next(path for path in map(file.with_name, names) if not _taken(path))


def _taken(path: Path) -> bool:
    return any(path.with_name(path.name + end).exists() for end in ("", *BESIDE))


def _fold(file: Path) -> None:
    """Bring the log of a file into it, without other users of the file: from then on one name is the whole
    state.

    By a checkpoint alone, at every moment of which it can be read; closing it removes the log.
    A damaged file stays as it is, with its log. Raises StoreFailed.
    """
    if _holds_nothing(file):
        return
    try:
        with closing(sqlite3.connect(file, isolation_level=None, timeout=BUSY)) as writer:
            writer.execute("PRAGMA synchronous = FULL")
            busy = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    except sqlite3.Error as error:
        if error.sqlite_errorcode & 0xFF in DAMAGED:
            return
        raise StoreFailed(f"could not bring the log of {file} into it: {error}") from error
    if busy:
        raise StoreFailed(f"another program has {file} open; end it, and try again")


def _holds_nothing(file: Path) -> bool:
    """Return whether the file is empty. Do not open such a file: SQLite, even read-only, deletes the log
    beside an empty one.
    """
    return not file.exists() or file.stat().st_size == 0


def _mark_whole(file: Path) -> None:
    """Mark in the header of a file that was put aside that it needs no log; a damaged one stays as it is."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(file, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = DELETE")


def _remove(file: Path) -> None:
    for end in (*BESIDE, ""):
        file.with_name(file.name + end).unlink(missing_ok=True)


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
