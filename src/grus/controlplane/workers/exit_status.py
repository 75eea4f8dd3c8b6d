"""Worker exits: descriptions and predicates that the rules about jobs and worker groups share. Pure."""

from collections.abc import Mapping, Sequence

from grus.controlplane.workers.worker_launch_spec import Member
from grus.model.identifiers import WorkerId
from grus.model.interfaces import WorkerState, WorkerStatus
from grus.model.jobs import Exit, ExitCause

Statuses = Mapping[WorkerId, WorkerStatus]

OUT = 75
"""Exit code of a worker that cannot continue although its program could: a sticky device error, for one."""

BY_SIGTERM = 128 + 15


def alive(status: WorkerStatus | None) -> bool:
    return status is not None and status.state is not WorkerState.ENDED


def over(status: WorkerStatus | None) -> bool:
    return status is not None and status.state is WorkerState.ENDED


def done(status: WorkerStatus | None) -> bool:
    """Return whether it ended by itself, with code 0."""
    return status is not None and over(status) and _exit(status).cause is ExitCause.DONE


def up(status: WorkerStatus | None) -> bool:
    return status is not None and (status.state is WorkerState.RUNNING or done(status))


def left(status: WorkerStatus) -> bool:
    """Return whether it ended as requested, or by itself, in order.

    A shell that only waits for the program dies of the SIGTERM that requests the end; the program got its
    own.
    """
    exit_ = _exit(status)
    return exit_.cause is ExitCause.DONE or (
        exit_.cause is ExitCause.STOPPED and exit_.code in (0, BY_SIGTERM)
    )


def vanished(status: WorkerStatus) -> bool:
    """Return whether it ended abnormally: it was not done, and its program did not give up."""
    exit_ = _exit(status)
    if exit_.cause in (ExitCause.CODE, ExitCause.GPU_MEMORY):
        return exit_.code == OUT
    return exit_.cause is not ExitCause.DONE


def _exit(status: WorkerStatus) -> Exit:
    return status.exit or Exit(ExitCause.LOST)


def name(member: Member, staying: Sequence[Member]) -> str:
    """Return the name of a worker among those that stay, as users see it."""
    if len(staying) == 1:
        return "its worker"
    if len({other.role for other in staying}) == 1:
        return f"worker {member.rank}"
    return f"{member.role} {member.seats[0].index}"


def sentence(exit_: Exit) -> str:
    return exit_.text or exit_.cause.value


def how(status: WorkerStatus | None) -> str:
    """Describe how the worker ended, in a few words."""
    return "gone" if status is None else sentence(_exit(status))
