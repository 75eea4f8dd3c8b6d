"""A long past, made at once: ended jobs with their events and results, in a file of the real shape.

The texts are those that the store itself writes, of one job that is then multiplied: only ids, times and
numbers differ.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from grus.controlplane.history.finished_runs import result_of
from grus.controlplane.jobs.lifecycle import change
from grus.model.identifiers import DeviceId, JobId, NodeId, QueueName, UserName
from grus.model.interfaces import RESULTS, Event
from grus.model.jobs import Exit, ExitCause, Job, Phase, Seat, Spec
from grus.model.resources import GPU, Range, Replica, Request, Role
from grus.store import codec
from grus.store.migrations import migrate

ID = "j7777777777"
AT, NUMBER = 7777777777.5, 7777777777
"""Stand for the id, the time and the number of each, in the texts."""
LIFE = ("starting", "running", "idle", "busy", "idle", "busy", "idle", "busy", "succeeded")
"""What happens to a job after its submission."""
EVENTS = 1 + len(LIFE)


def make(path: Path, jobs: int, oldest: float, newest: float) -> int:
    """Write a past of so many jobs, spread evenly between the two times; how many events that makes."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    job, events = _life()
    texts = [codec.EVENT.encode(event) for event in events]
    body, result = codec.JOB.encode(job), result_of(job, events=events)
    kept = codec.of(RESULTS).encode(result)

    def at(number: int) -> float:
        return oldest + (newest - oldest) * number / jobs

    def rows(of: Callable[[int], tuple[object, ...]]) -> Iterator[tuple[object, ...]]:
        return (of(number) for number in range(jobs))

    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")
        migrate(connection)
        connection.execute("BEGIN")
        columns = ("succeeded", job.spec.queue, job.user)
        connection.executemany(
            "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            rows(lambda n: (_id(n), job.version, *columns, at(n), at(n), _text(body, n, at(n)))),
        )
        connection.executemany(
            "INSERT INTO events VALUES (?, ?, ?, ?)",
            (
                (seq, at(n), _id(n), _text(text, n, at(n), seq))
                for n in range(jobs)
                for seq, text in enumerate(texts, n * EVENTS + 1)
            ),
        )
        connection.executemany(
            "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            rows(
                lambda n: (
                    *(_id(n), job.user, job.spec.queue, job.spec.name, "succeeded", ""),
                    *(at(n), _text(kept, n, at(n))),
                )
            ),
        )
        connection.execute("COMMIT")
    return jobs * EVENTS


def _life() -> tuple[Job, list[Event]]:
    request = Request(roles=(Role("worker", Range(1, 1), Replica(gpus=1)),))
    spec = Spec(name="past", queue=QueueName("default"), run=("/bin/true",), request=request, workdir="/")
    job = Job(id=JobId(ID), spec=spec, user=UserName("admin"), submitted_at=AT, version=EVENTS)
    events = [Event(at=AT, kind="submitted", text="admin submitted past", job=job.id, seq=NUMBER)]
    seat = Seat("worker", 0, NodeId("node-0"), (DeviceId("node-0/gpu-0"),), GPU)
    for kind in LIFE:
        if kind == "starting":
            job = replace(job, phase=Phase.STARTING, attempt=1, generation=1, seats=(seat,), started_at=AT)
            job = replace(job, first_started_at=AT)
        elif kind == "running":
            job = replace(job, phase=Phase.RUNNING)
        elif kind == "succeeded":
            done = Exit(ExitCause.DONE, 0, "all workers have finished")
            job = replace(job, phase=Phase.SUCCEEDED, seats=(), exit=done, ended_at=AT)
        changed = change(job, kind, AT, f"it is {kind}")
        assert changed.event is not None
        job = changed.job
        events.append(replace(changed.event, seq=NUMBER))
    return job, events


def _id(number: int) -> str:
    return f"j{number:010}"


def _text(template: str, number: int, at: float, seq: int = 0) -> str:
    """The text of one of many: its own id, time and number in the place of those that stand for them."""
    own = template.replace(ID, _id(number)).replace(str(AT), repr(at))
    return own.replace(str(NUMBER), str(seq)) if seq else own
