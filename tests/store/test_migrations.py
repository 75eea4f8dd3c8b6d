"""A file of any earlier version comes up to the latest one whole, or stays as it was."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from grus.model.errors import Fenced, StoreFailed
from grus.model.identifiers import JobId
from grus.model.interfaces import AUDIT, PREDICTIONS, PROFILES, QUEUES, REPORTS, RESULTS, TOKENS, USERS
from grus.model.jobs import Phase
from grus.model.resources import GPU
from grus.store import codec, write_batch
from grus.store.migrations import STEPS, Step, migrate
from grus.store.sqlite import SqliteStore
from tests.store import released
from tests.store.builders import a_job, a_result, an_event, cordoned, done, drains, stored

LATER: Sequence[Step] = (
    *STEPS,
    ("ALTER TABLE queues ADD COLUMN colour TEXT", "UPDATE queues SET colour = 'red'"),
    ("CREATE TABLE colours (name TEXT)",),
)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "grus.db", isolation_level=None)) as connection:
        yield connection


def shape(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    return connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


def version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


@pytest.mark.parametrize("known", range(len(LATER)))
def test_from_every_version_the_same_shape_is_reached(tmp_path: Path, known: int) -> None:
    with (
        closing(sqlite3.connect(tmp_path / "old.db", isolation_level=None)) as old,
        closing(sqlite3.connect(tmp_path / "new.db", isolation_level=None)) as new,
    ):
        migrate(old, LATER[:known])
        migrate(old, LATER)
        migrate(new, LATER)
        assert shape(old) == shape(new)
        assert version(old) == len(LATER)


def test_what_an_older_file_holds_is_kept(connection: sqlite3.Connection) -> None:
    migrate(connection, LATER[:1])
    connection.execute("INSERT INTO queues VALUES ('vision', '{}')")
    migrate(connection, LATER)
    assert connection.execute("SELECT * FROM queues").fetchall() == [("vision", "{}", "red")]


def test_a_file_from_before_results_were_kept_opens_with_its_jobs_which_have_none_yet(tmp_path: Path) -> None:
    path = tmp_path / "grus.db"
    ended = replace(a_job("j1", phase=Phase.SUCCEEDED), version=1, ended_at=2.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, STEPS[:4])
        write_batch.insert_jobs(connection, [(ended, codec.JOB.encode(ended))])
        assert version(connection) == 4
    store = SqliteStore(path)
    try:
        assert store.find(RESULTS) == []
        assert store.without_result(10) == [ended]
        done(store.put(RESULTS, a_result("j1")))
        assert store.without_result(10) == []
    finally:
        store.close()


def test_migrating_twice_changes_nothing(connection: sqlite3.Connection) -> None:
    migrate(connection)
    before = shape(connection)
    migrate(connection)
    assert shape(connection) == before


def test_a_step_that_fails_leaves_the_file_as_it_was(connection: sqlite3.Connection) -> None:
    migrate(connection)
    before = shape(connection)
    broken = (*STEPS, ("CREATE TABLE half (name TEXT)",), ("SELECT * FROM nothing",))
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, broken)
    assert shape(connection) == before
    assert version(connection) == len(STEPS)


def test_a_file_of_a_newer_grus_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "grus.db"
    store = SqliteStore(path)
    stored(store, a_job())
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {len(STEPS) + 1}")
        connection.execute("PRAGMA journal_mode = DELETE")
    before = path.read_bytes()
    with pytest.raises(StoreFailed, match="newer Grus"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "grus.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    before = path.read_bytes()
    with pytest.raises(StoreFailed, match="another program"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_there_is_a_file_of_the_latest_shape_among_the_released_ones() -> None:
    """Whoever adds a step adds a file of it, written by the code that made it."""
    assert released.VERSIONS[-1] == len(STEPS)


@pytest.mark.parametrize("before", released.VERSIONS)
def test_a_file_of_each_release_opens_with_all_that_it_holds(tmp_path: Path, before: int) -> None:
    path = tmp_path / "grus.db"
    released.make(before, path)
    with closing(sqlite3.connect(path)) as connection:
        assert version(connection) == before
    store = SqliteStore(path)
    try:
        assert {job.id: job.phase for job in store.jobs()} == released.FATES
        assert [event.seq for event in store.events()] == list(range(1, released.EVENTS + 1))
        assert store.job(JobId("j0000000002")).held == 2 * GPU
        assert [user.name for user in store.find(USERS)] == ["ada", "bob"]
        assert [token.user for token in store.find(TOKENS)] == ["ada"]
        assert [(queue.name, queue.reserved) for queue in store.find(QUEUES)] == [("vision", GPU)]
        assert cordoned(store) == {"node-1"}
        assert [one.job for one in store.find(PREDICTIONS, limit=9)] == (
            ["j0000000001"] if before >= 2 else []
        )
        assert [one.fingerprint for one in store.find(PROFILES)] == (["f1"] if before >= 3 else [])
        assert list(store.tags()) == (["job/j0000000002"] if before >= 3 else [])
        assert len(store.find(REPORTS, job=JobId("j0000000002"))) == (3 if before >= 5 else 0)
        assert [one.job for one in store.find(RESULTS)] == (["j0000000003"] if before >= 5 else [])
        assert [one.action for one in store.find(AUDIT)] == (["node.drain"] if before >= 7 else [])
        assert [one.message for one in drains(store).values()] == (["new disks"] if before >= 7 else [])
        assert [user.max_gpus for user in store.find(USERS)] == [None, None]
    finally:
        store.close()
    with closing(sqlite3.connect(path)) as connection:
        assert version(connection) == len(STEPS)


@pytest.mark.parametrize("before", released.VERSIONS)
def test_a_file_of_each_release_can_be_written_to_under_the_rules_of_today(
    tmp_path: Path, before: int
) -> None:
    path = tmp_path / "grus.db"
    released.make(before, path)
    store = SqliteStore(path)
    try:
        assert store.take_over() == released.EPOCH + 1
        first = store.job(JobId("j0000000001"))
        again = replace(first, id=JobId("j0000000009"), version=0)
        assert done(store.create(again, an_event(again), "nightly")) == first
        running = store.job(JobId("j0000000002"))
        with pytest.raises(Fenced):
            done(store.replace(running, None, released.EPOCH))
        paused = replace(running, phase=Phase.PAUSING)
        written = done(store.replace(paused, an_event(paused, "pausing"), released.EPOCH + 1))
        assert written.version == running.version + 1
        assert store.events()[-1].seq == released.EVENTS + 1
    finally:
        store.close()
