"""Text forms of jobs for users: status, request, size and command."""

from grus.model.jobs import Desired, Job, JobType, Phase, Spec
from grus.model.resources import Range, Replica, Request
from grus.model.results import words_of
from grus.model.texts.units import GpuAsk, render_gpu


def status_word(job: Job) -> str:
    """Return the phase in the users' words, including a requested change that is not done yet."""
    if job.terminal:
        return job.phase.value
    if job.desired is Desired.STOP:
        return "stopping"
    if job.desired is Desired.PAUSE and job.phase is not Phase.PAUSED:
        return "pausing"
    return job.phase.value


def request_text(request: Request) -> str:
    """Render a request as it could be written: `A100:2..8`, or by role `launcher 0, worker 2..8 × 1`."""
    if len(request.roles) == 1 and not request.roles[0].run:
        role = request.roles[0]
        if request.auto:
            return render_gpu(GpuAsk(types=role.replica.types, auto=True))
        return _plain_request(role.replicas, role.replica)
    return ", ".join(
        f"{role.name} " + ("" if role.replicas == Range(1, 1) else f"{role.replicas} × ") + _one(role.replica)
        for role in request.roles
    )


def size_text(spec: Spec, size: Range) -> str:
    """Render a size that somebody has set, beside the GPUs that are held. For replicas of a served model that
    do not take one GPU each, add the size of one replica.
    """
    role = spec.request.elastic
    if spec.type is not JobType.SERVE or role is None or role.replica.gpus == 1:
        return str(size)
    return f"{size} × {_one(role.replica)}"


def _plain_request(count: Range, replica: Replica) -> str:
    return render_gpu(GpuAsk(count, types=replica.types)) if replica.gpus else _one(replica)


def _one(replica: Replica) -> str:
    """Render the GPUs of one replica."""
    count = Range(replica.gpus, replica.gpus)
    return render_gpu(GpuAsk(count, replica.share, replica.gpu_memory, replica.types))


def run_text(spec: Spec) -> str:
    """Render the command for users, of each role that has its own."""
    if not spec.run:
        return "; ".join(f"{role.name}: {words_of(role.run)}" for role in spec.request.roles)
    return words_of(spec.run)
