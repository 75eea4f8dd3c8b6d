"""Keeping results: each job that has ended is written down for good, at leisure, on a thread of its own.

An end is heard of the store at once, and again from whoever settles profiles, when more is known; what was
not heard (a server died, a file is older than results are) is looked for. A result that is written again
replaces itself, so none of them has to know of the others.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from grus.controlplane.profiles import Profiles
from grus.controlplane.results import result_of
from grus.controlplane.running import Running
from grus.model.artefacts import Artefact
from grus.model.errors import GrusError, NotFound
from grus.model.identifiers import JobId
from grus.model.jobs import Job
from grus.model.ports import Event, Store
from grus.model.results import Result

log = logging.getLogger(__name__)

SWEEP = 600.0
"""Seconds between two looks for jobs without a result."""
REST = 9.0
"""Times the CPU time of a step that the thread rests afterwards."""
PAGE = 100
MOST_EVENTS = 1000
"""Read at a time."""
PATIENCE = 10.0
"""Seconds that a server that ends waits for what is being written."""


class ResultKeeper:
    """`start` and `close` for a thread; `ended`, `step` and `sweep` to drive it by hand."""

    def __init__(self, store: Store, profiles: Profiles) -> None:
        self._store = store
        self._profiles = profiles
        self._running = Running(store)
        self._lock = threading.Lock()
        self._told: dict[JobId, Job] = {}
        self._changed, self._closing = threading.Event(), threading.Event()
        self._leave: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name="results", daemon=True)

    # ------------------------------------------------------------------------------------------- life

    def start(self) -> None:
        self.open()
        self._thread.start()

    def open(self) -> None:
        """Begin to listen."""
        self._leave = self._store.subscribe(self._hear)

    def close(self) -> None:
        """Write what was told, then stop. Idempotent; what is left is found by the next server."""
        self._leave()
        self._closing.set()
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE)

    def _run(self) -> None:
        swept = -SWEEP
        while True:
            last = self._closing.is_set()
            began = time.thread_time()
            try:
                self.step()
                if not last and time.monotonic() - swept >= SWEEP:
                    swept = time.monotonic()
                    self.sweep()
            except Exception:  # the edge of a thread: what could not be kept now is found by the next sweep
                log.exception("results of jobs could not be kept; tried again later")
            if last:
                return
            self._closing.wait(REST * (time.thread_time() - began))
            self._changed.wait(SWEEP)
            self._changed.clear()

    # ---------------------------------------------------------------------------------------- working

    def _hear(self, written: Sequence[tuple[Job, Event | None]]) -> None:
        """In the store's thread."""
        self.ended([job for job, _ in written if job.terminal])

    def ended(self, jobs: Sequence[Job]) -> None:
        """These have ended, or more is known of them since. Waits for nobody."""
        if jobs:
            with self._lock:
                self._told.update((job.id, job) for job in jobs)
            self._changed.set()

    def step(self) -> None:
        """Keep the results of those that were told."""
        with self._lock:
            told, self._told = self._told, {}
        self.keep(list(told.values()))

    def sweep(self) -> None:
        """Keep the results of all that have none, a page at a time; up to the first page with trouble."""
        while page := self._store.without_result(PAGE):
            if not self.keep(page) or self._closing.is_set():
                return
            self.step()

    def keep(self, jobs: Sequence[Job]) -> bool:
        """Write their results; whether all of them last."""
        futures = [(job, self._store.put_result(self.made(job))) for job in jobs]
        troubles = 0
        for job, future in futures:
            try:
                future.result()
            except GrusError as error:
                troubles += 1
                log.error("the result of job %s could not be kept; tried again later: %s", job.id, error)
        return not troubles

    def made(self, job: Job) -> Result:
        """From what is on record now."""
        settled = self._profiles.settled(job.id)
        profile = None if settled is None else self._profiles.known(settled.fingerprint)
        return result_of(
            job,
            events=self._events(job.id),
            reports=self._store.reports(job.id),
            seconds=self._running.in_all(job),
            settled=settled,
            run=None if profile is None else profile.run(job.id),
            inputs=self._inputs(job),
        )

    def _events(self, job: JobId) -> list[Event]:
        found: list[Event] = []
        while page := self._store.events(job=job, after=found[-1].seq if found else 0, limit=MOST_EVENTS):
            found += page
            if len(page) < MOST_EVENTS:
                break
        return found

    def _inputs(self, job: Job) -> tuple[Artefact, ...]:
        """Under the names that this job has for them; what is no longer known is left out."""
        found = []
        for wanted in job.spec.inputs:
            for kept in self._outputs(wanted.job):
                if kept.name == wanted.output:
                    found.append(Artefact(wanted.name, kept.digest, kept.size))
        return tuple(found)

    def _outputs(self, job: JobId) -> tuple[Artefact, ...]:
        try:
            return self._store.job(job).artefacts
        except NotFound:
            pass
        try:
            return self._store.result(job).outputs
        except NotFound:
            return ()
