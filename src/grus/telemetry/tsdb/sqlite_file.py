"""The recorder's file: SQLite with blocks, and a journal of values not in a block yet.

It may be lost: a file that is damaged, or of another version, is put aside (one such file is kept) and a new
one started; `put_aside` then says so. A loss of power costs the values of the last moments, never the file.
All callers hold the recorder's lock.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from grus.model.identifiers import DeviceId, JobId, NodeId, WorkerId
from grus.telemetry.samples import Subject
from grus.telemetry.tsdb.tiers import TIERS, Keep, Tier

log = logging.getLogger(__name__)

VERSION = 1
_SCHEMA = """
CREATE TABLE subjects (id INTEGER PRIMARY KEY, node TEXT NOT NULL, device TEXT NOT NULL,
    instance TEXT NOT NULL, job TEXT NOT NULL, worker TEXT NOT NULL, measures INTEGER NOT NULL);
CREATE TABLE measures (code INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE blocks (place INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE journal (id INTEGER PRIMARY KEY, until INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE sealed (until INTEGER NOT NULL);
INSERT INTO sealed VALUES (0);
"""
# A block's place: its tier, the number of its span since 1970 and its subject. So blocks of one time lie
# together: they are written one behind the other, and what is old is one range.
_TIER, _SPAN = 58, 32
_SUBJECTS = (1 << _SPAN) - 1
_SIDES = ("", "-wal", "-shm")

T = TypeVar("T")


class Unwritable(Exception):
    """The disk refuses; the file itself is whole."""


class DamagedRecorderFile(Exception):
    """The file was damaged and was put aside: its content is lost, and a new one has started."""


def place(tier: Tier, number: int, subject: int = 0) -> int:
    return tier.number << _TIER | number << _SPAN | subject


class RecorderFile:
    """Open from the first moment; see the module."""

    def __init__(self, path: Path | None) -> None:
        """Open the file; without a path, it is kept in memory."""
        self._path = path or Path(":memory:")
        self.put_aside: str = ""
        """The problem of the last file that was damaged."""
        self._bytes: dict[int, dict[int, int]] = {}
        """Bytes by tier, then by the number of the span."""
        try:
            self._open()
        except sqlite3.OperationalError as error:
            raise Unwritable(f"{path} cannot be opened: {error}") from error
        except sqlite3.DatabaseError as error:
            self._begin_anew(error)

    def _open(self) -> None:
        self._db = sqlite3.connect(str(self._path), isolation_level=None, check_same_thread=False)
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            [version] = self._db.execute("PRAGMA user_version").fetchone()
            if version == 0 and not self._db.execute("SELECT 1 FROM sqlite_schema").fetchone():
                self._db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT")
            elif version != VERSION:
                raise sqlite3.DatabaseError(f"it is of version {version}, and this is {VERSION}")
            self._bytes = {tier.number: self._sizes(tier) for tier in TIERS}
            self._db.execute("SELECT until FROM sealed, (SELECT max(id) FROM journal)").fetchone()
        except sqlite3.Error:
            self._db.close()
            raise

    def _sizes(self, tier: Tier) -> dict[int, int]:
        first, last = place(tier, 0), place(tier._replace(number=tier.number + 1), 0)
        found = self._db.execute(
            "SELECT (place >> ?) & ?, sum(length(data)) FROM blocks"
            " WHERE place >= ? AND place < ? GROUP BY 1",
            (_SPAN, (1 << (_TIER - _SPAN)) - 1, first, last),
        )
        return dict(found.fetchall())

    def _begin_anew(self, why: Exception) -> None:
        with suppress(sqlite3.Error):
            self._db.close()
        aside = self._path.with_name(self._path.name + ".damaged")
        for side in _SIDES:
            here = self._path.with_name(self._path.name + side)
            if here.exists():
                here.replace(aside.with_name(aside.name + side))
        self.put_aside = f"{self._path} could not be read ({why}); it is now {aside}, and a new one has begun"
        log.error("recorded telemetry is lost: %s", self.put_aside)
        try:
            self._open()
        except sqlite3.Error as error:
            raise Unwritable(f"{self._path} cannot be made: {error}") from error

    def guarded(self, work: Callable[[], T]) -> T:
        """The work's result. Raises Unwritable, with nothing changed, or Gone."""
        try:
            return work()
        except sqlite3.OperationalError as error:
            raise Unwritable(str(error)) from error
        except sqlite3.DatabaseError as error:
            self._begin_anew(error)
            raise DamagedRecorderFile(self.put_aside) from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
                self._bytes = {tier.number: self._sizes(tier) for tier in TIERS}
            raise

    def close(self) -> None:
        self._db.close()

    # ---------------------------------------------------------------------------- subjects, measures

    def subjects(self) -> dict[Subject, tuple[int, int]]:
        """The number of each, and the set of its measures' codes as bits."""
        found = self._db.execute("SELECT node, device, instance, job, worker, id, measures FROM subjects")
        return {_subject(row): (row[5], row[6]) for row in found}

    def put_subject(self, subject: Subject, number: int, measures: int) -> None:
        self._db.execute(
            "INSERT INTO subjects VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET measures = excluded.measures",
            (number, *(part or "" for part in subject), measures),
        )

    def drop_subjects(self) -> list[int]:
        """Forget those of which nothing is left; their numbers."""
        found = self._db.execute(
            "DELETE FROM subjects WHERE id NOT IN (SELECT place & ? FROM blocks) RETURNING id", (_SUBJECTS,)
        )
        return [id_ for (id_,) in found.fetchall()]

    def measures(self) -> dict[str, int]:
        return {name: code for code, name in self._db.execute("SELECT code, name FROM measures")}

    def put_measure(self, code: int, name: str) -> None:
        self._db.execute("INSERT OR IGNORE INTO measures VALUES (?, ?)", (code, name))

    # ------------------------------------------------------------------------------ journal, blocks

    @property
    def sealed(self) -> int:
        """Milliseconds: everything before is in blocks."""
        [until] = self._db.execute("SELECT until FROM sealed").fetchone()
        return int(until)

    def seal(self, until: int) -> None:
        """The journal up to there is no longer needed."""
        self._db.execute("UPDATE sealed SET until = ?", (until,))
        self._db.execute("DELETE FROM journal WHERE until < ?", (until,))

    def write_journal(self, until: int, data: bytes) -> None:
        """`until`: the newest moment in it."""
        self._db.execute("INSERT INTO journal (until, data) VALUES (?, ?)", (until, data))

    def journal(self) -> list[bytes]:
        return [data for (data,) in self._db.execute("SELECT data FROM journal ORDER BY id")]

    def block(self, tier: Tier, number: int, subject: int) -> bytes | None:
        row = self._db.execute(
            "SELECT data FROM blocks WHERE place = ?", (place(tier, number, subject),)
        ).fetchone()
        return None if row is None else row[0]

    def put_block(self, tier: Tier, number: int, subject: int, data: bytes, replaced: int = 0) -> None:
        """`replaced`: bytes of the block that stood there before."""
        self._db.execute(
            "INSERT INTO blocks VALUES (?, ?) ON CONFLICT (place) DO UPDATE SET data = excluded.data",
            (place(tier, number, subject), data),
        )
        sizes = self._bytes[tier.number]
        sizes[number] = sizes.get(number, 0) + len(data) - replaced

    def spans(self, tier: Tier, first: int, end: int) -> list[int]:
        """The numbers from `first`, before `end`, of which there are blocks."""
        return sorted(number for number in self._bytes[tier.number] if first <= number < end)

    def prune(self, now: int, keep: Keep) -> None:
        """Delete data that is too old, and the oldest of a tier that takes more than its part."""
        for tier in TIERS:
            sizes = self._bytes[tier.number]
            oldest = (now - int(1000 * keep.of(tier))) // tier.span
            old = [number for number in sorted(sizes) if number < oldest]
            left = sum(size for number, size in sizes.items() if number >= oldest)
            for number in sorted(sizes)[len(old) :]:
                if left <= keep.size * tier.part:
                    break
                old.append(number)
                left -= sizes[number]
            self._drop(tier, old)

    def _drop(self, tier: Tier, numbers: Sequence[int]) -> None:
        for number in numbers:
            first = place(tier, number)
            self._db.execute("DELETE FROM blocks WHERE place BETWEEN ? AND ?", (first, first | _SUBJECTS))
            del self._bytes[tier.number][number]

    @property
    def size(self) -> int:
        """Bytes on disk."""
        there = [self._path.with_name(self._path.name + side) for side in _SIDES]
        return sum(one.stat().st_size for one in there if one.exists())


def _subject(row: tuple[str, str, str, str, str, int, int]) -> Subject:
    node, device, instance, job, worker = row[:5]
    return Subject(
        NodeId(node),
        DeviceId(device) if device else None,
        instance,
        JobId(job) if job else None,
        WorkerId(worker) if worker else None,
    )
