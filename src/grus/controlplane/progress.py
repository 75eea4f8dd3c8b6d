"""What jobs report of themselves, taken into their records. Pure."""

from dataclasses import replace

from grus.api import kept, reports
from grus.model.jobs import Job


def taken(job: Job, line: str, now: float) -> Job:
    """The job with what the line says; the very same job if that is nothing new, or nothing at all."""
    said = reports.read(line)
    figures = said.figures or job.progress
    saved_at = said.saved_at
    if saved_at is None or not 0 < saved_at <= now or saved_at <= (job.saved_at or 0.0):
        saved_at = job.saved_at
    diverged = said.diverged if said.at is not None else job.diverged
    if (figures, saved_at, diverged) == (job.progress, job.saved_at, job.diverged):
        return job
    return replace(job, progress=figures, saved_at=saved_at, diverged=diverged)


def with_artefacts(job: Job, line: str) -> Job:
    """The job with the outputs that this line says are kept; the very same job if it says none."""
    wanted = {output.name for output in job.spec.outputs}
    found = tuple(one for one in kept.artefacts(line) if one.name in wanted)
    return replace(job, artefacts=found) if found else job
