"""Profile recording: turn the second-by-second measurements of running jobs into profiles of their
fingerprints.

Two threads work here. The watching thread calls `look`, which adds up numbers and never blocks. A second
thread reads code from disks, records ends and writes to the store, without urgency: neither ever delays the
control loop. Only a `ProfiledRun` of each job lasts, rewritten from time to time; a new server continues from
it, and settles the jobs that ended while no server ran.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from grus.concurrency.background_thread import BackgroundThread
from grus.controlplane.fingerprint import code_digest, fingerprints
from grus.controlplane.fingerprint.code_digest import Digests
from grus.controlplane.fingerprint.profile_cache import Profiles
from grus.controlplane.fingerprint.run_aggregates import RunFigures
from grus.controlplane.gpu_sizing.size_selection import given_to
from grus.controlplane.jobs.elapsed import Running
from grus.controlplane.monitoring.telemetry_collector import DetectedWorkloads, Watching, facts
from grus.model.errors import NotFound
from grus.model.execution_plans import Shortage
from grus.model.identifiers import DeviceId, JobId
from grus.model.interfaces import Store, Written
from grus.model.jobs import HOLDING, Job, Phase
from grus.model.profiles import ProfiledRun
from grus.telemetry.samples import Sample, Subject
from grus.telemetry.telemetry_analyzer import JobFacts

WRITE = 60.0
"""Seconds between two writes of running jobs' measurements: this much is lost when a server dies."""

REST = 9.0
"""Ratio of the thread's rest to the CPU time of a step: messages that arrive meanwhile are processed
together.
"""
FRESH = 5.0
"""Seconds for which code that was read also counts as the code of the next job in the same folder."""
MOST_DIGESTS = 1000
PATIENCE = 10.0
"""Seconds that an ending server waits for a read of code from a network disk."""

Newest = Mapping[Subject, Sample]
"""The last sample of everything that is measured."""


class Profiling:
    """`start` and `close` for a thread; `look` and `step` to drive it by hand."""

    def __init__(
        self,
        store: Store,
        profiles: Profiles,
        *,
        jobs: Callable[[], Sequence[Job]],
        types: Callable[[], Mapping[DeviceId, str]],
        containers: bool = False,
        clock: Callable[[], float] = time.time,
        on_ended: Callable[[Sequence[Job]], None] = lambda _: None,
    ) -> None:
        """Set up. `jobs`: those that hold GPUs; `types`: of all GPUs; `on_ended`: called with jobs whose end
        is settled.
        """
        self._store = store
        self.profiles = profiles
        self._jobs = jobs
        self._types = types
        self._containers = containers
        self._clock = clock
        self._on_ended = on_ended
        self._running = Running(store)
        self._lock = threading.Lock()
        self._figures: dict[JobId, RunFigures] = {}
        self._hearing = threading.Lock()
        """Separate lock, never held for long: the store's thread takes it."""
        self._heard: dict[JobId, Job] = {}
        """Jobs that started or ended since the last step."""
        self._written = 0.0
        self._digests: dict[tuple[str, ...], tuple[float, Digests]] = {}
        self._leave: Callable[[], None] = lambda: None
        self._thread = BackgroundThread(
            "profile-collector", self._round, first=WRITE, retry=WRITE, rest=REST, finish=True
        )

    # --------------------------------------------------------------------------------- start and stop

    def start(self) -> None:
        self.open()
        self._thread.start()

    def open(self) -> None:
        """Subscribe to the store, and record jobs that hold GPUs and jobs that ended while no server ran."""
        self._leave = self._store.subscribe(self._hear)
        begun = {run.job for profile in self.profiles.all() for run in profile.runs if _open(run)}
        present = self._store.jobs(phases=tuple(HOLDING))
        self._note([*present, *self._ended(begun - {job.id for job in present})])

    def _ended(self, ids: set[JobId]) -> list[Job]:
        found = []
        for id_ in ids:
            try:
                found.append(self._store.job(id_))
            except NotFound:
                continue  # pruned; its run stays in its last state
        return [job for job in found if job.terminal]

    def close(self) -> None:
        """Write what there is, then stop. Idempotent; a disk that does not answer blocks no caller."""
        self._leave()
        self._thread.close(PATIENCE)

    def _round(self) -> float:
        self.step(self._clock(), everything=self._thread.closing.is_set())
        return WRITE

    # ------------------------------------------------------------------------------------ receiving

    def _hear(self, written: Sequence[Written]) -> None:
        """Receive a write, in the store's thread. Mere progress does not wake the worker thread."""
        self._note([job for job, event in written if event is not None])

    def _note(self, jobs: Sequence[Job]) -> None:
        own = [job for job in jobs if job.spec.has_workers]
        worth = [job for job in own if job.phase in HOLDING or job.terminal or _short(job)]
        if worth:
            with self._hearing:
                self._heard.update((job.id, job) for job in worth)
            self._thread.wake()

    def look(self, recognised: DetectedWorkloads, newest: Newest) -> None:
        """Add up the measurements since the last look, in the watching thread."""
        samples: dict[str, list[Sample]] = {}
        for subject, sample in newest.items():
            owner = subject.job or (subject.device if not subject.instance else None)
            if owner is not None:
                samples.setdefault(owner, []).append(sample)
        types = self._types()
        jobs = self._jobs()
        with self._lock:
            for job in jobs:
                figures = self._figures.get(job.id)
                if figures is None:
                    continue  # its code is being read
                devices = {device for seat in job.seats for device in seat.devices}
                mine = [one for key in (job.id, *devices) for one in samples.get(key, ())]
                figures.take(job, mine, types)
                if (tag := recognised.jobs.get(job.id)) is not None:
                    figures.recognise(tag)

    def watch(self, watching: Watching) -> None:
        """Use all samples of this watcher from now on."""
        watching.subscribe(lambda recognised, now: self.look(recognised, watching.newest(now)))

    def facts(self, job: Job) -> JobFacts:
        """Return what is on record about a job besides its telemetry: its record, and others of its
        fingerprint.
        """
        known = facts(job)
        profile = self.profiles.known(self.profiles.fingerprint(job))
        others = [] if profile is None else [run for run in profile.runs if run.job != job.id]
        if profile is None or not others:
            return known
        before = replace(profile, runs=tuple(others))
        return replace(known, kind=before.kind, period=before.period, new_data=self.profiles.new_data(job))

    # -------------------------------------------------------------------------------------- working

    def step(self, now: float, *, everything: bool = False) -> None:
        """Record starts and ends; from time to time, or on request, the state of all jobs."""
        with self._hearing:
            heard, self._heard = self._heard, {}
        for job in heard.values():
            if job.terminal:
                self._end(job, now)
            else:
                self._begin(job, now)
            if short := _short(job):
                self.profiles.fell_short(job, short, now)
        if everything or now - self._written >= WRITE:
            self._written = now
            self._keep_all(now)
        self.profiles.write()
        self._on_ended([job for job in heard.values() if job.terminal])

    def _begin(self, job: Job, now: float) -> None:
        """Start a record. The job's code is read once it starts: the present code is the code that it
        runs.
        """
        with self._lock:
            if job.id in self._figures:
                return
        settled = self.profiles.settled(job.id)
        before = None if settled is None else self._run_of(job.id, settled.fingerprint)
        if settled is None or before is None:  # the code read at submit may have changed
            settled = self.profiles.settle(job, *self._read(job, now))
            before = self._run_of(job.id, settled.fingerprint)
        new = self.profiles.new_data(job)
        begun = job.started_at or 0.0
        run = before or ProfiledRun(
            job=job.id,
            at=begun,
            data=settled.data,
            new_data=new,
            given=given_to(job),
            code=settled.code,
        )
        with self._lock:
            self._figures[job.id] = RunFigures(run)
        if before is None:
            self.profiles.ran(job, run)

    def _run_of(self, job: JobId, fingerprint: str) -> ProfiledRun | None:
        profile = self.profiles.known(fingerprint)
        return None if profile is None else profile.run(job)

    def _read(self, job: Job, now: float) -> Digests:
        """Return the digests of its code and data; jobs of a burst that had all started by then share the
        first one's.
        """
        key = (fingerprints.program(job.spec, job.user), job.spec.workdir, *job.spec.data)
        known = self._digests.get(key)
        if known is None or known[0] + FRESH < now or known[0] < (job.started_at or now):
            if len(self._digests) >= MOST_DIGESTS:
                self._digests.clear()
            self._digests[key] = (now, code_digest.read(self._store, job, containers=self._containers))
        return self._digests[key][1]

    def _end(self, job: Job, now: float) -> None:
        if job.first_started_at is None:
            self.profiles.forget(job.id)
            return
        self._begin(job, now)
        seconds = self._running.in_all(job)
        with self._lock:
            figures = self._figures.pop(job.id)
            run = figures.so_far(job, seconds, job.ended_at or job.first_started_at)
        self.profiles.ran(job, run)

    def _keep_all(self, now: float) -> None:
        for job in self._jobs():
            seconds = self._running.so_far(job, now)
            with self._lock:
                figures = self._figures.get(job.id)
                run = None if figures is None else figures.so_far(job, seconds, now)
            if run is not None:
                self.profiles.ran(job, run)


def _short(job: Job) -> tuple[Shortage, ...]:
    """Return the allocations with which its attempts so far ran out of memory (OOM)."""
    return () if job.sizing is None else job.sizing.short


def _open(run: ProfiledRun) -> bool:
    return run.phase is Phase.RUNNING
