"""Telemetry pipeline: samples from their sources to the recorder and the profiler, and tags out.

Each source has a thread of its own, so that one that waits for its time-out delays no other. Reads (the tags,
the newest samples, what is lost) are for any thread and never block: what is read is replaced as a whole and
never changed. Nothing here decides anything, and nothing here may delay the control loop.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

from grus.concurrency.background_thread import BackgroundThread
from grus.controlplane.monitoring.latest import Newest
from grus.controlplane.monitoring.profiler_warmup import recalled
from grus.controlplane.reconciler.loop import ControlLoop
from grus.controlplane.workers.worker_launch_spec import members
from grus.model.activity_labels import Tag
from grus.model.identifiers import JobId, WorkerId
from grus.model.interfaces import Engine
from grus.model.jobs import Job, Phase
from grus.model.resources import GPU
from grus.model.worker_reports import report_lines
from grus.model.worker_reports.report_lines import WorkerReport
from grus.scheduler.placement.fragmentation_report import stranded
from grus.scheduler.queues.queue_usage_tree import queue_states
from grus.telemetry.samples import Batch, Fault, LostMeasure, Measure, Sample, SampleSource, Subject
from grus.telemetry.telemetry_analyzer import JobFacts, Profiler
from grus.telemetry.tsdb import POOL, Recorder, of_queue

log = logging.getLogger(__name__)

COUNT = 60.0
"""Seconds between two counts of allocated and requested GPUs."""
TELL = 1.0
"""Seconds between two checks of jobs, their reports, and their tags."""
SLOWEST = 5.0
"""Longest period of polling a source, in seconds, so that new samples are not old when they arrive."""
REST = 9.0
"""Ratio of a thread's rest to the CPU time of a round: telemetry never takes over the machine."""
MOST_NAMED = 5
"""Maximum number of lost subjects that are named one by one."""

Facts = Callable[[Job], JobFacts]
Work = Callable[[float], None]
Key = TypeVar("Key", Subject, JobId)


class WorkloadDetector(Protocol):
    """Interface of `Profiler` as used here; another implementation may replace it."""

    def take(self, batch: Batch) -> None: ...

    def hear(
        self,
        job: JobId,
        figures: Mapping[str, float],
        at: float,
        worker: WorkerId | None = None,
        saved_at: float | None = None,
    ) -> None: ...

    def known(self, job: JobId, facts: JobFacts) -> None: ...

    def forget(self, job: JobId) -> None: ...

    def tags(self, now: float) -> Mapping[Subject, Tag]: ...

    def jobs(self, now: float) -> Mapping[JobId, Tag]: ...


class DetectedWorkloads(NamedTuple):
    """Tags of everything that runs, at one moment."""

    subjects: Mapping[Subject, Tag] = MappingProxyType({})
    jobs: Mapping[JobId, Tag] = MappingProxyType({})


def facts(job: Job) -> JobFacts:
    """Return the recorded facts about a job."""
    devices = frozenset(device for seat in job.seats for device in seat.devices)
    return JobFacts(type=job.spec.type, devices=devices, started_at=job.started_at)


def holding(loop: ControlLoop) -> list[Job]:
    """Return the jobs that hold GPUs now."""
    with loop.snapshot() as snapshot:
        found = [snapshot.job(id_) for id_ in sorted(loop.picture.holding)]
    return [job for job in found if job is not None]


class Watching:
    """`start` and `close` for threads; `take`, `look` and `count` to drive it by hand."""

    def __init__(
        self,
        engine: Engine,
        loop: ControlLoop,
        recorder: Recorder,
        sources: Sequence[SampleSource] = (),
        *,
        profiler: WorkloadDetector | None = None,
        facts: Facts = facts,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._engine = engine
        self._loop = loop
        self.recorder = recorder
        self._sources = tuple(sources)
        self._profiler: WorkloadDetector = profiler or Profiler()
        self._facts = facts
        self._clock = clock
        self._lock = threading.Lock()
        self._jobs: frozenset[JobId] = frozenset()
        self._newest = Newest()
        self._lost: dict[int, tuple[LostMeasure, ...]] = {}
        self._faults: dict[Subject, Fault] = {}
        self._recognised = DetectedWorkloads()
        self._listeners: list[Callable[[DetectedWorkloads, float], None]] = []
        self._recalled = threading.Event()
        self._threads: list[BackgroundThread] = []

    # -------------------------------------------------------------------------------- start and stop

    def start(self) -> None:
        for number, source in enumerate(self._sources):
            every = min(source.shortest, SLOWEST)
            self._begin(f"telemetry-{number}", every, partial(self._ask, number))
        self._begin("recognising", TELL, self._look_again)
        self._begin("counting", COUNT, self.count)

    def close(self) -> None:
        """Stop polling. Idempotent; the recorder is closed by its owner."""
        for thread in self._threads:
            thread.ask_to_close()
        self._recalled.set()  # ends the wait for a replay that no longer comes
        for thread in self._threads:
            thread.close()
        self._threads = []
        for source in self._sources:
            source.close()

    def subscribe(self, listener: Callable[[DetectedWorkloads, float], None]) -> None:
        """Call `listener` after each check with the tags, changed or not, from the same thread."""
        self._listeners.append(listener)

    def _begin(self, name: str, every: float, work: Work) -> None:
        thread = BackgroundThread(name, partial(self._round, every, work), retry=every)
        self._threads.append(thread)
        thread.start()

    def _round(self, every: float, work: Work) -> float:
        if work != self._look_again:
            self._recalled.wait()  # replay the past before the present
        began = time.thread_time()
        work(self._clock())
        return pause(self._clock(), every, REST * (time.thread_time() - began))

    def _look_again(self, now: float) -> None:
        """Check the tags; the first time, after a replay of the past."""
        if not self._recalled.is_set():
            try:
                self.recall(now)
            finally:
                self._recalled.set()
        self.look(now)

    # --------------------------------------------------------------------------------------- working

    def _ask(self, number: int, now: float) -> None:
        source = self._sources[number]
        batch = source.sample(now)
        self.take(batch, source.shortest)
        self._lost = {**self._lost, number: batch.lost}
        for fault in batch.faults:
            log.warning("%s of %s tells error %d", fault.subject.device, fault.subject.node, fault.code)
        self._faults = {**self._faults, **{fault.subject: fault for fault in batch.faults}}

    def take(self, batch: Batch, every: float = 1.0) -> None:
        """Record a batch of a source that has new samples `every` so many seconds."""
        self.recorder.add(batch.samples)
        with self._lock:
            self._profiler.take(batch)
            self._newest.take(batch.samples, every)

    def recall(self, now: float) -> None:
        """Replay to the profiler the recorded samples of jobs that run since before this server."""
        jobs = holding(self._loop)
        with self._lock:
            for job in jobs:
                self._profiler.known(job.id, self._facts(job))
            self._profiler.take(recalled(self.recorder, jobs, now))

    def look(self, now: float) -> None:
        """Pass the facts about the jobs to the profiler, and take over its tags."""
        jobs = holding(self._loop)
        told = self._reports(jobs)
        with self._lock:
            for job in jobs:
                self._profiler.known(job.id, self._facts(job))
            for worker, job_id, said in told:
                progress = report_lines.progress(said)
                self._profiler.hear(job_id, progress, said.at or now, worker, said.saved_at)
            ids = frozenset(job.id for job in jobs)
            for gone in self._jobs - ids:
                self._profiler.forget(gone)
            self._jobs = ids
            self._recognised = DetectedWorkloads(self._profiler.tags(now), self._profiler.jobs(now))
            self._newest.tidy(now)
        for listener in self._listeners:
            listener(self._recognised, now)

    def _reports(self, jobs: Sequence[Job]) -> list[tuple[WorkerId, JobId, WorkerReport]]:
        """Return the last reports of the workers of running jobs."""
        found = [
            (member.id, job.id, report_lines.read(self._engine.report(member.id)))
            for job in jobs
            if job.phase is Phase.RUNNING
            for member in members(job)
        ]
        return [
            one
            for one in found
            if one[2].at is not None and (one[2].saved_at or report_lines.progress(one[2]))
        ]

    def count(self, now: float) -> None:
        """Record the GPUs that queues and the pool use and request, and the pool's utilization."""
        found = self.demand(now)
        gpus = [sample.values for subject, sample in self.newest(now).items() if subject.device is not None]
        busy = [values[Measure.UTILISATION] for values in gpus if Measure.UTILISATION in values]
        if busy:
            found[POOL][Measure.UTILISATION] = sum(busy) / len(busy)
        self.recorder.add([Sample(subject, now, values) for subject, values in found.items()])

    def demand(self, now: float) -> dict[Subject, dict[Measure, float]]:
        """Return the GPUs that each queue and the pool use and request now; and how many there are."""
        with self._loop.snapshot() as snapshot:
            states = queue_states(snapshot, now)
            lost = stranded(snapshot)
        found = {
            of_queue(one.name): {Measure.HELD: one.held / GPU, Measure.DEMAND: one.demand / GPU}
            for one in states
        }
        top = [one for one in states if one.parent is None]
        devices = [device for node in self._loop.picture.nodes for device in node.devices]
        found[POOL] = {
            Measure.HELD: sum(one.held for one in top) / GPU,
            Measure.DEMAND: sum(one.demand for one in top) / GPU,
            Measure.CAPACITY: float(sum(device.usable for device in devices)),
            Measure.STRANDED: lost / GPU,
        }
        return found

    # --------------------------------------------------------------------------------------- reading

    def tags(self, now: float) -> Mapping[Subject, Tag]:
        """Return the tags of workers and GPUs."""
        return _live(self._recognised.subjects, now)

    def jobs(self, now: float) -> Mapping[JobId, Tag]:
        return _live(self._recognised.jobs, now)

    def newest(
        self, now: float, *, gpus_only: bool = False, job: JobId | None = None
    ) -> dict[Subject, Sample]:
        """Return the newest values of each subject, as means of a second; nothing that is too old to be
        current.
        """
        with self._lock:
            return self._newest.at(now, gpus_only=gpus_only, job=job)

    def warnings(self) -> tuple[str, ...]:
        """Return warnings for an operator: values that are no longer measured, or not recorded."""
        lost = self.lost
        named = ", ".join(f"{one.what} ({one.why})" for one in lost[:MOST_NAMED])
        more = f" and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else ""
        told = (f"telemetry is lost of {named}{more}",) if lost else ()
        return (*told, self.recorder.trouble) if self.recorder.trouble else told

    @property
    def every(self) -> float:
        """Return the shortest sampling interval, in seconds."""
        return min((source.shortest for source in self._sources), default=1.0)

    @property
    def faults(self) -> Mapping[Subject, Fault]:
        """Return the last error that each GPU has reported since the server started."""
        return self._faults

    @property
    def lost(self) -> tuple[LostMeasure, ...]:
        """Return subjects that were measured and no longer are."""
        return tuple(one for lost in self._lost.values() for one in lost)


def pause(now: float, every: float, rest: float = 0.0) -> float:
    """Return the seconds, at least `rest`, until the middle of a step of the recorder's grid: a little delay
    more or less changes no step.
    """
    return rest + every - (now + rest + every / 2) % every


def _live(tags: Mapping[Key, Tag], now: float) -> dict[Key, Tag]:
    return {key: tag for key, tag in tags.items() if tag.live(now)}
