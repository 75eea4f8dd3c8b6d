"""A made-up pool with a past, for pictures: two weeks of jobs that began and ended, and how busy they were.

What is told of the past is written where the server would have written it: events, and measurements.
"""

import math
import random
import time
from collections.abc import Iterator
from dataclasses import replace

from grus.model.identifiers import NodeId, WorkerId
from grus.model.interfaces import Event
from grus.model.jobs import Job, Phase
from grus.model.resources import GPU
from grus.simulator.workload.job_history import gpus_asked
from grus.telemetry.samples import Measure, Sample, Subject
from grus.telemetry.tsdb import POOL
from tests.dashboard import large

EVERY = 60.0
"""Seconds between two measurements of the past."""
DAYS = 7.5


class LivedWorld(large.World):
    """Its ended jobs have lives, and its GPUs a past."""

    def _fill(self, gpus: int, count: int, rng: random.Random) -> None:
        super()._fill(gpus, 0, rng)
        now = time.time()
        self.past: list[Job] = []
        for job in large.jobs_of(gpus, count, now, rng):
            if not job.terminal:
                self.store.create(job, _event(job, "submitted", job.submitted_at, 0)).result()
                continue
            first = _event(job, "submitted", job.submitted_at, 0)
            stored = self.store.create(replace(job, phase=Phase.PENDING), first).result()
            for phase, event in life(job):
                now_is = replace(job, phase=phase, version=stored.version)
                stored = self.store.replace(now_is, event).result()
            self.past.append(job)

    def remember(self, gpus: int) -> None:
        """Measurements of the last days, oldest first: of each job, and of the pool."""
        now = time.time()
        ended = [job for job in self.past if job.started_at and job.ended_at]
        for step in range(int(DAYS * large.DAY / EVERY)):
            at = now - DAYS * large.DAY + step * EVERY
            running = [job for job in ended if (job.started_at or 0) <= at < (job.ended_at or 0)]
            waiting = [job for job in ended if job.submitted_at <= at < (job.started_at or 0)]
            held = min(gpus, sum(size(job) for job in running) / GPU)
            samples = [
                Sample(
                    Subject(NodeId("node-0"), job=job.id, worker=WorkerId(f"{job.id}.1.0")), at, use(job, at)
                )
                for job in running
            ]
            busy = sum(sample.values[Measure.UTILISATION] for sample in samples) / max(1, len(samples))
            pool = {
                Measure.HELD: held,
                Measure.DEMAND: held + sum(size(job) for job in waiting) / GPU,
                Measure.CAPACITY: float(gpus),
                Measure.UTILISATION: busy * held / gpus,
            }
            self.watching.recorder.add([*samples, Sample(POOL, at, pool)])


def size(job: Job) -> int:
    """Micro-GPUs that it held."""
    return round(gpus_asked(job.spec.request) * GPU)


def use(job: Job, at: float) -> dict[Measure, float]:
    """As busy as its like: a level of its own, with the work of a day and a night around it."""
    level = 0.35 + 0.6 * large._part(job.id)
    return {Measure.UTILISATION: min(1.0, max(0.02, level + 0.08 * math.sin(at / 900)))}


def life(job: Job) -> Iterator[tuple[Phase, Event]]:
    """Begun, run and ended."""
    assert job.started_at is not None
    assert job.ended_at is not None
    yield Phase.STARTING, _event(job, "starting", job.started_at, size(job))
    yield Phase.RUNNING, _event(job, "running", job.started_at + 2, size(job))
    yield job.phase, _event(job, job.phase.value, job.ended_at, 0)


def _event(job: Job, kind: str, at: float, held: int) -> Event:
    working = held if kind == "running" else 0
    return Event(
        at=at, kind=kind, text=f"{job.spec.name} is {kind}", job=job.id, attempt=1, held=held, working=working
    )
