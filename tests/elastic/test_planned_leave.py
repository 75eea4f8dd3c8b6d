"""However a worker ends that was told to leave, it has left: the job goes on and nothing is charged.

Horovod's own removed rank aborts on its way out (exit code 134, or signal 6), which people know as random
crashes at scale-down.
"""

from dataclasses import replace

import pytest

from grus.controlplane.jobs.lifecycle import Limits, advance
from grus.controlplane.workers.worker_launch_spec import members
from grus.model.identifiers import DeviceId, NodeId
from grus.model.interfaces import WorkerState, WorkerStatus
from grus.model.jobs import Exit, ExitCause, Job, Phase, Seat
from grus.model.resources import GPU
from tests.scheduler.builders import a_job

ABORTED = 134
ENDS = [
    Exit(ExitCause.STOPPED, ABORTED),  # it had got SIGTERM
    Exit(ExitCause.CODE, ABORTED, "exit code 134"),  # it read the order to leave, before any signal
    Exit(ExitCause.SIGNAL, 6, "signal 6"),
    Exit(ExitCause.DONE, 0),
]


def shrinking() -> Job:
    seats = tuple(
        Seat("worker", index, NodeId("n"), (DeviceId(f"n-{index}"),), GPU, leaving=index == 1)
        for index in range(2)
    )
    job = replace(a_job("j", gpus=1), phase=Phase.RUNNING, attempt=1, generation=2, seats=seats)
    return replace(job, started_at=1000.0, version=3)


@pytest.mark.parametrize("end", ENDS, ids=lambda end: f"{end.cause.value}-{end.code}")
def test_the_end_of_a_worker_that_was_told_to_leave_is_a_leave(end: Exit) -> None:
    job = shrinking()
    stays, leaves = members(job)
    states = {
        stays.id: WorkerStatus(id=stays.id, job=job.id, attempt=1, state=WorkerState.RUNNING),
        leaves.id: WorkerStatus(
            id=leaves.id, job=job.id, attempt=1, state=WorkerState.ENDED, exit=end, ended_at=1005.0
        ),
    }
    change = advance(job, states, 1010.0, Limits(start_timeout=60.0))
    assert change is not None
    assert change.event is not None
    assert change.event.kind == "released"
    assert (change.job.phase, change.job.failures, change.job.attempt) == (Phase.RUNNING, 0, 1)
    assert [seat.index for seat in change.job.seats] == [0]


def test_the_same_end_of_a_worker_that_was_to_stay_is_a_failure() -> None:
    job = shrinking()
    job = replace(job, seats=tuple(replace(seat, leaving=False) for seat in job.seats))
    stays, other = members(job)
    states = {
        stays.id: WorkerStatus(id=stays.id, job=job.id, attempt=1, state=WorkerState.RUNNING),
        other.id: WorkerStatus(
            id=other.id, job=job.id, attempt=1, state=WorkerState.ENDED, exit=ENDS[1], ended_at=1005.0
        ),
    }
    change = advance(job, states, 1010.0, Limits(start_timeout=60.0))
    assert change is not None
    assert change.job.exit is not None
    assert change.job.exit.code == ABORTED
