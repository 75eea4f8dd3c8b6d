"""Periods as samples arrive: several scales at once, bounded memory, and work only for new samples.

A scale keeps the newest 1,024 means of its step: that of the samples, ten times that, and so on until a half
hour has room four times. At 10 Hz these are 102 s, 17 min and 2.8 h, so that periods from 0.4 s to 40 min are
found, each as soon as it was seen four times or a little more often.
"""

import math

import numpy as np

from grus.patterns.periods import DetectedPeriod, Floats, Rhythm, look, told

LEARNING = 8  # Samples from which the interval between them is learned.
CLOSEST, WIDEST = 0.05, 60.0  # Seconds between samples that are accepted.
SLOTS, FIRST_SLOTS = 1024, 64
LONGEST = 1800.0  # Seconds of a period that must have room four times, and a little more.
COARSER = 10
PRESENT = 0.2  # Part of a sample: a slot with less is a gap.
AFRESH, OFTEN = 8, 32  # New slots until it is worth another look: so many, and a part of those there are.
NEWEST = 3  # If the whole series has no period, its newest third may have one.
STILL = 0.2  # Likeness of the latest cycles to the others while a period continues.
AT_ONCE = 0.9  # Confidence with which one look is enough; else it takes two that agree.
AGREE = 0.1
SPARED = 2  # Looks in a row without the period until it is gone.


class TimeScale:
    """Means of one step: slot k is of samples around `origin + k · step`, nearer ones counting more."""

    def __init__(self, origin: float, step: float) -> None:
        self.step = step
        self._origin = origin
        self._slots = np.full(FIRST_SLOTS, np.nan, dtype=np.float32)
        self._count = 0
        """Slots that are complete, those that were dropped included."""
        self._sums = [0.0, 0.0]
        self._weights = [0.0, 0.0]
        self._looked = 0
        self._found: DetectedPeriod | None = None
        self._hoped: DetectedPeriod | None = None
        self._missed = 0

    def add(self, at: float, value: float) -> None:
        place = (at - self._origin) / self.step
        slot = math.floor(place)
        if slot - self._count > SLOTS:
            self._skip(slot)
        while self._count < slot:
            self._push(self._sums[0] / self._weights[0] if self._weights[0] > PRESENT else math.nan)
            self._sums = [self._sums[1], 0.0]
            self._weights = [self._weights[1], 0.0]
        share = place - slot
        self._sums[0] += (1 - share) * value
        self._weights[0] += 1 - share
        self._sums[1] += share * value
        self._weights[1] += share

    def found(self) -> DetectedPeriod | None:
        """Return the result of the last look; look again if enough is new."""
        known = min(self._count, SLOTS)
        if self._count - self._looked >= max(AFRESH, known // OFTEN):
            self._looked = self._count
            self._learn(self._look(known))
        return self._found

    def _learn(self, seen: DetectedPeriod | None) -> None:
        """Believe what is clear or was seen before; forget what was not seen for some time."""
        before, self._hoped = self._found or self._hoped, seen
        if seen is None:
            self._missed += 1
            if self._missed >= SPARED:
                self._found = None
            return
        self._missed = 0
        agreed = before is not None and abs(seen.rhythm.period / before.rhythm.period - 1) < AGREE
        self._found = seen if agreed or seen.rhythm.confidence >= AT_ONCE else None

    def _look(self, known: int) -> DetectedPeriod | None:
        for count in (known, known // NEWEST):
            first = self._count - count
            seen = look(self._newest(count), self.step, start=self._origin + first * self.step)
            if seen is not None and seen.evidence.latest >= STILL:
                return seen
        return None

    def _newest(self, count: int) -> Floats:
        size = len(self._slots)
        places = np.arange(self._count - count, self._count) % size
        return self._slots[places].astype(np.float64)

    def _push(self, value: float) -> None:
        size = len(self._slots)
        if self._count == size < SLOTS:
            self._slots = np.concatenate([self._slots, np.full(size, np.nan, dtype=np.float32)])
            size *= 2
        self._slots[self._count % size] = value
        self._count += 1

    def _skip(self, slot: int) -> None:
        """Start again after a silence longer than all that is kept."""
        self._slots = np.full(SLOTS, np.nan, dtype=np.float32)
        self._count, self._looked = slot, slot
        self._sums, self._weights = [0.0, 0.0], [0.0, 0.0]
        self._found = self._hoped = None


class Beat:
    """Period detector of one measure of one subject: at most 12 kB, and some 2 µs for each sample.

    A look takes a millisecond or two and comes once in 32 slots of a scale, more often at first: at 1 Hz that
    is about a ten-thousandth of a core, at 10 Hz about a thousandth.
    """

    def __init__(self) -> None:
        self._first: list[tuple[float, float]] = []
        self._scales: list[TimeScale] = []
        self._at = -math.inf

    def add(self, at: float, value: float) -> None:
        """Take a sample; one that is not newer than the last is passed over. NaN is a gap, as is silence."""
        if at <= self._at or not math.isfinite(value):
            return
        self._at = at
        if self._scales:
            for scale in self._scales:
                scale.add(at, value)
            return
        self._first.append((at, value))
        if len(self._first) == LEARNING:
            self._begin()

    def found(self, now: float) -> Rhythm | None:
        """Return the period of the added samples; none once it was silent for a period. Cheap when nothing is
        new.
        """
        best = told([scale.found() for scale in self._scales])
        if best is None or now - self._at > max(best.rhythm.period, LEARNING * self._scales[0].step):
            return None
        return best.rhythm

    def _begin(self) -> None:
        """The samples tell how far apart they are; the scales follow from that."""
        moments = np.array([at for at, _ in self._first])
        step = float(np.clip(np.median(np.diff(moments)), CLOSEST, WIDEST))
        while not self._scales or self._scales[-1].step * SLOTS < 4.2 * LONGEST:
            self._scales.append(TimeScale(self._first[0][0], step))
            step *= COARSER
        for at, value in self._first:
            for scale in self._scales:
                scale.add(at, value)
        self._first.clear()
