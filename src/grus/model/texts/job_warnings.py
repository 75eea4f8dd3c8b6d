"""Warnings about pitfalls in a job that is valid, as sentences for its submitter."""

from grus.model.jobs import Job, JobType, Launch, Phase, Resizing, Spec
from grus.model.saving import SECTION, SESSION, saves

NO_CHECKPOINT = (
    "it names no checkpoint: a pause, a preemption or a resize restarts it from zero. "
    "Save on SIGTERM, load when GRUS_RESUME is 1, and set checkpoint.path; or use grus.train"
)
SAME_WORK = (
    "its range starts one process a GPU, and each runs the whole command: without grus.train or "
    "torch.distributed all do the same work and write the same files. A fixed number of GPUs runs it once"
)
JOINING = 60.0
"""Seconds from the start in which workers import their libraries and join a worker group."""


def warnings_of(job: Job) -> tuple[str, ...]:
    """Return sentences about this job, the most pressing first."""
    found = []
    if job.spec.has_workers and runs_copies(job.spec) and not job.team:
        found.append(SAME_WORK)
    if not saves(job) and SESSION not in job.spec.run:
        found.append(NO_CHECKPOINT)
    return tuple(found)


def runs_copies(spec: Spec) -> bool:
    """Return True if an ordinary command runs once for each GPU of a range, without declaring that it shares
    work.
    """
    roles = spec.request.roles
    alone = len(roles) == 1 and not roles[0].run and SECTION not in spec.run
    elastic = spec.launch is Launch.PER_GPU and spec.resize is Resizing.AUTO and bool(spec.request.elastic)
    return alone and elastic and spec.type is JobType.TRAIN


def apart(job: Job, now: float) -> str:
    """Warn about several workers of a range that have not joined a worker group in time; "" for any other
    job.
    """
    count = len(job.staying)
    if job.phase is not Phase.RUNNING or count < 2 or job.team or not runs_copies(job.spec):
        return ""
    if job.started_at is None or now - job.started_at < JOINING:
        return ""
    return (
        f"its {count} workers have not joined a worker group: unless they use torch.distributed, each runs "
        "the whole command and writes the same files. Use grus.train, or a fixed number of GPUs"
    )
