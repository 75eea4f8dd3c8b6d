"""Which log belongs to which worker of a job, also when the job has ended and its seats are gone.

The output of the `setup` lines comes first in the log of worker 0, as people would see it in one terminal.
"""

from collections.abc import Iterator
from contextlib import suppress

from grus.controlplane.launching import members, setup_id
from grus.model.errors import NotFound
from grus.model.identifiers import NodeId, WorkerId
from grus.model.jobs import Job, Seat, worker_id
from grus.model.ports import Engine


def read(engine: Engine, job: Job, number: int, offset: int, limit: int) -> tuple[bytes, int]:
    """Bytes of the log of worker `number` of the last attempt, and the next offset."""
    main = _find(engine, job, number)
    if number or not job.spec.setup:
        return _bytes(engine, main, offset, limit)
    return _after_setup(engine, setup_id(job), main, offset, limit)


def _after_setup(
    engine: Engine, setup: WorkerId, main: WorkerId | None, offset: int, limit: int
) -> tuple[bytes, int]:
    length = _length(engine, setup)
    if offset < 0:  # from the end: of the program if it has begun, else of the setup
        if main is None:
            return _bytes(engine, setup, offset, limit)
        data, following = _bytes(engine, main, offset, limit)
        return data, following + length
    if offset < length:
        return _bytes(engine, setup, offset, min(limit, length - offset))
    data, following = _bytes(engine, main, offset - length, limit)
    return data, following + length


def _length(engine: Engine, worker: WorkerId) -> int:
    return _bytes(engine, worker, -1, 1)[1]


def _bytes(engine: Engine, worker: WorkerId | None, offset: int, limit: int) -> tuple[bytes, int]:
    """As the engine's `log`; nothing where there is none.

    A worker that never said anything has a log as long as it lives, and none from the moment it is forgotten:
    that may be between two looks at it.
    """
    if worker is not None:
        with suppress(NotFound):
            return engine.log(worker, offset, limit)
    return b"", max(0, offset)


def _find(engine: Engine, job: Job, number: int) -> WorkerId | None:
    """The worker's id, if there is a log of it yet. Raises NotFound for a number that the job never had."""
    team = members(job)
    if number < len(team):
        return team[number].id if _has_log(engine, team[number].id) else None
    if not team:
        found = enumerate(worker for worker in _ended(job) if _has_log(engine, worker))
        if (worker := next((worker for place, worker in found if place == number), None)) is not None:
            return worker
    if number:
        raise NotFound(f"job {job.id} has no worker {number}")
    return None


def _ended(job: Job) -> Iterator[WorkerId]:
    """Ids that workers of the last attempt may have had, in the order of their numbers."""
    for role in job.spec.request.roles if job.attempt else ():
        for index in range(role.replicas.high):
            for born in range(1, max(1, job.generation) + 1):
                yield worker_id(job.id, job.attempt, Seat(role.name, index, NodeId(""), (), 0, born))


def _has_log(engine: Engine, worker: WorkerId) -> bool:
    try:
        engine.log(worker, 0, 1)
    except NotFound:
        return False
    return True
