"""Logs of a job by attempt and worker number, also after the job has ended and its GPUs are released.

A worker that was replaced, or left and came again, has one log: those of all processes in its position, in
order. The output of the `setup` lines comes first in the log of worker 0, as users would see it in one
terminal.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from grus.controlplane.workers.worker_launch_spec import SETUP, members
from grus.model.errors import NotFound
from grus.model.identifiers import WorkerId
from grus.model.interfaces import Engine
from grus.model.jobs import Job

Place = tuple[str, int]
"""Role and number of a replica."""


class _Logged(NamedTuple):
    """One process that has a log, by what its id says."""

    attempt: int
    role: str
    replica: int
    born: int
    id: WorkerId

    @property
    def is_setup(self) -> bool:
        return self.role == SETUP and not self.born


def read(
    engine: Engine, job: Job, number: int, offset: int, limit: int, attempt: int | None = None
) -> tuple[bytes, int]:
    """Bytes of the log of worker `number`, and the next offset; of the last attempt if none is named."""
    chosen = _attempt(job, attempt)
    logged = [one for one in map(_parsed, engine.logged(job.id)) if one and one.attempt == chosen]
    return _chained(engine, _lives(job, number, chosen, logged), offset, limit)


def _attempt(job: Job, attempt: int | None) -> int:
    if attempt is None:
        return job.attempt
    if not 1 <= attempt <= job.attempt:
        known = f"it has had {job.attempt}" if job.attempt else "it has not started yet"
        raise NotFound(f"job {job.id} has no attempt {attempt}; {known}")
    return attempt


def _lives(job: Job, number: int, attempt: int, logged: Sequence[_Logged]) -> list[WorkerId]:
    """Return the processes whose logs make up this worker's. Raises NotFound for a number that the job never
    had.
    """
    places = _places(job, attempt, logged)
    if number and number >= len(places):
        raise NotFound(f"job {job.id} has no worker {number}")
    place = places[number] if places else None
    own = [one for one in logged if not one.is_setup and (one.role, one.replica) == place]
    setup = [one for one in logged if one.is_setup] if not number else []
    return [one.id for one in (*setup, *sorted(own, key=lambda one: one.born))]


def _places(job: Job, attempt: int, logged: Sequence[_Logged]) -> list[Place]:
    """Present workers in the order of their ranks, then those that have left, by role and number."""
    team = members(job) if attempt == job.attempt else ()
    present = [(member.role, member.seats[0].index) for member in team]
    order = {role.name: place for place, role in enumerate(job.spec.request.roles)}
    known = {(one.role, one.replica) for one in logged if not one.is_setup}
    left = sorted(known.difference(present), key=lambda place: (order.get(place[0], 0), place))
    return present + left


def _parsed(worker: WorkerId) -> _Logged | None:
    """Parts of an id that `worker_id` made; None for any other name."""
    parts = worker.rsplit(".", 4)
    if len(parts) != 5 or not (parts[1] + parts[3] + parts[4]).isdecimal():
        return None
    return _Logged(int(parts[1]), parts[2], int(parts[3]), int(parts[4]), worker)


def _chained(engine: Engine, workers: Sequence[WorkerId], offset: int, limit: int) -> tuple[bytes, int]:
    """Bytes of these logs as if they were one; a piece never reaches from one into the next."""
    if not workers:
        return b"", max(0, offset)
    *earlier, last = workers
    begin = 0
    lengths = [_length(engine, worker) for worker in earlier]
    if earlier and offset < 0:
        offset = max(0, sum(lengths) + _length(engine, last) + offset)
    for worker, length in zip(earlier, lengths, strict=True):
        if offset < begin + length:
            data, following = _bytes(engine, worker, offset - begin, min(limit, begin + length - offset))
            return data, following + begin
        begin += length
    data, following = _bytes(engine, last, offset - begin, limit)
    return data, following + begin


def _length(engine: Engine, worker: WorkerId) -> int:
    return _bytes(engine, worker, -1, 1)[1]


def _bytes(engine: Engine, worker: WorkerId, offset: int, limit: int) -> tuple[bytes, int]:
    """Like the engine's `log`; nothing where there is none.

    A worker that never wrote anything may lose its log between two looks at it, when it is forgotten.
    """
    with suppress(NotFound):
        return engine.log(worker, offset, limit)
    return b"", max(0, offset)
