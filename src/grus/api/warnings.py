"""Traps in a job that is valid, as sentences for its submitter."""

from grus.model.jobs import Job, JobType, Launch, Resizing, Spec
from grus.model.saving import SECTION, saves

NO_CHECKPOINT = (
    "it names no checkpoint: a pause, a preemption or a resize restarts it from zero. "
    "Save on SIGTERM, load when GRUS_RESUME is 1, and set checkpoint.path; or use grus.train"
)
SAME_WORK = (
    "its range starts one process a GPU, and each runs the whole command: without grus.train or "
    "torch.distributed all do the same work and write the same files. A fixed number of GPUs runs it once"
)


def warnings_of(job: Job) -> tuple[str, ...]:
    """Sentences about this job, the most pressing first."""
    found = []
    if job.spec.has_workers and runs_copies(job.spec) and not job.team:
        found.append(SAME_WORK)
    if not saves(job):
        found.append(NO_CHECKPOINT)
    return tuple(found)


def runs_copies(spec: Spec) -> bool:
    """Whether an ordinary command runs once for each GPU of a range, and does not say that it shares work."""
    roles = spec.request.roles
    alone = len(roles) == 1 and not roles[0].run and SECTION not in spec.run
    elastic = spec.request.elastic is not None and spec.launch is Launch.PER_GPU
    live = spec.resize is Resizing.AUTO
    return alone and elastic and live and spec.type is JobType.TRAIN
