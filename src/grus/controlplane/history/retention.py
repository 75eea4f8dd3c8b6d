"""Retention: delete old events, ended jobs with their logs and code copies, and results, each by its age.

Jobs that an unfinished job depends on, takes inputs from, or searches with stay until it has ended. The
record goes first and its files afterwards, so that a crash between leaves files without a record, never a
record without its files. Artifacts that no record names any more are swept afterwards.
"""

import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from grus.concurrency.background_thread import BackgroundThread
from grus.controlplane.artifacts.gc import Collector
from grus.controlplane.settings import Settings
from grus.model.errors import GrusError, NotFound
from grus.model.identifiers import JobId
from grus.model.interfaces import Engine, PruneLimits, Store
from grus.model.jobs import TERMINAL, Job, Phase

log = logging.getLogger(__name__)

PAGE = 500
OPEN = frozenset(Phase) - TERMINAL


def prune(store: Store, engine: Engine, settings: Settings, now: float) -> int:
    """Delete what is too old; return the number of deleted rows."""
    jobs_before = now - settings.job_retention
    # Only those submitted before that, as the store does: the others may be many.
    ended = _pages(store, TERMINAL, after=(jobs_before, JobId("")))
    old = [job for job in ended if job.ended_at is not None and job.ended_at < jobs_before]
    rows = store.prune(
        PruneLimits(
            events_before=now - settings.event_retention,
            jobs_before=jobs_before,
            results_before=now - settings.result_retention,
            keep=_needed(store, old) if old else (),
        )
    ).result()
    for job in old:
        if _is_gone(store, job.id):
            engine.remove_logs(job.id)
            _remove_code(settings, job)
    return rows


def _pages(store: Store, phases: Iterable[Phase], after: tuple[float, JobId] | None = None) -> Iterator[Job]:
    while page := store.jobs(phases=tuple(phases), limit=PAGE, after=after):
        yield from page
        after = (page[-1].submitted_at, page[-1].id)


def _needed(store: Store, old: Sequence[Job]) -> list[JobId]:
    """Return those of them that an unfinished job needs; a job submitted while this is read is too late."""
    open_: set[JobId] = set()
    named: set[JobId] = set()
    for job in _pages(store, OPEN):
        open_.add(job.id)
        named.update(job.spec.after, (one.job for one in job.spec.inputs))
        if job.spec.trial is not None:
            named.add(job.spec.trial.sweep)  # which ends it, even if it has exited by itself
    return [
        job.id
        for job in old
        if job.id in named or (job.spec.trial is not None and job.spec.trial.sweep in open_)
    ]


def _is_gone(store: Store, job: JobId) -> bool:
    try:
        store.job(job)
    except NotFound:
        return True
    return False


def _remove_code(settings: Settings, job: Job) -> None:
    folder = Path(job.spec.workdir)
    if job.spec.snapshot and folder.parent == settings.code:
        shutil.rmtree(folder, ignore_errors=True)


class Retention:
    """Retention thread: prunes from time to time, without urgency."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        settings: Settings,
        clock: Callable[[], float],
        collector: Collector | None = None,
    ) -> None:
        self._store = store
        self._engine = engine
        self._settings = settings
        self._clock = clock
        self._collector = collector
        every = settings.retention_interval
        self._thread = BackgroundThread("retention", self._round, first=every, retry=every)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop. Idempotent."""
        self._thread.ask_to_close()
        if self._collector is not None:
            self._collector.close()
        self._thread.close()

    def _round(self) -> float:
        try:
            prune(self._store, self._engine, self._settings, self._clock())
            if self._collector is not None:
                self._collector.collect()
        except (GrusError, OSError) as error:
            log.error("old records could not be removed; tried again later: %s", error)
        return self._settings.retention_interval
