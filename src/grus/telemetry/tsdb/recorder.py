"""The recorder itself; see the package for what it is asked.

    sample ─→ open block (in memory) ─┬→ journal (on disk every few seconds)
                                      └→ when it is full: sealed, and folded into the coarser tiers

What is on disk is always the sealed blocks and a journal of everything since; a recorder that is killed has
lost what the last seconds brought. Sealing, folding and letting go are one transaction.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from grus.model.errors import BadInput, Mistake
from grus.telemetry.samples import Measure, Sample, Subject
from grus.telemetry.tsdb import block_flush, blocks, tiers
from grus.telemetry.tsdb.block_flush import Block
from grus.telemetry.tsdb.blocks import HIGHEST, DamagedBlock, JournalEntry
from grus.telemetry.tsdb.series import Series
from grus.telemetry.tsdb.series_ids import Name, Names
from grus.telemetry.tsdb.sqlite_file import DamagedRecorderFile, RecorderFile, Unwritable
from grus.telemetry.tsdb.tiers import Keep, Tier

log = logging.getLogger(__name__)

FLUSH = 3_000
"""Milliseconds after which what is new is in the journal."""
LATE = 120_000
"""Milliseconds by which a sample may be late; and by which its clock may be ahead."""
MOST_POINTS = 200_000
"""Points of one answer."""
MOST_SUBJECTS = 100_000
MOST_WAITING = 200_000
"""Values that wait for the journal while the disk refuses them."""
PAUSE = 30_000
"""Milliseconds until a disk that refused is asked again."""
AT_ONCE = 64
"""Blocks that are sealed in one go, unless a great many are due: the caller of `add` has to wait for it."""
MOST_OPEN = 6
"""Blocks of a subject that are kept in memory while the disk refuses them."""
TIDY = 86_400_000
"""Milliseconds between two looks for subjects of which nothing is left."""


class Recorder:
    """Recorder of samples, for any thread. `hz`: the highest rate of samples."""

    def __init__(
        self,
        path: Path,
        *,
        hz: float = 1.0,
        keep: Keep | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.keep = keep or Keep()
        self.base: Tier = tiers.base(hz)
        self._clock = clock
        self._lock = threading.RLock()
        self._open: dict[Subject, dict[int, Block]] = {}
        """Unsealed blocks, by the number of their span."""
        self._waiting: list[JournalEntry] = []
        self._flushed = self._tidied = self._now()
        self._closed = False
        self.trouble = ""
        """The problem that keeps it from writing, or the loss; for people."""
        try:
            self._file = RecorderFile(path)
        except Unwritable as error:
            self._file = RecorderFile(None)
            self._tell(f"{error}; telemetry is kept in memory only")
        self.trouble = self.trouble or self._file.put_aside
        self._lasting = self.trouble
        """The part of `trouble` that remains true when the disk accepts writes again."""
        self._names = Names(self._file)
        self._sealed = min(self._file.sealed, self._due(self._now()))
        self._replay()

    def _replay(self) -> None:
        by_id = {name.id: subject for subject, name in self._names.subjects.items()}
        for data in self._file.journal():
            try:
                found = blocks.entries(data)
            except DamagedBlock as error:
                self._tell(f"a part of the journal of telemetry cannot be read: {error}")
                continue
            for entry in found:
                if entry.subject in by_id and entry.at >= self._sealed:
                    self._place(by_id[entry.subject], entry.at, entry.code, entry.value)

    # ---------------------------------------------------------------------------------------- adding

    def add(self, samples: Iterable[Sample]) -> None:
        """Add samples; those of the last two minutes may come late and in any order, older ones are dropped.

        Never raises for a problem of the file: `trouble` names it, and recording continues.
        """
        with self._lock:
            if self._closed:
                return
            now = self._now()
            # A clock that was ahead and was set right: sealing again what was sealed changes nothing.
            self._sealed = min(self._sealed, self._due(now))
            for sample in samples:
                at = int(sample.at * 1000)
                if self._sealed <= at <= now + LATE:
                    self._take(sample, at)
            if now - self._flushed >= FLUSH or now < self._flushed - PAUSE:
                self._flushed = now
                self._write(now)

    def _take(self, sample: Sample, at: int) -> None:
        subject = sample.subject
        name = self._names.subjects.get(subject)
        if name is None:
            if len(self._names.subjects) >= MOST_SUBJECTS:
                self._tell(f"more than {MOST_SUBJECTS} subjects of telemetry; new ones are not recorded")
                return
            name = self._names.name(subject)
        for measure, value in sample.values.items():
            code = self._names.codes.get(measure) or self._names.code(measure)
            self._place(subject, at, code, value)
            self._waiting.append(JournalEntry(name.id, code, at, value))

    def _place(self, subject: Subject, at: int, code: int, value: float) -> None:
        number, rest = divmod(at, self.base.span)
        mine = self._open.get(subject)
        if mine is None:
            mine = self._open[subject] = {}
        block = mine.get(number)
        if block is None:
            block = mine[number] = {}
        row = block.get(code)
        if row is None:
            row = block[code] = np.full(self.base.slots, np.nan, dtype=np.float32)
            self._names.has(subject, code)
        row[rest // self.base.step] = value

    # --------------------------------------------------------------------------------------- writing

    def _write(self, now: int) -> None:
        """Bring the file up to date; in any case, the data in memory stays bounded."""
        until = self._due(now)
        due = [
            (subject, number)
            for subject, mine in self._open.items()
            for number in mine
            if (number + 1) * self.base.span <= until
        ]
        some = due[: max(AT_ONCE, len(due) // 10)]
        sealed = until if len(some) == len(due) else self._sealed
        try:
            self._file.guarded(lambda: self._write_all(some, sealed, now))
        except Unwritable as error:
            self._tell(f"telemetry cannot be written: {error}")
            self._flushed += PAUSE
            del self._waiting[:-MOST_WAITING]
            self._drop_open(until - MOST_OPEN * self.base.span)
        except DamagedRecorderFile as error:
            self._learn_loss(error)
            self._waiting.clear()
        else:
            self._names.written()
            self._waiting.clear()
            self.trouble = self._lasting
            self._sealed = max(self._sealed, sealed)
            self._let_go(some)

    def _write_all(self, some: Sequence[tuple[Subject, int]], sealed: int, now: int) -> None:
        with self._file.transaction():
            self._names.write(self._file)
            if self._waiting:
                newest = max(entry.at for entry in self._waiting)
                self._file.write_journal(newest, blocks.journalled(self._waiting))
            for subject, number in some:
                id_ = self._names.subjects[subject].id
                block_flush.seal(self._file, self.base, id_, number, self._open[subject][number])
            if sealed > self._sealed:  # else a restart seals some again, which changes nothing
                self._file.seal(sealed)
                self._file.prune(now, self.keep)
            if now - self._tidied >= TIDY:
                self._tidied = now
                self._names.forget(set(self._file.drop_subjects()), set(self._open))
                self._names.write_all_again()

    def _let_go(self, sealed: Iterable[tuple[Subject, int]]) -> None:
        for subject, number in sealed:
            del self._open[subject][number]
            if not self._open[subject]:
                del self._open[subject]

    def _drop_open(self, until: int) -> None:
        """Drop open blocks before that, though they are on no disk."""
        oldest = until // self.base.span
        for subject in [subject for subject, mine in self._open.items() if min(mine) < oldest]:
            left = {number: block for number, block in self._open[subject].items() if number >= oldest}
            if left:
                self._open[subject] = left
            else:
                del self._open[subject]

    # --------------------------------------------------------------------------------------- reading

    def finest(self, since: float) -> float:
        """Seconds of the finest step that still reaches back to then."""
        return tiers.reaching(self._clock() - since, self.keep, self.base).step / 1000

    def read(
        self,
        subject: Subject,
        measure: Measure,
        since: float,
        until: float,
        step: float | None = None,
        *,
        highest: bool = False,
    ) -> Series:
        """Means (or maxima) of each `step` seconds from `since`, rounded down to the step's grid, to `until`.

        Without a step: as finely as it is still known. Where the tier that a step is read from no longer
        reaches, there is NaN: ask for a larger step. Raises BadInput for more points than anybody can use.
        """
        finest = self.base.step / 1000
        if step is None:
            step = self.finest(since)
        every = round(max(step, finest) * 1000)
        start = int(since * 1000) // every * every
        count = max(0, math.ceil((until * 1000 - start) / every))
        if count > MOST_POINTS:
            rule = f"would give {count} points, more than {MOST_POINTS}; ask for a larger one"
            raise BadInput([Mistake("step", rule, f"{step:g}")])
        tier = tiers.fitting(every / 1000, self.base)
        with self._lock:
            found = self._found(subject, measure, tier, start, start + every * count, highest)
        values = tiers.spread(found, start, every, count, highest=highest)
        return Series(start / 1000, every / 1000, values)

    def _found(
        self, subject: Subject, measure: Measure, tier: Tier, start: int, until: int, highest: bool
    ) -> list[tiers.Placed]:
        """Blocks with what is asked: the sealed ones of the tier, and what is still open."""
        name, code = self._names.subjects.get(subject), self._names.codes.get(measure)
        if name is None or code is None or self._closed:
            return []
        found = [
            (number * self.base.span, self.base, block[code])
            for number, block in self._open.get(subject, {}).items()
            if code in block
        ]
        try:
            sealed = self._file.guarded(lambda: self._sealed_blocks(name, tier, start, until))
        except Unwritable as error:
            self._tell(f"recorded telemetry cannot be read: {error}")
            return found
        except DamagedRecorderFile as error:
            self._learn_loss(error)
            return found
        wanted = code + HIGHEST if highest and tier is not self.base else code
        return found + [(first, tier, block[wanted]) for first, block in sealed if wanted in block]

    def _sealed_blocks(self, name: Name, tier: Tier, start: int, until: int) -> list[tuple[int, Block]]:
        numbers = self._file.spans(tier, start // tier.span, -(-until // tier.span))
        return [
            (number * tier.span, block_flush.read(self._file.block(tier, number, name.id), tier))
            for number in numbers
        ]

    def subjects(self) -> frozenset[Subject]:
        """Return the subjects with series."""
        with self._lock:
            return frozenset(self._names.subjects)

    def measures(self, subject: Subject) -> frozenset[Measure]:
        """Return all measures ever recorded for it."""
        with self._lock:
            return self._names.measures(subject)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        with self._lock:
            return self._file.size

    def close(self) -> None:
        """Write down what is not yet. Idempotent."""
        with self._lock:
            if not self._closed:
                self._write(self._now())
                self._closed = True
                self._file.close()

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def _due(self, now: int) -> int:
        """Return the moment before which blocks are full: no more samples are accepted for them."""
        return (now - LATE) // self.base.span * self.base.span

    def _learn_loss(self, loss: DamagedRecorderFile) -> None:
        self._tell(str(loss))
        self._lasting = self.trouble
        self._names.write_all_again()

    def _tell(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.warning("%s", trouble)
        self.trouble = trouble
