"""Duration of a job, estimated from similar jobs: an empirical law, conditioned on the known facts.

Jobs are alike in steps: the same name, user, queue and GPUs; the same user, queue and GPUs; the same queue
and GPUs; the same queue; any job. Every step adds its last jobs to the sample, the narrower ones with more
weight: few jobs of one's own are shrunk towards those of the queue. In each step later jobs weigh more than
earlier ones, and jobs that came as this one came (in a burst, or alone) more than others: a user who submits
fifty jobs in a minute submits fifty of a sort.

Running jobs count with their run time so far. Without them only the recent short ones would be known. Their
part is settled by the estimator of Kaplan and Meier (1958) with weights.

Nothing here reads a clock or draws random numbers: draws are quantiles of numbers that the caller has drawn.
"""

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grus.model.identifiers import QueueName, UserName

Seconds = NDArray[np.float64]

WINDOW = 500
"""Number of jobs of each sort that are remembered: the last ones that started."""
HALVING = 20.0
"""Number of later ended jobs of its sort after which an older one counts half."""
BURST = 1.0
"""Decades of the gap to the submission before, over which likeness falls to 1/e."""
BURST_STEP = 0.25
"""Gaps that differ by less are the same: jobs of a burst share a law, and it is worked out once."""
SHRINK = (float("inf"), 5.0, 5.0, 5.0, 0.5)
"""Number of jobs that the sample of each step may count as, from the narrowest to the widest."""
FEWEST = 3
"""Ended jobs of its queue or closer, below which nothing is said of a job."""
SHORTEST = 1.0
LONE_GAP = 1e5
"""Seconds: a submission so long after the one before is alone; longer makes no difference."""
LONE = 5.0
"""The same as it is kept, in decades."""


@dataclass(frozen=True, slots=True)
class Traits:
    """Facts about a job before it runs that help to estimate its duration."""

    name: str
    user: UserName
    queue: QueueName
    gpus: float

    def steps(self) -> tuple[Hashable, ...]:
        """Return the groups of similar jobs, from the closest likeness to none at all."""
        mine = (self.user, self.queue, self.gpus)
        return ((self.name, *mine), mine, (self.queue, self.gpus), (self.queue,), ())


class Law:
    """The chance that a job runs longer than so many seconds; beyond the longest seen, by Lindy's rule."""

    __slots__ = ("_beyond", "_times", "like", "limit")

    def __init__(
        self, times: Sequence[float] | Seconds, beyond: Sequence[float] | Seconds, like: int = 0
    ) -> None:
        """`times` ascend; `beyond` is the chance to run longer than each."""
        self._times: Seconds = np.asarray(times, dtype=np.float64)
        self._beyond: Seconds = np.asarray(beyond, dtype=np.float64)
        self.limit = float("inf")
        """It is ended then at the latest."""
        self.like = like
        """Number of ended jobs of its queue or closer that it is made of."""

    def capped(self, seconds: float | None) -> "Law":
        """The same for a job that is ended after so many seconds at the latest."""
        if seconds is None:
            return self
        made = Law(self._times, self._beyond, self.like)
        made.limit = min(self.limit, seconds)
        return made

    def survival(self, seconds: float) -> float:
        """The chance to run longer than this."""
        if seconds >= self.limit:
            return 0.0
        at = int(np.searchsorted(self._times, seconds, side="right"))
        if at == 0:
            return 1.0
        known = float(self._beyond[at - 1])
        return known * float(self._times[-1]) / seconds if at == len(self._times) else known

    def quantiles(self, levels: Sequence[float] | Seconds, ran: float = 0.0) -> Seconds:
        """Whole lengths that are reached with these chances, given that it has run for `ran` seconds."""
        wanted = np.asarray(levels, dtype=np.float64)
        alive = self.survival(ran) if ran > 0.0 else 1.0
        longest, left = float(self._times[-1]), float(self._beyond[-1])
        if alive <= 1e-9 or ran >= longest:  # No job ran so long: as long again, as a rule.
            found = max(ran, SHORTEST) / (1.0 - wanted)
        else:
            still = (1.0 - wanted) * alive
            at = np.searchsorted(-self._beyond, -still - 1e-12)
            inside = self._times[np.minimum(at, len(self._times) - 1)]
            found = np.where(at < len(self._times), inside, longest * np.maximum(left / still, 1.0))
        return np.minimum(np.maximum(found, ran), max(self.limit, ran))

    def quantile(self, level: float, ran: float = 0.0) -> float:
        return float(self.quantiles((level,), ran)[0])


NO_END = Law((1e10,), (0.0,))
"""The law of a job of which nothing is known: others do not count on its end, unless it has a time limit."""


class _JobTiming:
    """One job of the past or present. `ran` is None while it runs."""

    __slots__ = ("gap", "ran", "since")

    def __init__(self, since: float, gap: float) -> None:
        self.since = since
        self.gap = gap
        self.ran: float | None = None


class _Cohort:
    """The last jobs of one sort, in the order of their starts, as columns."""

    __slots__ = ("_columns", "_stale", "came", "known")

    def __init__(self) -> None:
        self.known: deque[_JobTiming] = deque(maxlen=WINDOW)
        self.came = -float("inf")
        """Submission time of the last job of the sort."""
        self._stale = True
        self._columns: tuple[Seconds, Seconds, Seconds, NDArray[np.bool_]]

    def changed(self) -> None:
        self._stale = True

    def columns(self) -> tuple[Seconds, Seconds, Seconds, NDArray[np.bool_]]:
        """Seconds run (where it has ended), beginnings, logarithms of the gaps, and which have ended."""
        if self._stale:
            ran = np.array([one.ran if one.ran is not None else -1.0 for one in self.known])
            since = np.array([one.since for one in self.known])
            gaps = np.array([one.gap for one in self.known])
            self._columns = (ran, since, gaps, ran >= 0.0)
            self._stale = False
        return self._columns


class Durations:
    """Knowledge from finished and running jobs. Facts come in the order of time: `came`, `began`, `ended`."""

    def __init__(self) -> None:
        self._cohorts: dict[Hashable, _Cohort] = {}
        self._running: dict[str, tuple[Traits, _JobTiming]] = {}
        self._gaps: dict[str, float] = {}
        self._laws: dict[tuple[Traits, int], Law | None] = {}
        self._laws_at = -float("inf")
        """Laws that were computed for this moment; facts and time make them void."""
        self.finished = 0
        """Ended jobs that were reported."""

    def came(self, job: str, traits: Traits, at: float) -> None:
        """A job was submitted."""
        self._laws.clear()
        sort = self._cohort(traits.steps()[2])
        self._gaps[job] = _gap(at - sort.came)
        sort.came = max(sort.came, at)

    def began(self, job: str, traits: Traits, at: float) -> None:
        """It started to run; after a pause, with `at` moved on by the time that it stood still."""
        self._laws.clear()
        if job in self._running:
            traits, again = self._running[job]
            again.since = at
            for step in traits.steps():
                self._cohort(step).changed()
            return
        known = _JobTiming(at, self._gaps.pop(job, LONE))
        self._running[job] = traits, known
        for step in traits.steps():
            cohort = self._cohort(step)
            cohort.known.append(known)
            cohort.changed()

    def ended(self, job: str, ran: float) -> None:
        """It ended after so many seconds of running. One that never began counts for nothing."""
        self._laws.clear()
        self._gaps.pop(job, None)
        found = self._running.pop(job, None)
        if found is None:
            return
        traits, known = found
        known.ran = max(ran, SHORTEST)
        self.finished += 1
        for step in traits.steps():
            self._cohort(step).changed()

    def _cohort(self, step: Hashable) -> _Cohort:
        return self._cohorts.setdefault(step, _Cohort())

    def law(self, job: str, traits: Traits, now: float) -> Law | None:
        """Return the law of this job's whole duration, as known now; None if fewer than `FEWEST` of its queue
        have ended.

        A job that was not reported counts as submitted now.
        """
        running = self._running.get(job)
        if running is not None:
            gap = running[1].gap
        else:
            sort = self._cohorts.get(traits.steps()[2])
            gap = self._gaps.get(job, _gap(now - sort.came) if sort is not None else LONE)
        if now != self._laws_at:
            self._laws.clear()
            self._laws_at = now
        alike = (traits, round(gap / BURST_STEP))
        if alike not in self._laws:
            self._laws[alike] = self._law(traits, now, alike[1] * BURST_STEP)
        return self._laws[alike]

    def _law(self, traits: Traits, now: float, gap: float) -> Law | None:
        pieces: list[tuple[Seconds, NDArray[np.bool_], Seconds]] = []
        like = 0
        before: deque[_JobTiming] = deque()
        for step, most in zip(traits.steps(), SHRINK, strict=True):
            cohort = self._cohorts.get(step)
            if cohort is None or not cohort.known or _same(before, cohort.known):
                continue
            before = cohort.known
            ran, since, gaps, ended = cohort.columns()
            if step:
                like = max(like, int(ended.sum()))
            times = np.where(ended, ran, np.maximum(now - since, SHORTEST))
            pieces.append((times, ended, _weights(ended, gaps, gap, most if pieces else SHRINK[0])))
        if like < FEWEST:
            return None
        times, ended, weights = (np.concatenate(column) for column in zip(*pieces, strict=True))
        return kaplan_meier(times, ended, weights, like)


def _same(narrow: deque[_JobTiming], wide: deque[_JobTiming]) -> bool:
    """Return whether the wider sort has no other jobs than the narrower one. Both are the last ones of
    theirs.
    """
    return len(narrow) == len(wide) and narrow[0] is wide[0]


def _gap(seconds: float) -> float:
    return float(np.log10(min(max(seconds, 1.0), LONE_GAP)))


def _weights(ended: NDArray[np.bool_], gaps: Seconds, gap: float, most: float) -> Seconds:
    """Return weights by the number of jobs that have ended since, and by the likeness of arrival; `most` in
    all.
    """
    later: NDArray[np.int64] = np.cumsum(ended[::-1])[::-1] - ended
    weights: Seconds = 0.5 ** (later / HALVING) * np.exp(-np.abs(gaps - gap) / BURST) + 1e-12
    total = float(weights.sum())
    return weights * (most / total) if total > most else weights


def kaplan_meier(times: Seconds, ended: NDArray[np.bool_], weights: Seconds, like: int) -> Law:
    """The law of a sample of which some have `ended` and the others are known to last longer than `times`."""
    order = np.argsort(times, kind="stable")
    times, ended, weights = times[order], ended[order], weights[order]
    at_risk = np.cumsum(weights[::-1])[::-1]
    beyond = np.cumprod(1.0 - np.where(ended, weights / at_risk, 0.0), dtype=np.float64)
    ended[-1] = True  # The longest is kept in any case: what lies beyond begins there.
    return Law(times[ended], beyond[ended], like)
