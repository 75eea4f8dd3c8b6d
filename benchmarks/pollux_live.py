"""The same workloads with events instead of ticks, and resizes as Grus does them.

A decision follows a submission, an end, a first measurement at a new size, or a quiet minute. A start, a
resume or a move of all workers takes 30 s. A resize that keeps a worker stalls it for `stall` seconds;
newly given GPUs do no work for 30 s while the kept ones go on. Measurements count after ten seconds of
running.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.pollux_elastic import Elastic
from benchmarks.pollux_replay import RESTART, Allocation, Outcome, Running, outcome, run_lengths

SETTLED = 10.0  # Seconds of running before a measurement counts.
QUIET = 60.0  # A decision at least this often.
SOON = 1e-6


@dataclass(slots=True)
class Live:
    """A job between events: `job.allocation` is what works, `held` also what is booting."""

    job: Running
    held: Allocation = ()
    joins_at: float | None = None
    runs_at: float = 0.0  # when the present stall is over
    settles_at: float | None = None
    rate: float = 0.0

    def due(self, now: float) -> float:
        """The next moment at which something changes by itself."""
        if not self.job.allocation:
            return float("inf")
        moments = [moment for moment in (self.joins_at, self.settles_at) if moment is not None]
        if self.runs_at > now:
            return min([self.runs_at, *moments])
        left = self.job.app.milestones[self.job.epoch + 1] - self.job.progress
        return min([now + max(left, 0.0) / self.rate, *moments])


class LiveReplay:
    """One workload from its first submission to its last end."""

    def __init__(self, jobs: Sequence[Running], policy: Elastic, stall: float) -> None:
        self._jobs, self._policy, self._stall = jobs, policy, stall
        self._coming = sorted(jobs, key=lambda job: job.submission.time, reverse=True)
        self._active: dict[str, Live] = {}
        self._now = 0.0

    def run(self) -> Outcome:
        decided = 0.0
        while self._coming or self._active:
            self._move_to(self._next(decided))
            if self._happenings() or self._now >= decided + QUIET - SOON:
                self._decide()
                decided = self._now
        return outcome(self._jobs)

    def _next(self, decided: float) -> float:
        moments = [live.due(self._now) for live in self._active.values()]
        if self._coming:
            moments.append(self._coming[-1].submission.time)
        if self._active:
            moments.append(max(decided + QUIET, self._now))
        return max(min(moments), self._now)

    def _move_to(self, moment: float) -> None:
        for live in self._active.values():
            started = max(self._now, live.runs_at)
            if live.job.allocation and moment > started:
                live.job.progress += live.rate * (moment - started)
        self._now = moment

    def _happenings(self) -> bool:
        """Handle everything that is due now; True if a decision should follow."""
        changed = False
        while self._coming and self._coming[-1].submission.time <= self._now:
            job = self._coming.pop()
            self._active[job.name] = Live(job)
            changed = True
        for live in list(self._active.values()):
            if live.job.allocation:
                changed |= self._handle(live)
        return changed

    def _handle(self, live: Live) -> bool:
        changed = False
        if live.joins_at is not None and live.joins_at <= self._now + SOON:
            live.joins_at = None
            self._work_on(live, live.held, self._stall)
        if live.settles_at is not None and live.settles_at <= self._now + SOON:
            live.settles_at = None
            before = self._policy.known(live.job).profile.most_seen
            self._observe(live)
            changed |= self._policy.known(live.job).profile.most_seen > before
            self._choose(live)
        job = live.job
        if job.progress >= job.app.milestones[job.epoch + 1] - SOON and live.runs_at <= self._now:
            changed |= self._end_epoch(live)
        return changed

    def _end_epoch(self, live: Live) -> bool:
        job = live.job
        self._observe(live)
        job.progress = job.app.milestones[job.epoch + 1]
        job.epoch += 1
        if job.epoch == job.app.epochs:
            job.done_at = self._now
            job.allocation = ()
            self._policy.finished(job)
            del self._active[job.name]
            return True
        self._choose(live)
        return False

    def _decide(self) -> None:
        before = {name: live.held for name, live in self._active.items() if live.held}
        after = self._policy.decide(self._now, [live.job for live in self._active.values()], before)
        for name, live in self._active.items():
            if after.get(name, ()) != live.held:
                self._reallocate(live, after.get(name, ()))

    def _reallocate(self, live: Live, target: Allocation) -> None:
        working, wanted = Counter(live.job.allocation), Counter(target)
        kept = working & wanted
        starting = live.runs_at > self._now and live.settles_at is not None and live.joins_at is None
        live.held, live.joins_at = target, None
        if not target:
            live.job.allocation, live.job.placement, live.settles_at = (), (), None
        elif not kept or (starting and kept != wanted):
            self._work_on(live, target, RESTART)
        elif kept == wanted:
            self._work_on(live, target, max(self._stall, live.runs_at - self._now))
        else:
            if kept != working:
                self._work_on(live, tuple(sorted(kept.elements())), self._stall)
            live.joins_at = self._now + RESTART

    def _work_on(self, live: Live, allocation: Allocation, stall: float) -> None:
        live.job.allocation, live.job.placement = allocation, run_lengths(allocation)
        live.runs_at = self._now + stall
        live.settles_at = live.runs_at + SETTLED
        live.job.starts += 1
        self._choose(live)

    def _choose(self, live: Live) -> None:
        job = live.job
        job.local, job.accumulation = self._policy.choose(job)
        live.rate = job.app.rate(job.placement, job.local, job.accumulation, job.epoch)

    def _observe(self, live: Live) -> None:
        job = live.job
        step, sync = job.app.step_time(job.placement, job.local)
        batch = sum(job.placement) * job.local * (job.accumulation + 1)
        self._policy.observe(job, step, sync, *job.app.gradients(batch, job.epoch))
