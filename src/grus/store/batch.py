"""Many writes of jobs as few SQL statements: load what they touch, judge each in order, write what stands.

Each statement of the sqlite3 module lets go of the interpreter's lock and has to win it back, which takes up
to 5 ms in a busy server; so the number of statements must not grow with the number of writes. It is why facts
come as one JSON text and rows go in by one many-row INSERT.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from grus.model.errors import GrusError, StoreFailed
from grus.model.identifiers import JobId
from grus.model.jobs import Job, Phase
from grus.model.ports import Event
from grus.store import codec, rules
from grus.store.listeners import Written

LIMIT = 256
"""Writes in one statement; SQLite takes 32,766 parameters, but beyond some hundred rows nothing is gained."""


@dataclass(frozen=True, slots=True)
class JobWrite:
    """A job as it is to be stored, and what must hold for that."""

    job: Job
    """With its new version."""
    body: str
    event: Event | None
    new: bool
    key: str | None = None
    epoch: int | None = None
    key_said: str = ""
    """The key as its user gave it, where `key` is something made of it."""


@dataclass(frozen=True, slots=True)
class Together:
    """Writes of new jobs that stand or fall as one; no two of them have the same id or key."""

    writes: tuple[JobWrite, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one piece of work: the error, or the result and what is to be told to listeners."""

    result: object = None
    error: Exception | None = None
    written: Sequence[Written] = ()


Elsewhere = Callable[[Sequence[JobWrite]], Mapping[JobId, Exception]]
"""Makes writes last at the place whose copy the file is; the answer: of which jobs it could not, and why."""


def portions(given: Iterable[JobWrite | Together]) -> Iterator[list[JobWrite | Together]]:
    """So many as go into one statement; what belongs together is never parted."""
    portion: list[JobWrite | Together] = []
    size = 0
    for one in given:
        if portion and size + len(_writes(one)) > LIMIT:
            yield portion
            portion, size = [], 0
        portion.append(one)
        size += len(_writes(one))
    if portion:
        yield portion


def _writes(given: JobWrite | Together) -> tuple[JobWrite, ...]:
    return given.writes if isinstance(given, Together) else (given,)


def apply(
    connection: sqlite3.Connection, given: Sequence[JobWrite | Together], elsewhere: Elsewhere | None = None
) -> list[Outcome]:
    """Inside the caller's transaction. Outcomes in the order given; what is refused leaves no trace."""
    writes = [write for one in given for write in _writes(one)]
    present = _load(connection, writes)
    outcomes: list[Outcome] = []
    for one in given:
        outcomes += present.judge(len(outcomes), _writes(one))
    if elsewhere is not None:
        standing = [write for write, outcome in zip(writes, outcomes, strict=True) if outcome.written]
        failed = elsewhere(standing) if standing else {}
        outcomes = [_unless_failed(outcome, failed) for outcome in outcomes]
    outcomes = numbered(outcomes, present.seq)
    _save(connection, writes, outcomes)
    each = iter(outcomes)
    return [
        _as_one([next(each) for _ in one.writes]) if isinstance(one, Together) else next(each)
        for one in given
    ]


def _as_one(outcomes: Sequence[Outcome]) -> Outcome:
    """Of writes that stand or fall together: all of them stand, or each has the same error."""
    if outcomes[0].error is not None:
        return outcomes[0]
    written = [one for outcome in outcomes for one in outcome.written]
    return Outcome(result=[outcome.result for outcome in outcomes], written=written)


def _unless_failed(outcome: Outcome, failed: Mapping[JobId, Exception]) -> Outcome:
    """A write stands or falls with the others of its job; so does the answer to a repeated key."""
    if not isinstance(outcome.result, Job) or outcome.result.id not in failed:
        return outcome
    why = failed[outcome.result.id]
    if outcome.written or isinstance(why, StoreFailed):
        return Outcome(error=why)
    return Outcome(error=StoreFailed(f"job {outcome.result.id} is being written; try again"))


def numbered(outcomes: Sequence[Outcome], seq: int) -> list[Outcome]:
    """Events get their numbers when it is known that they stand, so that the log has no gaps."""
    numbered = []
    for outcome in outcomes:
        told: list[Written] = []
        for job, event in outcome.written:
            seq += event is not None
            told.append((job, None if event is None else replace(event, seq=seq)))
        numbered.append(replace(outcome, written=told))
    return numbered


class _Present:
    """What a write finds: the stored facts, and on top of them what the writes before it in the batch did."""

    def __init__(self, epoch: int, seq: int) -> None:
        self.epoch = epoch
        self.seq = seq
        self.stored: dict[int, tuple[int, Phase, bool]] = {}
        """By number of the write: version, phase, and whether the job's identity is the write's."""
        self.keyed: dict[tuple[str, str], Job] = {}
        self.written: dict[JobId, Job] = {}

    def judge(self, number: int, writes: Sequence[JobWrite]) -> list[Outcome]:
        """Of writes that stand or fall together, the first of which has this number."""
        try:
            there = [self._there(number + index, write) for index, write in enumerate(writes)]
        except GrusError as error:
            return [Outcome(error=error)] * len(writes)
        return [
            self._accept(write) if first is None else Outcome(result=first)
            for write, first in zip(writes, there, strict=True)
        ]

    def _there(self, number: int, write: JobWrite) -> Job | None:
        """What its key stands for already; None if it may be written. Raises why it may not."""
        rules.check_epoch(write.epoch, self.epoch)
        first = self._first(write)
        if first is None:
            self._check(number, write)
        return first

    def _first(self, write: JobWrite) -> Job | None:
        """The job that this user's key stands for already."""
        first = self.keyed.get((write.job.user, write.key)) if write.key is not None else None
        if first is None or write.key is None:
            return None
        rules.check_key(write.key_said or write.key, first, write.job)
        return self.written.get(first.id, first)

    def _check(self, number: int, write: JobWrite) -> None:
        job = write.job
        before = self.written.get(job.id)
        found = self.stored.get(number)
        if before is not None:
            found = before.version, before.phase, rules.identity(before) == rules.identity(job)
        if write.new:
            rules.check_new(job.id, found is not None)
            return
        if found is None:
            raise rules.no_job(job.id)
        version, phase, same = found
        rules.check_version(job.id, job.version - 1, version)
        rules.check_identity(job.id, same)
        rules.check_phase(job.id, phase, job.phase)

    def _accept(self, write: JobWrite) -> Outcome:
        job = write.job
        self.written[job.id] = job
        if write.key is not None:
            self.keyed[job.user, write.key] = job
        return Outcome(result=job, written=[(job, write.event)])


def _load(connection: sqlite3.Connection, writes: Sequence[JobWrite]) -> _Present:
    """Everything that the writes will be judged by, in one statement."""
    given: list[object] = [
        value
        for number, write in enumerate(writes)
        for value in (number, write.job.id, *rules.identity(write.job))
    ]
    keys: list[object] = [
        value for write in writes if write.key is not None for value in (write.job.user, write.key)
    ]
    row = connection.execute(_load_sql(len(writes), len(keys) // 2), given + keys).fetchone()
    present = _Present(epoch=row[0], seq=row[1])
    for number, version, phase, same in json.loads(row[2]):
        present.stored[number] = version, Phase(phase), bool(same)
    for user, key, body in json.loads(row[3]):
        present.keyed[user, key] = codec.JOB.decode(body)
    return present


def _load_sql(writes: int, keys: int) -> str:
    keyed = "'[]'"
    if keys:
        keyed = f"""(
            SELECT json_group_array(json_array(keys.user, keys.key, jobs.body))
            FROM keys JOIN jobs ON jobs.id = keys.job
            WHERE (keys.user, keys.key) IN (VALUES {_rows(2, keys)})
        )"""  # noqa: S608 - only placeholders go in
    return f"""
        WITH given (number, id, user, queue, submitted_at) AS (VALUES {_rows(5, writes)})
        SELECT
            epoch,
            coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0),
            (SELECT json_group_array(json_array(
                given.number, jobs.version, jobs.phase,
                jobs.user = given.user AND jobs.queue = given.queue AND jobs.submitted_at = given.submitted_at
            )) FROM given CROSS JOIN jobs ON jobs.id = given.id),
            {keyed}
        FROM control"""  # noqa: S608 - only placeholders go in


def _save(connection: sqlite3.Connection, writes: Sequence[JobWrite], outcomes: Sequence[Outcome]) -> None:
    standing = [write for write, outcome in zip(writes, outcomes, strict=True) if outcome.written]
    insert_jobs(connection, {write.job.id: (write.job, write.body) for write in standing}.values())
    insert_events(
        connection, [event for outcome in outcomes for _, event in outcome.written if event is not None]
    )
    insert_keys(
        connection, [(write.job.user, write.key, write.job.id) for write in standing if write.key is not None]
    )


def insert_jobs(connection: sqlite3.Connection, jobs: Iterable[tuple[Job, str]]) -> None:
    """Each with its body; over what is there of them."""
    _insert(connection, INTO_JOBS, [_job_row(job, body) for job, body in jobs], ON_CONFLICT)


def insert_events(connection: sqlite3.Connection, events: Iterable[Event]) -> None:
    _insert(connection, INTO_EVENTS, [_event_row(event) for event in events])


def insert_keys(connection: sqlite3.Connection, keys: Sequence[tuple[str, str, JobId]]) -> None:
    """User, key, job; a key that is there stays as it is."""
    _insert(connection, INTO_KEYS, keys, "ON CONFLICT DO NOTHING")


INTO_JOBS = "INSERT INTO jobs (id, version, phase, queue, user, submitted_at, ended_at, body)"
INTO_EVENTS = "INSERT INTO events (seq, at, job, body)"
INTO_KEYS = "INSERT INTO keys (user, key, job)"
ON_CONFLICT = """ON CONFLICT (id) DO UPDATE SET
    version = excluded.version, phase = excluded.phase, ended_at = excluded.ended_at, body = excluded.body"""
"""Columns that never change stay out, and with them their indexes."""


def _job_row(job: Job, body: str) -> tuple[object, ...]:
    user, queue, submitted_at = rules.identity(job)
    return job.id, job.version, job.phase, queue, user, submitted_at, job.ended_at, body


def _event_row(event: Event) -> tuple[object, ...]:
    return event.seq, event.at, event.job, codec.EVENT.encode(event)


def _insert(
    connection: sqlite3.Connection, into: str, rows: Sequence[tuple[object, ...]], then: str = ""
) -> None:
    if rows:
        values = [value for row in rows for value in row]
        connection.execute(f"{into} VALUES {_rows(len(rows[0]), len(rows))} {then}", values)


def _rows(width: int, count: int) -> str:
    """Placeholders of `count` rows."""
    row = "(" + ", ".join("?" * width) + ")"
    return ", ".join([row] * count)
