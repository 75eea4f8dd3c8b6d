"""Metric history of running jobs: each new line of metrics, thinned evenly, is queued for the disk.

The loop passes on what it reads anyway and never waits for the result. Lines are written along with the jobs'
own progress, so that they need no extra commit; the last seconds may be lost when a server dies.
"""

import logging
from concurrent.futures import Future
from dataclasses import dataclass, replace

from grus.controlplane.jobs.worker_group_membership import at_work
from grus.model.identifiers import JobId
from grus.model.interfaces import REPORTS, Store
from grus.model.jobs import Job
from grus.model.metrics_history import Reported, stride_of
from grus.model.worker_reports import report_lines

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _LastReport:
    """Last report received from a job, whether or not it is kept."""

    last: Reported
    kept: bool


class CurveKeeper:
    """Collects the reports of running jobs. Belongs to the loop; only the loop's thread calls it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lines: dict[JobId, _LastReport] = {}
        self._waiting: list[Reported] = []

    def hear(self, job: Job, line: str, now: float, *, last: bool = False) -> None:
        """Record a job's present report, which may equal the one before; `last` if no other will follow."""
        said = report_lines.read(line)
        known = self._known(job)
        if said.figures:
            at = said.at if said.at is not None and (job.started_at or 0.0) <= said.at <= now else now
            found = Reported(
                job=job.id,
                number=0 if known is None else known.last.number + 1,
                attempt=job.attempt,
                at=at,
                figures=said.figures,
                saved_at=said.saved_at,
                gpus=sum(seat.held for seat in at_work(job)),
            )
            if known is None or _new(found, known.last):
                first = known is None or known.last.attempt != job.attempt
                known = _LastReport(found, first or found.number % stride_of(found.number) == 0)
                self._keep(known)
        if last and known is not None and not known.kept:
            known.kept = True
            self._keep(known)

    def write(self) -> None:
        """Pass the received reports to the store; they are recorded soon, or lost."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._store.put(REPORTS, *waiting).add_done_callback(_note)

    def forget(self, job: JobId) -> None:
        """Forget a job that has ended."""
        self._lines.pop(job, None)

    def _known(self, job: Job) -> _LastReport | None:
        """Return the last report on record of a job that ran before this server started."""
        if job.id not in self._lines and (job.attempt > 1 or job.progress):
            kept = self._store.find(REPORTS, job=job.id)
            if kept:
                self._lines[job.id] = _LastReport(kept[-1], True)
        return self._lines.get(job.id)

    def _keep(self, line: _LastReport) -> None:
        self._lines[line.last.job] = line
        if line.kept:
            self._waiting.append(line.last)


def _new(found: Reported, before: Reported) -> bool:
    """Return whether the report differs from the one before: a line that is read again has the same time and
    metrics.
    """
    if found.attempt != before.attempt:
        return True
    same = replace(found, number=before.number, at=before.at, gpus=before.gpus)
    return found.at > before.at and same != before


def _note(done: "Future[None]") -> None:
    if (error := done.exception()) is not None:
        log.warning("what jobs reported is lost: %s", error)
