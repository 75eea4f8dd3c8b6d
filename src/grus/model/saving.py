"""Evidence that a job saves its work, and the cost of a pause where there is none."""

from grus.model.jobs import Job, JobType, Spec

SECTION = "grus.elastic.section"
"""Module that runs a job's `train:` section; it saves by itself."""
SESSION = "grus.interactive.session"
"""Module that runs a development session: people save their files, its processes save nothing."""


def saves(job: Job) -> bool:
    """Return True if the job is known to save its work when it is asked to end.

    It names a checkpoint, has reported one, or its workers form a worker group, as those of `grus.train` do.
    """
    return spec_saves(job.spec) or job.saved_at is not None or job.team > 0


def spec_saves(spec: Spec) -> bool:
    """True if this is known before it runs, of a sweep for its trials. A served model has nothing to save."""
    named = bool(spec.checkpoint.path) or spec.checkpoint.every is not None
    return named or spec.type is JobType.SERVE or SECTION in spec.run


def lost_by_pause(job: Job, now: float) -> float:
    """Return the seconds of work that a pause loses: all since the start of a job that does not save."""
    return 0.0 if saves(job) or job.started_at is None else max(0.0, now - job.started_at)
