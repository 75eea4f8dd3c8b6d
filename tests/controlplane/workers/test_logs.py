"""Which log belongs to which worker, and what is said where there is none (any more)."""

from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from grus.controlplane.workers import logs
from grus.model.errors import NotFound
from grus.model.identifiers import JobId, WorkerId
from grus.model.interfaces import Engine
from grus.model.jobs import Job
from tests.scheduler.builders import a_job


@dataclass
class Forgetful:
    """An engine that forgets a silent worker right after it has listed it."""

    looks: list[WorkerId] = field(default_factory=list)

    def logged(self, job: JobId) -> tuple[WorkerId, ...]:
        return (WorkerId(f"{job}.1.worker.0.1"),)

    def log(self, worker: WorkerId, offset: int = 0, limit: int = 65536) -> tuple[bytes, int]:
        self.looks.append(worker)
        raise NotFound(f"there is no log of a worker {worker}")


@dataclass
class Kept:
    """An engine that has these logs."""

    logs: dict[str, bytes]

    def logged(self, job: JobId) -> tuple[WorkerId, ...]:
        return tuple(map(WorkerId, reversed(self.logs)))

    def log(self, worker: WorkerId, offset: int = 0, limit: int = 65536) -> tuple[bytes, int]:
        data = self.logs[worker]
        begin = max(0, len(data) + offset) if offset < 0 else min(offset, len(data))
        return data[begin : begin + limit], min(len(data), begin + limit)


def whole(engine: Kept, job: Job, number: int = 0, attempt: int | None = None, offset: int = 0) -> bytes:
    """A log as it is read piece by piece."""
    found = b""
    while True:
        data, offset = logs.read(cast(Engine, engine), job, number, offset, 3, attempt)
        if not data:
            return found
        found += data


def test_a_silent_worker_forgotten_between_two_looks_has_an_empty_log() -> None:
    engine = Forgetful()
    ended = replace(a_job("quiet"), attempt=1, generation=1)
    assert logs.read(cast(Engine, engine), ended, 0, 0, 100) == (b"", 0)
    assert engine.looks, "it was listed, and then not there"


@pytest.mark.parametrize("number", [1, 2**64 + 1])
def test_a_worker_that_an_ended_job_never_had_is_not_there_whatever_its_number(number: int) -> None:
    ended = replace(a_job("quiet"), attempt=1, generation=1)
    with pytest.raises(NotFound, match=f"has no worker {number}"):
        logs.read(cast(Engine, Forgetful()), ended, number, 0, 100)


def test_every_attempt_has_its_own_log_and_the_last_one_is_the_default() -> None:
    job = replace(a_job("twice"), attempt=2, generation=1)
    engine = Kept({f"{job.id}.1.worker.0.1": b"first\n", f"{job.id}.2.worker.0.1": b"second\n"})
    assert whole(engine, job, attempt=1) == b"first\n"
    assert whole(engine, job, attempt=2) == whole(engine, job) == b"second\n"
    with pytest.raises(NotFound, match="no attempt 3; it has had 2"):
        whole(engine, job, attempt=3)


def test_a_replaced_worker_has_one_log_in_which_each_process_follows_the_one_before() -> None:
    job = replace(a_job("elastic"), attempt=1, generation=12)
    engine = Kept(
        {
            f"{job.id}.1.setup.0.0": b"setup\n",
            f"{job.id}.1.worker.0.1": b"born\n",
            f"{job.id}.1.worker.0.3": b"again\n",
            f"{job.id}.1.worker.0.12": b"at last\n",
            f"{job.id}.1.worker.1.2": b"another\n",
        }
    )
    assert whole(engine, job) == b"setup\nborn\nagain\nat last\n"
    assert whole(engine, job, 1) == b"another\n"
    assert whole(engine, job, offset=-10) == b"n\nat last\n"
