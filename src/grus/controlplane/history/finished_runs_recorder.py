"""Job results: write a lasting result of each ended job, without urgency, on a thread of its own.

The store reports an end at once, and the profile recorder reports it again when more is known. Ends that were
not reported (a server died, a file is older than results are) are searched for. A result that is written
again replaces itself, so these sources need not coordinate.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from grus.concurrency.background_thread import BackgroundThread
from grus.controlplane.fingerprint.profile_cache import Profiles
from grus.controlplane.history.finished_runs import result_of
from grus.controlplane.jobs.elapsed import Running
from grus.model.artifacts import Artifact
from grus.model.errors import GrusError, NotFound
from grus.model.identifiers import JobId
from grus.model.interfaces import REPORTS, RESULTS, Event, Store, Written
from grus.model.jobs import Job
from grus.model.results import Result

log = logging.getLogger(__name__)

SWEEP = 600.0
"""Seconds between two looks for jobs without a result."""
REST = 9.0
"""Ratio of the thread's rest to the CPU time of a step."""
PAGE = 100
MOST_EVENTS = 1000
"""Read at a time."""
PATIENCE = 10.0
"""Seconds that an ending server waits for a write under way."""


class ResultKeeper:
    """`start` and `close` for a thread; `ended`, `step` and `sweep` to drive it by hand."""

    def __init__(self, store: Store, profiles: Profiles) -> None:
        self._store = store
        self._profiles = profiles
        self._running = Running(store)
        self._lock = threading.Lock()
        self._told: dict[JobId, Job] = {}
        self._swept = -SWEEP
        self._leave: Callable[[], None] = lambda: None
        self._thread = BackgroundThread("result-writer", self._round, retry=SWEEP, rest=REST, finish=True)

    # --------------------------------------------------------------------------------- start and stop

    def start(self) -> None:
        self.open()
        self._thread.start()

    def open(self) -> None:
        """Subscribe to the store."""
        self._leave = self._store.subscribe(self._hear)

    def close(self) -> None:
        """Write the reported ends, then stop. Idempotent; the next server finds what is left."""
        self._leave()
        self._thread.close(PATIENCE)

    def _round(self) -> float:
        """Results that cannot be written now are found by the next sweep."""
        self.step()
        if not self._thread.closing.is_set() and time.monotonic() - self._swept >= SWEEP:
            self._swept = time.monotonic()
            self.sweep()
        return SWEEP

    # ---------------------------------------------------------------------------------------- working

    def _hear(self, written: Sequence[Written]) -> None:
        """Receive a write, in the store's thread."""
        self.ended([job for job, _ in written if job.terminal])

    def ended(self, jobs: Sequence[Job]) -> None:
        """Report jobs that have ended, or about which more is known since. Does not block."""
        if jobs:
            with self._lock:
                self._told.update((job.id, job) for job in jobs)
            self._thread.wake()

    def step(self) -> None:
        """Write the results of the reported jobs."""
        with self._lock:
            told, self._told = self._told, {}
        self.keep(list(told.values()))

    def sweep(self) -> None:
        """Write the missing results, a page at a time; up to the first page with an error."""
        while page := self._store.without_result(PAGE):
            if not self.keep(page) or self._thread.closing.is_set():
                return
            self.step()

    def keep(self, jobs: Sequence[Job]) -> bool:
        """Write their results; return whether all are durable."""
        futures = [(job, self._store.put(RESULTS, self.made(job))) for job in jobs]
        troubles = 0
        for job, future in futures:
            try:
                future.result()
            except GrusError as error:
                troubles += 1
                log.error("the result of job %s could not be kept; tried again later: %s", job.id, error)
        return not troubles

    def made(self, job: Job) -> Result:
        """Make the result from the present record."""
        settled = self._profiles.settled(job.id)
        profile = None if settled is None else self._profiles.known(settled.fingerprint)
        return result_of(
            job,
            events=self._events(job.id),
            reports=self._store.find(REPORTS, job=job.id),
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

    def _inputs(self, job: Job) -> tuple[Artifact, ...]:
        """Return the inputs under the names that this job has for them; unknown ones are left out."""
        found = []
        for wanted in job.spec.inputs:
            for kept in self._outputs(wanted.job):
                if kept.name == wanted.output:
                    found.append(Artifact(wanted.name, kept.digest, kept.size))
        return tuple(found)

    def _outputs(self, job: JobId) -> tuple[Artifact, ...]:
        try:
            return self._store.job(job).artefacts
        except NotFound:
            pass
        try:
            return self._store.get(RESULTS, job).outputs
        except NotFound:
            return ()
