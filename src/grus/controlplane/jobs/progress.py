"""Progress reports and artifacts of jobs, added to their records. Pure."""

from dataclasses import replace

from grus.model.jobs import Job
from grus.model.worker_reports import report_lines, stored_outputs


def taken(job: Job, line: str, now: float) -> Job:
    """Return the job with the line's report; the very same job if that is nothing new, or nothing at all."""
    said = report_lines.read(line)
    figures = said.figures or job.progress
    saved_at = said.saved_at
    if saved_at is None or not 0 < saved_at <= now or saved_at <= (job.saved_at or 0.0):
        saved_at = job.saved_at
    diverged = said.diverged if said.at is not None else job.diverged
    if (figures, saved_at, diverged) == (job.progress, job.saved_at, job.diverged):
        return job
    return replace(job, progress=figures, saved_at=saved_at, diverged=diverged)


def with_artefacts(job: Job, line: str) -> Job:
    """Return the job with the outputs that this line reports as kept; the very same job if there are none."""
    wanted = {output.name for output in job.spec.outputs}
    found = tuple(one for one in stored_outputs.artefacts(line) if one.name in wanted)
    return replace(job, artefacts=found) if found else job
