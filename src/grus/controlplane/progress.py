"""What jobs report of themselves, taken into their records. Pure."""

from dataclasses import replace

from grus.api import reports
from grus.model.jobs import Job


def taken(job: Job, line: str, now: float) -> Job:
    """The job with what the line says; the very same job if that is nothing new, or nothing at all."""
    said = reports.read(line)
    figures = said.figures or job.progress
    saved_at = said.saved_at
    if saved_at is None or not 0 < saved_at <= now or saved_at <= (job.saved_at or 0.0):
        saved_at = job.saved_at
    if (figures, saved_at) == (job.progress, job.saved_at):
        return job
    return replace(job, progress=figures, saved_at=saved_at)
