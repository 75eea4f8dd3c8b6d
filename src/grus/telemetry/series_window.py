"""Data of one subject (a GPU, or a worker's processes), and its view at one moment."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grus.patterns import hangs, training_phases
from grus.patterns.activity_bursts import Activity
from grus.patterns.online import Beat
from grus.patterns.periods import Rhythm, rhythm
from grus.patterns.windows import Window
from grus.patterns.workload_classifier import SURE, Traits, traits
from grus.telemetry.samples import Measure, Sample

Floats = NDArray[np.float64]

FINE = 300
"""Seconds that are kept in bins of one second, …"""
COARSE = 720
"""… and bins of ten seconds: two hours, for long periods."""
WIDE = 10.0
RAW = 600
"""Samples of activity that are kept as they come."""
AGAIN_AFTER = 5.0
"""Seconds until a period that is in doubt is searched for again."""
SHORT = 6.0
"""Seconds of a period below which samples are looked at as they came, …"""
LONG = 45.0
"""… and from which the coarse bins are."""
WORK = (Measure.UTILISATION, Measure.ACTIVE, Measure.MEMORY_TIME, Measure.CPU)
"""Measures that show activity, best first."""
RHYTHMS = (Measure.UTILISATION, Measure.POWER, Measure.MEMORY_TIME, Measure.ACTIVE, Measure.MEMORY)
"""Measures that are searched for a period, each on its own; CPU if there is none of the first."""
WORDS = {Measure.MEMORY_TIME: "memory traffic", Measure.CPU: "CPU time"}
NOW = 3
"""Seconds that are now."""
SHORTEST_SILENCE = 10.0
SILENCE = 4.0
"""Times its usual interval after which a subject is silent."""
AGAIN = 0.15
"""Confidence by which another measure must be better to take over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectState:
    """View of a subject at one moment."""

    device: bool
    """True for a GPU, False for a worker's processes."""
    traits: Traits
    utilisation: float | None
    peak_memory: int | None
    flat_for: float
    steady: bool
    """True if activity has hardly moved lately, unusual or not."""
    power_low: bool | None
    had: Rhythm | None
    """The period with which it last worked, though it may be gone."""
    now: float
    """Activity of the last seconds, …"""
    usual: float
    """… and while it is busy."""
    levels: tuple[float, float] | None
    writes: float | None


class Track:
    """One subject. Holds 12 kB of windows for each of three measures, and a `Beat` for each of up to five."""

    def __init__(self, *, device: bool) -> None:
        self._device = device
        self.activity = Activity()
        self.at = 0.0
        """Time of the newest sample."""
        self.holder = ""
        self.peak_memory = 0.0
        self._work: Measure | None = None
        self._windows: dict[Measure, Window] = {}
        self._wide: dict[Measure, Window] = {}
        self._beats: dict[Measure, Beat] = {}
        self._last: dict[Measure, float] = {}
        self._rhythm: tuple[Measure, Rhythm, float] | None = None
        """The one in use, where it shows, and when it was last confirmed."""
        self._had: Rhythm | None = None
        self._raw: deque[tuple[float, float]] = deque(maxlen=RAW)
        """The last activity as it came, for periods that bins of a second are too wide for."""
        self._beats_on: tuple[float, bool] | None = None
        self._viewed: tuple[float, SubjectState] | None = None

    def take(self, sample: Sample) -> None:
        """Take in what is newer than what was taken before."""
        fresh = {
            measure: value
            for measure, value in sample.values.items()
            if sample.at > self._last.get(measure, float("-inf")) and np.isfinite(value)
        }
        if not fresh:
            return
        self.at = max(self.at, sample.at)
        self.holder = sample.holder
        self._choose(fresh)
        for measure, value in fresh.items():
            self._last[measure] = sample.at
            self._add(measure, sample.at, value)
        self.peak_memory = max(self.peak_memory, fresh.get(Measure.MEMORY, 0.0))

    def _choose(self, fresh: Mapping[Measure, float]) -> None:
        """Read activity off the best measure that there is."""
        best = next((measure for measure in WORK if measure in fresh), None)
        if best is None or (self._work is not None and WORK.index(self._work) <= WORK.index(best)):
            return
        self._work = best
        self.activity = Activity()

    def _add(self, measure: Measure, at: float, value: float) -> None:
        if measure is self._work:
            self.activity.add(at, value)
            self._raw.append((at, value))
        if measure in RHYTHMS or measure is self._work:
            self._beats.setdefault(measure, Beat()).add(at, value)
        if measure in {self._work, Measure.MEMORY, Measure.POWER, Measure.DISK_WRITE}:
            self._window(measure).add(at, value)
        if measure in {self._work, Measure.POWER}:
            self._wide.setdefault(measure, Window(COARSE, WIDE)).add(at, value)

    def _window(self, measure: Measure) -> Window:
        return self._windows.setdefault(measure, Window(FINE))

    @property
    def silent_after(self) -> float:
        """Return the time after which its activity is unknown, unless a sample comes."""
        return self.at + max(SHORTEST_SILENCE, SILENCE * self.activity.gap)

    def _clearest(self, now: float) -> tuple[Measure, Rhythm] | None:
        """Return the clearest period. It stays with its measure while that is about as clear as any."""
        found = {
            measure: beat
            for measure, one in self._beats.items()
            if (beat := one.found(now)) is not None and beat.confidence >= SURE
        }
        kept = self._rhythm
        if found:
            best = max(found, key=lambda measure: found[measure].confidence)
            if kept is not None and kept[0] in found:
                before = kept[0]
                best = best if found[best].confidence > found[before].confidence + AGAIN else before
            if self.activity.carries(found[best].period):
                self._had = found[best]
            self._rhythm = kept = (best, found[best], now)
        elif kept is not None and now - kept[2] > max(SHORTEST_SILENCE, 2 * kept[1].period):
            self._rhythm = kept = None
        return None if kept is None else kept[:2]

    def beats_since(self, since: float, period: float) -> bool:
        """Return whether that period has continued since then; checked again every few seconds.

        A `Beat` looks far back and forgets a period slowly; this looks at nothing older.
        """
        if self._beats_on is None or self.at - self._beats_on[0] >= AGAIN_AFTER:
            self._beats_on = (self.at, self._goes_on(since, period))
        return self._beats_on[1]

    def _goes_on(self, since: float, period: float) -> bool:
        if period < SHORT:
            samples = np.array([sample for sample in self._raw if sample[0] > since]).reshape(-1, 2)
            step, values = max(self.activity.gap, 1e-3), samples[:, 1]
        else:
            step, windows = (WIDE, self._wide) if period >= LONG else (1.0, self._windows)
            values = self._values(self._work, windows)
            values = values[len(values) - min(len(values), int((self.at - since) / step)) :]
        found = rhythm(values, step)
        return found is not None and found.confidence >= SURE and 0.4 < found.period / period < 2.5

    def view(self, now: float, refresh: float = 0.0) -> SubjectState:
        """Return its view; a view of up to `refresh` seconds ago is good enough."""
        if self._viewed is None or not now - refresh < self._viewed[0] <= now:
            self._viewed = (now, self._view(now))
        return self._viewed[1]

    def _view(self, now: float) -> SubjectState:
        beat = self._clearest(now)
        measure, clearest = beat if beat is not None else (None, None)
        values = self._values(self._work, self._windows)
        memory = self._values(Measure.MEMORY, self._windows)
        long = self._had is not None and self._had.period >= LONG
        work, width = (self._values(self._work, self._wide), WIDE) if long else (values, 1.0)
        flat = hangs.flat_for(work, width) if self._work is not None else 0.0
        known = values[np.isfinite(values)]
        return SubjectState(
            device=self._device,
            traits=traits(self.activity, values, memory, clearest, _word(measure)),
            utilisation=float(known.mean()) if len(known) and self._work is not Measure.CPU else None,
            peak_memory=int(self.peak_memory) or None,
            flat_for=flat,
            steady=hangs.steady(known),
            power_low=self._power_low(flat, long),
            had=self._had,
            now=float(known[-NOW:].mean()) if len(known) else 0.0,
            usual=training_phases.usual(known),
            levels=self._levels(known, clearest),
            writes=self._recent(Measure.DISK_WRITE),
        )

    def _levels(self, known: Floats, beat: Rhythm | None) -> tuple[float, float] | None:
        if beat is None or beat.period < training_phases.SHORTEST_PERIOD:
            return None
        return training_phases.levels(known, beat.period / max(1.0, self.activity.gap))

    def _power_low(self, flat: float, long: bool) -> bool | None:
        if not flat or Measure.POWER not in self._windows:
            return None
        values = self._values(Measure.POWER, self._wide if long else self._windows)
        return hangs.power_low(values, max(2, int(flat / (WIDE if long else 1.0))))

    def _recent(self, measure: Measure) -> float | None:
        values = self._values(measure, self._windows)
        known = values[np.isfinite(values)][-NOW:]
        return float(known.mean()) if len(known) else None

    @staticmethod
    def _values(measure: Measure | None, windows: Mapping[Measure, Window]) -> Floats:
        return windows[measure].values() if measure is not None and measure in windows else np.zeros(0)


def _word(measure: Measure | None) -> str:
    return "" if measure is None else WORDS.get(measure, measure.value)
