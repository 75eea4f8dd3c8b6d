"""Damages of a state, each planted in real files: what a failing disk, a careless hand or a bug may leave.

`DAMAGES` names them all; each says what `grus fsck` must call it. They are planted with plain SQL and file
operations, past everything that guards the record.
"""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Plant = Callable[[Path], None]
"""Damages the state in this folder."""


@dataclass(frozen=True, slots=True)
class Damage:
    check: str
    """The word under which it must be found."""
    plant: Plant


DAMAGES: dict[str, Damage] = {}
LAST = "SELECT id FROM jobs WHERE phase = '{}' ORDER BY submitted_at LIMIT 1"


def _damage(check: str) -> Callable[[Plant], Plant]:
    def added(plant: Plant) -> Plant:
        DAMAGES[plant.__name__] = Damage(check, plant)
        return plant

    return added


@contextmanager
def opened(state: Path) -> Iterator[sqlite3.Connection]:
    """The file, with nothing that guards it: no foreign keys, no triggers on the log while it is open."""
    with closing(sqlite3.connect(state / "grus.db", isolation_level=None)) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        yield connection
        for _, sql in triggers:
            connection.execute(sql)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def a_job(connection: sqlite3.Connection, phase: str) -> str:
    row = connection.execute(LAST.format(phase)).fetchone()
    assert row is not None, f"no job is {phase}"
    return str(row[0])


def change(state: Path, phase: str, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edit the record of a job of this phase, its columns along with it."""
    with opened(state) as connection:
        id_ = a_job(connection, phase)
        body = json.loads(connection.execute("SELECT body FROM jobs WHERE id = ?", (id_,)).fetchone()[0])
        edit(body)
        connection.execute(
            "UPDATE jobs SET body = ?, phase = ?, version = ?, ended_at = ? WHERE id = ?",
            (json.dumps(body), body["phase"], body["version"], body.get("ended_at"), id_),
        )


# ------------------------------------------------------------------------------------------ the file


@_damage("file")
def bytes_overwritten(state: Path) -> None:
    file = state / "grus.db"
    size = file.stat().st_size
    with file.open("r+b") as opened_file:
        opened_file.seek(size // 2)
        opened_file.write(b"\xa5" * (size // 4))


@_damage("file")
def cut_short(state: Path) -> None:
    file = state / "grus.db"
    with file.open("r+b") as opened_file:
        opened_file.truncate(file.stat().st_size // 2)


@_damage("file")
def index_out_of_step(state: Path) -> None:
    with opened(state) as connection:
        sql = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'jobs_phase'").fetchone()[0]
        connection.execute("PRAGMA writable_schema = ON")
        broken = sql.replace("jobs_phase ON", "jobs_phase  ON") + " WHERE phase = 'pending'"
        connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'jobs_phase'", (broken,))
        connection.execute("PRAGMA writable_schema = RESET")


@_damage("schema")
def index_dropped(state: Path) -> None:
    with opened(state) as connection:
        connection.execute("DROP INDEX events_job")


@_damage("schema")
def trigger_dropped(state: Path) -> None:
    with closing(sqlite3.connect(state / "grus.db", isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER events_go_by_prune")


@_damage("schema")
def newer_version(state: Path) -> None:
    with opened(state) as connection:
        connection.execute("PRAGMA user_version = 99")


@_damage("file")
def epoch_gone(state: Path) -> None:
    with opened(state) as connection:
        connection.execute("DELETE FROM control")


@_damage("rows")
def text_of_a_job_unreadable(state: Path) -> None:
    with opened(state) as connection:
        connection.execute("UPDATE jobs SET body = '{' WHERE id = ?", (a_job(connection, "pending"),))


@_damage("rows")
def column_of_a_job_changed(state: Path) -> None:
    with opened(state) as connection:
        connection.execute("UPDATE jobs SET queue = 'other' WHERE id = ?", (a_job(connection, "pending"),))


@_damage("rows")
def column_of_an_event_changed(state: Path) -> None:
    with opened(state) as connection:
        connection.execute("UPDATE events SET at = at + 1 WHERE seq = 3")


# ------------------------------------------------------------------------------------------- the log


@_damage("log")
def event_missing(state: Path) -> None:
    with opened(state) as connection:
        connection.execute("DELETE FROM events WHERE seq = 3")


@_damage("log")
def numbers_would_repeat(state: Path) -> None:
    with opened(state) as connection:
        connection.execute("UPDATE sqlite_sequence SET seq = seq - 2 WHERE name = 'events'")


@_damage("log")
def event_after_the_end(state: Path) -> None:
    with opened(state) as connection:
        id_ = a_job(connection, "succeeded")
        _append(connection, id_, "running")


@_damage("log")
def first_event_of_a_job_missing(state: Path) -> None:
    with opened(state) as connection:
        id_ = a_job(connection, "pending")
        connection.execute("DELETE FROM events WHERE job = ?", (id_,))


@_damage("jobs")
def record_of_a_live_job_gone(state: Path) -> None:
    with opened(state) as connection:
        connection.execute("DELETE FROM jobs WHERE id = ?", (a_job(connection, "pending"),))


def _append(connection: sqlite3.Connection, job: str, kind: str) -> None:
    seq = connection.execute("SELECT max(seq) + 1 FROM events").fetchone()[0]
    event = {"at": 1e9, "kind": kind, "text": "", "job": job, "attempt": 1, "seq": seq}
    connection.execute("INSERT INTO events VALUES (?, 1e9, ?, ?)", (seq, job, json.dumps(event)))


# ------------------------------------------------------------------------------------------ the jobs


@_damage("phase")
def phase_set_back(state: Path) -> None:
    change(state, "succeeded", lambda job: job.update(phase="running", ended_at=None))


@_damage("phase")
def end_without_a_time(state: Path) -> None:
    change(state, "failed", lambda job: job.update(ended_at=None))


@_damage("held")
def seat_forgotten(state: Path) -> None:
    change(state, "running", lambda job: job.update(seats=job["seats"][1:]))


@_damage("held")
def ended_job_holds(state: Path) -> None:
    with opened(state) as connection:
        id_ = a_job(connection, "running")
        seats = json.loads(connection.execute("SELECT body FROM jobs WHERE id = ?", (id_,)).fetchone()[0])[
            "seats"
        ]
    change(state, "succeeded", lambda job: job.update(seats=seats))


@_damage("devices")
def gpu_held_twice(state: Path) -> None:
    def twice(job: dict[str, Any]) -> None:
        first, *rest = job["seats"]
        job["seats"] = [first, *({**seat, "devices": first["devices"]} for seat in rest)]

    change(state, "running", twice)


@_damage("attempt")
def attempt_counted_on(state: Path) -> None:
    change(state, "running", lambda job: job.update(attempt=job["attempt"] + 1))


@_damage("generation")
def generation_counted_on(state: Path) -> None:
    change(state, "running", lambda job: job.update(generation=job["generation"] + 1))


@_damage("log")
def older_record_under_a_newer_log(state: Path) -> None:
    change(state, "running", lambda job: job.update(version=1))


# ----------------------------------------------------------------------------- what refers to something


@_damage("keys")
def key_of_another_user(state: Path) -> None:
    with opened(state) as connection:
        connection.execute("UPDATE keys SET user = 'stranger'")


@_damage("keys")
def key_without_a_job(state: Path) -> None:
    with opened(state) as connection:
        connection.execute("INSERT INTO keys VALUES ('admin', 'lost', 'jnobody')")


@_damage("reports")
def reports_without_a_job(state: Path) -> None:
    with opened(state) as connection:
        body = {"job": "jnobody", "number": 1, "attempt": 1, "at": 1.0, "figures": []}
        connection.execute("INSERT INTO reports VALUES ('jnobody', 1, ?)", (json.dumps(body),))


@_damage("predictions")
def prediction_without_a_job(state: Path) -> None:
    with opened(state) as connection:
        body = {"job": "jnobody", "at": 1.0}
        connection.execute("INSERT INTO predictions VALUES ('jnobody', 1.0, ?)", (json.dumps(body),))


@_damage("tokens")
def token_of_nobody(state: Path) -> None:
    with opened(state) as connection:
        body = {"digest": "d", "user": "nobody", "label": "", "created_at": 1.0}
        connection.execute("INSERT INTO tokens VALUES ('d', 'nobody', ?)", (json.dumps(body),))


@_damage("results")
def result_says_otherwise(state: Path) -> None:
    with opened(state) as connection:
        id_ = a_job(connection, "succeeded")
        body = json.loads(connection.execute("SELECT body FROM results WHERE job = ?", (id_,)).fetchone()[0])
        body["phase"] = "failed"
        connection.execute(
            "UPDATE results SET body = ?, phase = 'failed' WHERE job = ?", (json.dumps(body), id_)
        )


@_damage("queues")
def quotas_beyond_their_parent(state: Path) -> None:
    with opened(state) as connection:
        for name, parent, quota in (("above", None, 1), ("below", "above", 2)):
            body = {"name": name, "parent": parent, "quota": {"by_type": [["any", quota * 1_000_000]]}}
            connection.execute("INSERT INTO queues VALUES (?, ?)", (name, json.dumps(body)))


@_damage("queues")
def queue_of_a_live_job_gone(state: Path) -> None:
    with opened(state) as connection:
        connection.execute("DELETE FROM queues")


# -------------------------------------------------------------------------------- files beside the record


@_damage("logs")
def logs_of_an_unknown_job(state: Path) -> None:
    (state / "engine" / "logs" / "jnobody" / "jnobody.1.worker.0.1").mkdir(parents=True)


@_damage("workers")
def worker_of_an_unknown_job(state: Path) -> None:
    (state / "engine" / "workers" / "jnobody.1.worker.0.1").mkdir(parents=True)


@_damage("artefacts")
def artefact_missing(state: Path) -> None:
    for manifests in (state / "artefacts").glob("*/manifests"):
        shutil.rmtree(manifests)


@_damage("artefacts")
def artefact_changed(state: Path) -> None:
    for chunk in (state / "artefacts").glob("*/chunks/??/*"):
        content = chunk.read_bytes()
        chunk.chmod(0o600)
        chunk.write_bytes(bytes([content[0] ^ 1]) + content[1:])
