"""Grus's elastic rule on the Pollux workloads: what each job knows, and who gets which GPUs.

What may be known is Pollux's own rule: a job sees the step times of configurations that it ran, and its
present gradient noise. `Knowing` adds to it what a job declares (its total work) and what finished jobs of
the same application measured earlier in the same replay. True curves are never looked at here.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.pollux_allocation import allocate
from benchmarks.pollux_goodput import Batches, Choice, GradientNoise, SpeedTable
from benchmarks.pollux_placing import arrange
from benchmarks.pollux_replay import NODES, PER_NODE, RESTART, Allocation, Running
from grus.scheduler.elasticity.size_values import Candidate, Rule, within_reach
from grus.scheduler.elasticity.throughput_model import (
    Profile,
    StepModel,
    StepSample,
    dense_shapes,
    fit,
    pooled,
)
from grus.simulator.workload.pollux_applications import Application, rigid_batch

SIZES = (1, 2, 4, *range(8, NODES * PER_NODE + 1, 4))
SHAPES = dense_shapes(SIZES, PER_NODE)
PINNED = {"ncf": 32768}  # One GPU and this batch, as Pollux has it.


@dataclass(frozen=True, slots=True)
class Knowing:
    """What a run of the benchmark may know, and the parameters that go with it."""

    rule: Rule
    progress: bool = False
    pooling: bool = False
    fixed_batch: bool = False
    first_size: int = 1
    ramp: int = 2
    stall: float = RESTART
    boot: float = 0.0


@dataclass(slots=True)
class Known:
    """What one job knows of itself."""

    profile: Profile = field(default_factory=Profile)
    noise: GradientNoise | None = None
    waiting_since: float = 0.0
    started_at: float = 0.0
    trail: list[tuple[float, GradientNoise]] = field(default_factory=list)  # noise by progress
    speeds_key: object = None
    speeds: tuple[float, ...] = ()
    choice_key: object = None
    choice: Choice | None = None
    ahead_key: object = None
    ahead: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    merged_key: object = None
    merged: Profile = field(default_factory=Profile)


class Models:
    """Fits and tables by the samples they are made of: jobs of one application often saw the same."""

    def __init__(self) -> None:
        self._models: dict[tuple[StepSample, ...], StepModel] = {}
        self._tables: dict[tuple[object, ...], SpeedTable] = {}

    def model(self, samples: tuple[StepSample, ...]) -> StepModel:
        if samples not in self._models:
            self._models[samples] = fit(samples)
        return self._models[samples]

    def table(
        self, samples: tuple[StepSample, ...], batches: Batches, shapes: Sequence[tuple[int, int]]
    ) -> SpeedTable:
        key = (samples, batches, tuple(shapes))
        if key not in self._tables:
            self._tables[key] = SpeedTable(self.model(samples), batches, shapes)
        return self._tables[key]


class Elastic:
    """Policy and batch rule in one: both live on the same models."""

    def __init__(self, knowing: Knowing, models: Models | None = None) -> None:
        self.knowing = knowing
        self._models = models or Models()
        self._known: dict[str, Known] = {}
        self._history: dict[str, Profile] = {}
        self._trails: dict[str, list[tuple[float, GradientNoise]]] = {}
        self._history_version = 0

    # What jobs see of themselves.

    def known(self, job: Running) -> Known:
        if job.name not in self._known:
            self._known[job.name] = Known(waiting_since=job.submission.time)
        return self._known[job.name]

    def observe(self, job: Running, step: float, sync: float, grad_sqr: float, grad_var: float) -> None:
        known = self.known(job)
        known.noise = GradientNoise(grad_sqr, grad_var)
        known.profile.add(StepSample(len(job.placement), sum(job.placement), job.local, step, sync))
        if not known.trail or known.trail[-1][0] < job.progress:
            known.trail.append((job.progress, known.noise))

    def finished(self, job: Running) -> None:
        """A job is done: what it measured is there for others of its application."""
        if self.knowing.pooling:
            self._history.setdefault(job.app.name, Profile()).merge(self.known(job).profile)
            self._trails[job.app.name] = self.known(job).trail
            self._history_version += 1

    def choose(self, job: Running) -> tuple[int, int]:
        app, batches = job.app, self.batches(job)
        profile = self.profile(job)
        gpus = sum(job.placement)
        if batches.fixed is not None:
            return rigid_batch(app, batches.fixed, gpus)
        noise = self.noise(job)
        if not profile.version or noise is None:
            return rigid_batch(app, max(app.first_batch, app.smallest_local * gpus), gpus)
        known = self.known(job)
        key = (profile.samples, noise, len(job.placement), gpus)
        if known.choice_key != key:
            table = self._models.table(profile.samples, batches, [(len(job.placement), gpus)])
            known.choice, known.choice_key = table.best(noise)[0], key
        assert known.choice is not None
        return known.choice.local, known.choice.accumulation

    def batches(self, job: Running) -> Batches:
        fixed = job.submission.batch if self.knowing.fixed_batch else PINNED.get(job.app.name)
        return batches_of(job.app, fixed)

    def profile(self, job: Running) -> Profile:
        """Own measurements, with those of finished jobs where that is allowed."""
        known = self.known(job)
        if not self.knowing.pooling:
            return known.profile
        key = (known.profile.version, self._history_version)
        if known.merged_key != key:
            known.merged, known.merged_key = pooled(known.profile, self._history, job.app.name), key
        return known.merged

    def noise(self, job: Running) -> GradientNoise | None:
        """Its own, else what the last finished job of its application had at this progress."""
        own = self.known(job).noise
        if own is not None or job.app.name not in self._trails:
            return own
        trail = self._trails[job.app.name]
        return trail[min(bisect_left(trail, job.progress, key=lambda item: item[0]), len(trail) - 1)][1]

    # Who gets what.

    def decide(
        self, now: float, active: Sequence[Running], before: Mapping[str, Allocation]
    ) -> dict[str, Allocation]:
        candidates = [self.candidate(now, job, len(before.get(job.name, ()))) for job in active]
        sizes = allocate(candidates, NODES * PER_NODE, self.knowing.rule)
        for job in active:
            if sizes[job.name]:
                self.known(job).waiting_since = now
                if job.name not in before:
                    self.known(job).started_at = now
        return arrange({name: size for name, size in sizes.items() if size}, before)

    def candidate(self, now: float, job: Running, present: int) -> Candidate[str]:
        known, profile, knowing = self.known(job), self.profile(job), self.knowing
        batches = self.batches(job)
        most = 1 if job.app.name in PINNED and not knowing.fixed_batch else batches.most_gpus
        reach = within_reach(SIZES, profile.most_seen, knowing.first_size, knowing.ramp)
        sizes = tuple(size for size in reach if size <= most)
        speeds = self.speeds(job)
        age = now - job.submission.time
        length = self.length(job, speeds[0]) if knowing.progress else age
        return Candidate(
            key=job.name,
            sizes=sizes,
            speeds=speeds[: len(sizes)],
            length=length,
            present=present,
            stall=knowing.stall,
            boot=knowing.boot,
            waited=now - known.waiting_since if not present else 0.0,
            ran=now - known.started_at,
            known=knowing.progress,
        )

    def speeds(self, job: Running) -> tuple[float, ...]:
        """Predicted progress per second at all sizes; linear before anything is known."""
        profile, noise = self.profile(job), self.noise(job)
        if not profile.version or noise is None:
            return tuple(float(size) for size in SIZES)
        known = self.known(job)
        key = (profile.samples, noise)
        if known.speeds_key != key:
            batches = self.batches(job)
            table = self._models.table(profile.samples, batches, SHAPES)
            known.speeds = tuple(speed / batches.first for speed in table.goodput(noise))
            known.speeds_key = key
        return known.speeds

    def length(self, job: Running, alone: float) -> float:
        """Seconds on one GPU that are left by what the job declares; 0, the shortest, before it ever ran.

        Noise is taken as it is now, or as it was for the last finished job of the application from here on.
        """
        profile = self.profile(job)
        if not profile.version or self.noise(job) is None or alone <= 0:
            return 0.0
        if job.app.name not in self._trails:
            return (job.app.work - job.progress) / alone
        reached, left = self._ahead(job, profile)
        return float(np.interp(job.progress, reached, left))

    def _ahead(self, job: Running, profile: Profile) -> tuple[list[float], list[float]]:
        """Seconds on one GPU from each point of progress to the end, by the noise of a finished job."""
        trail = self._trails[job.app.name]
        known = self.known(job)
        key = (profile.samples, id(trail))
        if known.ahead_key != key:
            table = self._models.table(profile.samples, self.batches(job), SHAPES[:1])
            reached = [progress for progress, _ in trail] + [job.app.work]
            left = [0.0]
            for index in reversed(range(len(trail))):
                speed = table.goodput(trail[index][1])[0] / job.app.first_batch
                left.append(left[-1] + (reached[index + 1] - reached[index]) / speed)
            known.ahead, known.ahead_key = (reached, left[::-1]), key
        return known.ahead


def batches_of(app: Application, fixed: int | None) -> Batches:
    return Batches(app.first_batch, app.largest_batch, app.smallest_local, app.largest_local, fixed)
