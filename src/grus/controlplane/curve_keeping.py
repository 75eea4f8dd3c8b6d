"""Keeping what running jobs report over time: each new line of figures, thinned evenly, on its way to disk.

The loop tells what it reads anyway and never waits for what comes of it. Lines are written along with the
jobs' own progress, so that they cost no commit of their own; the last seconds may be lost with a server.
"""

import logging
from concurrent.futures import Future
from dataclasses import dataclass, replace

from grus.api import reports
from grus.controlplane.teams import at_work
from grus.model.curves import Reported, stride_of
from grus.model.identifiers import JobId
from grus.model.jobs import Job
from grus.model.ports import Store

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Line:
    """The last report of a job that was heard, whether or not it is kept."""

    last: Reported
    kept: bool


class CurveKeeper:
    """Of the loop, and told by its thread alone."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lines: dict[JobId, _Line] = {}
        self._waiting: list[Reported] = []

    def hear(self, job: Job, line: str, now: float, *, last: bool = False) -> None:
        """A job's report as it is now, which may be the one of before; `last` if no other will follow."""
        said = reports.read(line)
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
                known = _Line(found, first or found.number % stride_of(found.number) == 0)
                self._keep(known)
        if last and known is not None and not known.kept:
            known.kept = True
            self._keep(known)

    def write(self) -> None:
        """Give what was heard to the store; it is on record soon, or lost."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._store.put_reports(waiting).add_done_callback(_note)

    def forget(self, job: JobId) -> None:
        """It has ended."""
        self._lines.pop(job, None)

    def _known(self, job: Job) -> _Line | None:
        """From what is on record, of a job that ran before this server."""
        if job.id not in self._lines and (job.attempt > 1 or job.progress):
            kept = self._store.reports(job.id)
            if kept:
                self._lines[job.id] = _Line(kept[-1], True)
        return self._lines.get(job.id)

    def _keep(self, line: _Line) -> None:
        self._lines[line.last.job] = line
        if line.kept:
            self._waiting.append(line.last)


def _new(found: Reported, before: Reported) -> bool:
    """Whether it says more than the one before: a line that is read again has the same time and figures."""
    if found.attempt != before.attempt:
        return True
    same = replace(found, number=before.number, at=before.at, gpus=before.gpus)
    return found.at > before.at and same != before


def _note(done: "Future[None]") -> None:
    if (error := done.exception()) is not None:
        log.warning("what jobs reported is lost: %s", error)
