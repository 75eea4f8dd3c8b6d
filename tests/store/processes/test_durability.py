"""What was confirmed is there after kill -9; a failing disk is told to those who waited, and nobody else."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from grus.store.sqlite import SqliteStore
from tests.store.builders import a_job, an_event, done

ROOT = Path(__file__).parents[3]


def run(script: Path, *arguments: object) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(script), *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)


def confirmed_before_death(path: Path, first: int, confirmations: int, *together: int) -> set[str]:
    """Ids that a process got confirmed before (or just as) it was killed in full flight."""
    process = run(Path(__file__).parents[1] / "submitter.py", path, first, 8, *together)
    assert process.stdout is not None
    with process:
        lines = [process.stdout.readline() for _ in range(confirmations)]
        os.kill(process.pid, signal.SIGKILL)
        lines += process.stdout.read().splitlines(keepends=True)
    assert process.returncode == -signal.SIGKILL
    return {line.decode().strip() for line in lines if line.endswith(b"\n")}


def test_every_confirmed_create_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "state" / "grus.db"
    confirmed: set[str] = set()
    for life in range(5):
        confirmed |= confirmed_before_death(path, first=life * 100_000, confirmations=20 + 30 * life)
        store = SqliteStore(path)
        found = store.jobs()
        events = [event.seq for event in store.events(limit=1_000_000)]
        store.close()
        assert confirmed <= {job.id for job in found}
        assert len(found) == len(events) == events[-1]
        assert {job.version for job in found} == {1}
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def test_of_jobs_created_together_all_are_there_after_kill_9_or_none(tmp_path: Path) -> None:
    path = tmp_path / "state" / "grus.db"
    confirmed: set[str] = set()
    for life in range(3):
        confirmed |= confirmed_before_death(path, life * 100_000, 10 + 10 * life, 5)
        store = SqliteStore(path)
        found = Counter(job.id.partition("-")[0] for job in store.jobs())
        store.close()
        assert {id_.partition("-")[0] for id_ in confirmed} <= found.keys()
        assert set(found.values()) == {5}


def test_a_confirmed_create_repeated_with_its_key_after_kill_9_makes_no_second_job(tmp_path: Path) -> None:
    path = tmp_path / "state" / "grus.db"
    confirmed = confirmed_before_death(path, first=0, confirmations=30)
    store = SqliteStore(path)
    before = len(store.jobs())
    for id in confirmed:
        assert done(store.create(a_job(f"again-{id}"), an_event(), key=f"k{id[1:]}")).id == id
    assert len(store.jobs()) == before
    store.close()


FULL_DISK = """
import resource, sys
from grus.model.errors import StoreFailed
from grus.store.sqlite import SqliteStore
from tests.store.builders import a_job, an_event

store = SqliteStore(sys.argv[1])
store.create(a_job("before"), an_event()).result()
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
futures = [store.create(a_job(f"full{n}"), an_event()) for n in range(20)]
for future in futures:
    error = future.exception()
    assert isinstance(error, StoreFailed) and sys.argv[1] in str(error), error
assert [job.id for job in store.jobs()] == ["before"]
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
store.create(a_job("after"), an_event()).result()
assert [job.id for job in store.jobs()] == ["before", "after"]
assert [event.seq for event in store.events()] == [1, 2]
store.close()
print("went on")
"""


def test_a_disk_that_takes_no_more_fails_the_waiting_writes_and_no_later_ones(tmp_path: Path) -> None:
    """In a process of its own, because the limit on the size of files holds for all of a process."""
    script = tmp_path / "full.py"
    script.write_text(FULL_DISK)
    with run(script, tmp_path / "grus.db") as process:
        output, _ = process.communicate(timeout=300)
    assert (process.returncode, output) == (0, b"went on\n")


@pytest.mark.parametrize("pages", [1, 5])
def test_a_full_database_is_told_and_recovers_when_there_is_room(tmp_path: Path, pages: int) -> None:
    store = SqliteStore(tmp_path / "grus.db")

    def limit(connection: sqlite3.Connection, most: int) -> int:
        used = int(connection.execute("PRAGMA page_count").fetchone()[0])
        return int(connection.execute(f"PRAGMA max_page_count = {used + most}").fetchone()[0])

    done(store._writer.do(lambda connection: limit(connection, pages)))
    futures = [store.create(a_job(f"j{n:03}"), an_event()) for n in range(500)]
    kept = {f"j{n:03}" for n, future in enumerate(futures) if future.exception(timeout=300) is None}
    assert len(kept) < 500
    assert {job.id for job in store.jobs()} == kept
    done(store._writer.do(lambda connection: limit(connection, 1_000_000)))
    assert done(store.create(a_job("jlast"), an_event())).version == 1
    store.close()
