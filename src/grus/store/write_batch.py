"""Batched writes: apply many writes of jobs in few SQL statements. Load the affected rows, check each write
in order, write the accepted ones.

Each statement of the sqlite3 module releases the interpreter's lock and has to acquire it again, which takes
up to 5 ms in a busy server; so the number of statements must not grow with the number of writes. For this
reason facts come as one JSON text and rows go in by one many-row INSERT.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from grus.model.audit import AuditRecord
from grus.model.errors import GrusError, StoreFailed
from grus.model.identifiers import JobId
from grus.model.interfaces import Event, Written
from grus.model.jobs import Job, Phase
from grus.store import codec, rules
from grus.store.audit_log import AuditRow, audit_row, insert_audit

LIMIT = 256
"""Maximum number of writes in one statement; SQLite accepts 32,766 parameters, but beyond some hundred rows
nothing is gained.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWrite:
    """Job to store, and the conditions of the write. Raises BadInput if a value could not be read back."""

    job: Job
    """Job with its new version."""
    body: str = field(init=False)
    event: Event | None
    new: bool
    key: str | None = None
    epoch: int | None = None
    key_said: str = ""
    """Key as its user gave it, if `key` is derived from it."""
    record: AuditRecord | None = None
    """Audit record to write with it."""
    audit: AuditRow | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "body", codec.JOB.encode(self.job))
        if self.event is not None:
            codec.EVENT.encode(self.event)
        object.__setattr__(self, "audit", None if self.record is None else audit_row(self.record))


@dataclass(frozen=True, slots=True)
class WriteGroup:
    """Writes of new jobs that stand or fall together; no two of them have the same id or key."""

    writes: tuple[JobWrite, ...]


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """Result of one piece of work: the error, or the result and the writes to report to listeners."""

    result: object = None
    error: Exception | None = None
    written: Sequence[Written] = ()


Elsewhere = Callable[[Sequence[JobWrite]], Mapping[JobId, Exception]]
"""Function that makes writes durable at the place that the file is a copy of; returns the jobs that failed,
with errors.
"""


def portions(given: Iterable[JobWrite | WriteGroup]) -> Iterator[list[JobWrite | WriteGroup]]:
    """Yield portions that fit into one statement; writes that belong together are never separated."""
    portion: list[JobWrite | WriteGroup] = []
    size = 0
    for one in given:
        if portion and size + len(_writes(one)) > LIMIT:
            yield portion
            portion, size = [], 0
        portion.append(one)
        size += len(_writes(one))
    if portion:
        yield portion


def _writes(given: JobWrite | WriteGroup) -> tuple[JobWrite, ...]:
    return given.writes if isinstance(given, WriteGroup) else (given,)


def apply(
    connection: sqlite3.Connection, given: Sequence[JobWrite | WriteGroup], elsewhere: Elsewhere | None = None
) -> list[WriteOutcome]:
    """Apply the writes inside the caller's transaction. Returns outcomes in the order given; a refused write
    leaves no trace.
    """
    writes = [write for one in given for write in _writes(one)]
    present = _load(connection, writes)
    outcomes: list[WriteOutcome] = []
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
        _as_one([next(each) for _ in one.writes]) if isinstance(one, WriteGroup) else next(each)
        for one in given
    ]


def _as_one(outcomes: Sequence[WriteOutcome]) -> WriteOutcome:
    """Return the outcome of writes that stand or fall together: all of them succeed, or each has the same
    error.
    """
    if outcomes[0].error is not None:
        return outcomes[0]
    written = [one for outcome in outcomes for one in outcome.written]
    return WriteOutcome(result=[outcome.result for outcome in outcomes], written=written)


def _unless_failed(outcome: WriteOutcome, failed: Mapping[JobId, Exception]) -> WriteOutcome:
    """Return the outcome. A write stands or falls with the others of its job; so does the answer to a
    repeated key.
    """
    if not isinstance(outcome.result, Job) or outcome.result.id not in failed:
        return outcome
    why = failed[outcome.result.id]
    if outcome.written or isinstance(why, StoreFailed):
        return WriteOutcome(error=why)
    return WriteOutcome(error=StoreFailed(f"job {outcome.result.id} is being written; try again"))


def numbered(outcomes: Sequence[WriteOutcome], seq: int) -> list[WriteOutcome]:
    """Number the events once the writes are accepted, so that the log has no gaps."""
    numbered = []
    for outcome in outcomes:
        told: list[Written] = []
        for job, event in outcome.written:
            seq += event is not None
            told.append((job, None if event is None else replace(event, seq=seq)))
        numbered.append(replace(outcome, written=told))
    return numbered


class _BatchState:
    """State that a write finds: the stored facts, and on top of them the earlier writes of the batch."""

    def __init__(self, epoch: int, seq: int) -> None:
        self.epoch = epoch
        self.seq = seq
        self.stored: dict[int, tuple[int, Phase, bool]] = {}
        """Stored facts by number of the write: version, phase, and whether the job's identity is the
        write's.
        """
        self.keyed: dict[tuple[str, str], Job] = {}
        self.written: dict[JobId, Job] = {}

    def judge(self, number: int, writes: Sequence[JobWrite]) -> list[WriteOutcome]:
        """Check writes that stand or fall together, the first of which has this number."""
        try:
            there = [self._there(number + index, write) for index, write in enumerate(writes)]
        except GrusError as error:
            return [WriteOutcome(error=error)] * len(writes)
        return [
            self._accept(write) if first is None else WriteOutcome(result=first)
            for write, first in zip(writes, there, strict=True)
        ]

    def _there(self, number: int, write: JobWrite) -> Job | None:
        """Return the job already stored under its key; None if it may be written. Raises the reason why it
        may not.
        """
        rules.check_epoch(write.epoch, self.epoch)
        first = self._first(write)
        if first is None:
            self._check(number, write)
        return first

    def _first(self, write: JobWrite) -> Job | None:
        """Return the job already stored under this user's key."""
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

    def _accept(self, write: JobWrite) -> WriteOutcome:
        job = write.job
        self.written[job.id] = job
        if write.key is not None:
            self.keyed[job.user, write.key] = job
        return WriteOutcome(result=job, written=[(job, write.event)])


def _load(connection: sqlite3.Connection, writes: Sequence[JobWrite]) -> _BatchState:
    """Load everything needed to check the writes, in one statement."""
    given: list[object] = [
        value
        for number, write in enumerate(writes)
        for value in (number, write.job.id, *rules.identity(write.job))
    ]
    keys: list[object] = [
        value for write in writes if write.key is not None for value in (write.job.user, write.key)
    ]
    row = connection.execute(_load_sql(len(writes), len(keys) // 2), given + keys).fetchone()
    present = _BatchState(epoch=row[0], seq=row[1])
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
            WHERE (keys.user, keys.key) IN (VALUES {placeholders(2, keys)})
        )"""  # noqa: S608 - only placeholders go in
    return f"""
        WITH given (number, id, user, queue, submitted_at) AS (VALUES {placeholders(5, writes)})
        SELECT
            epoch,
            coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0),
            (SELECT json_group_array(json_array(
                given.number, jobs.version, jobs.phase,
                jobs.user = given.user AND jobs.queue = given.queue AND jobs.submitted_at = given.submitted_at
            )) FROM given CROSS JOIN jobs ON jobs.id = given.id),
            {keyed}
        FROM control"""  # noqa: S608 - only placeholders go in


def _save(
    connection: sqlite3.Connection, writes: Sequence[JobWrite], outcomes: Sequence[WriteOutcome]
) -> None:
    standing = [write for write, outcome in zip(writes, outcomes, strict=True) if outcome.written]
    insert_jobs(connection, {write.job.id: (write.job, write.body) for write in standing}.values())
    insert_events(
        connection, [event for outcome in outcomes for _, event in outcome.written if event is not None]
    )
    insert_keys(
        connection, [(write.job.user, write.key, write.job.id) for write in standing if write.key is not None]
    )
    insert_audit(connection, [write.audit for write in standing if write.audit is not None])


def insert_jobs(connection: sqlite3.Connection, jobs: Iterable[tuple[Job, str]]) -> None:
    """Insert jobs, each with its body; existing rows are replaced."""
    _insert(connection, INTO_JOBS, [_job_row(job, body) for job, body in jobs], ON_CONFLICT)


def insert_events(connection: sqlite3.Connection, events: Iterable[Event]) -> None:
    _insert(connection, INTO_EVENTS, [_event_row(event) for event in events])


def insert_keys(connection: sqlite3.Connection, keys: Sequence[tuple[str, str, JobId]]) -> None:
    """Insert user, key and job; an existing key stays as it is."""
    _insert(connection, INTO_KEYS, keys, "ON CONFLICT DO NOTHING")


INTO_JOBS = "INSERT INTO jobs (id, version, phase, queue, user, submitted_at, ended_at, body)"
INTO_EVENTS = "INSERT INTO events (seq, at, job, body)"
INTO_KEYS = "INSERT INTO keys (user, key, job)"
ON_CONFLICT = """ON CONFLICT (id) DO UPDATE SET
    version = excluded.version, phase = excluded.phase, ended_at = excluded.ended_at, body = excluded.body"""
"""Clause of an upsert. Columns that never change stay out, and with them their indexes."""


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
        connection.execute(f"{into} VALUES {placeholders(len(rows[0]), len(rows))} {then}", values)


def placeholders(width: int, count: int) -> str:
    """Return the placeholders of `count` rows."""
    row = "(" + ", ".join("?" * width) + ")"
    return ", ".join([row] * count)
