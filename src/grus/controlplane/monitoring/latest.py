"""Latest value of every measurement, as long as it is current. Not thread-safe.

A value measured several times a second is reported as the mean of its last second: one tenth of a second says
little to users, and less to a client that asks every ten seconds.
"""

from collections import deque
from collections.abc import Iterable

from grus.model.identifiers import JobId
from grus.telemetry.samples import Measure, Sample, Subject

MEAN = 0.999
"""Seconds; a little less than one, so that of one sample a second there is one."""
STALE = 3.0
"""After so many times its source's interval (and never sooner than some seconds) a value is old."""
SHORTEST_STALE = 15.0


class _Values:
    """Values of one measure of one subject: its last second."""

    __slots__ = ("old", "recent")

    def __init__(self) -> None:
        self.recent: deque[tuple[float, float]] = deque()
        self.old = 0.0

    def take(self, at: float, value: float, fresh: float) -> None:
        if self.recent and at <= self.recent[-1][0]:
            return
        self.recent.append((at, value))
        self.old = at + fresh
        while self.recent[0][0] < at - MEAN:
            self.recent.popleft()

    @property
    def mean(self) -> float:
        return sum(value for _, value in self.recent) / len(self.recent)


class Newest:
    """Values by subject and measure: values that are measured less often than the rest do not vanish in
    between.
    """

    def __init__(self) -> None:
        self._known: dict[Subject, dict[Measure, _Values]] = {}

    def take(self, samples: Iterable[Sample], every: float) -> None:
        """Record samples of a source that has new ones `every` so many seconds."""
        fresh = max(SHORTEST_STALE, STALE * every)
        for sample in samples:
            mine = self._known.setdefault(sample.subject, {})
            for measure, value in sample.values.items():
                values = mine.get(measure)
                if values is None:
                    values = mine[measure] = _Values()
                values.take(sample.at, value, fresh)

    def at(self, now: float, *, gpus_only: bool = False, job: JobId | None = None) -> dict[Subject, Sample]:
        """Return all current values, or only those of GPUs, or of this job."""
        found = {}
        for subject, mine in self._known.items():
            if (gpus_only and subject.device is None) or (job is not None and subject.job != job):
                continue
            current = {measure: values for measure, values in mine.items() if now < values.old}
            if current:
                last = max(values.recent[-1][0] for values in current.values())
                means = {measure: values.mean for measure, values in current.items()}
                found[subject] = Sample(subject, last, means)
        return found

    def tidy(self, now: float) -> None:
        """Drop the values that are no longer current."""
        for subject, mine in list(self._known.items()):
            left = {measure: values for measure, values in mine.items() if now < values.old}
            if left:
                self._known[subject] = left
            else:
                del self._known[subject]
