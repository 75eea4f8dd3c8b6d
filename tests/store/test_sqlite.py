"""The SQLite store keeps every promise of the contract, on a file that only its owner can read."""

import sqlite3
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from grus.model.audit import AuditRecord
from grus.model.errors import Fenced, StaleVersion, StoreFailed
from grus.model.identifiers import JobId
from grus.model.interfaces import REPORTS, USERS, PruneLimits, Store, User
from grus.model.jobs import Job, Phase
from grus.store import sqlite
from grus.store.sqlite import SqliteStore
from tests.contracts.store_audit_contract import DrainContract
from tests.contracts.store_contract import StoreContract
from tests.contracts.store_together_contract import TogetherContract, some
from tests.store.builders import ADA, a_job, a_report, an_event, done, stored


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "grus.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    store.close()


class TestSqliteStore(StoreContract, DrainContract, TogetherContract):
    @pytest.fixture
    def store(self, path: Path) -> Iterator[Store]:
        store = SqliteStore(path)
        yield store
        store.close()


def test_everything_is_there_after_reopening(path: Path) -> None:
    first = SqliteStore(path)
    [job] = stored(first, a_job())
    epoch = first.take_over()
    first.close()
    second = SqliteStore(path)
    assert second.jobs() == [job]
    assert [event.seq for event in second.events()] == [1]
    assert second.take_over() > epoch
    second.close()


def test_a_closed_store_leaves_one_file(path: Path, store: SqliteStore) -> None:
    stored(store, a_job())
    store.jobs()
    store.close()
    assert [file.name for file in path.parent.iterdir()] == ["grus.db"]


def test_the_old_epoch_is_fenced_by_another_store_on_the_same_file(path: Path) -> None:
    """The fence is in the write: the old store need not know that it was replaced."""
    old, new = SqliteStore(path), SqliteStore(path)
    [job] = stored(old, a_job())
    before = old.take_over()
    job = done(old.replace(replace(job, reason="old"), None, epoch=before))
    after = new.take_over()
    with pytest.raises(Fenced):
        done(old.replace(replace(job, reason="late"), None, epoch=before))
    assert done(new.replace(replace(job, reason="new"), None, epoch=after)).reason == "new"
    with pytest.raises(StaleVersion):
        done(old.replace(replace(job, reason="late"), None))
    old.close()
    new.close()


def test_the_file_is_private_and_so_are_its_log_and_folder(path: Path, store: SqliteStore) -> None:
    stored(store, a_job())
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == dict.fromkeys(("grus.db", "grus.db-wal", "grus.db-shm"), 0o600)


def test_a_file_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "grus.db"
    path.touch(mode=0o644)
    SqliteStore(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_writer_commits_with_full_synchronisation(store: SqliteStore) -> None:
    def pragmas(connection: sqlite3.Connection) -> dict[str, object]:
        names = ("journal_mode", "synchronous", "foreign_keys")
        return {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names}

    assert done(store._writer.do(pragmas)) == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_readers_cannot_write(store: SqliteStore) -> None:
    with pytest.raises(StoreFailed, match="readonly"):
        store._readers.row("DELETE FROM events")


@pytest.mark.parametrize("change", ["UPDATE events SET at = 0", "DELETE FROM events"])
def test_the_event_log_is_append_only(path: Path, store: SqliteStore, change: str) -> None:
    stored(store, a_job())
    with sqlite3.connect(path) as other, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        other.execute(change)
    other.close()
    assert len(store.events()) == 1


def test_many_waiting_writes_share_few_commits(store: SqliteStore) -> None:
    commits: list[int] = []
    store.subscribe(lambda written: commits.append(len(written)))
    release = threading.Event()
    store._writer.do(lambda _: release.wait(30))
    futures = [store.create(a_job(), an_event()) for _ in range(500)]
    assert not any(future.done() for future in futures)
    release.set()
    for future in futures:
        done(future)
    assert sum(commits) == 500
    assert len(commits) <= 2


def test_reading_goes_on_while_a_write_is_under_way(store: SqliteStore) -> None:
    """Readers see the last commit; an open transaction neither blocks them nor shows through."""
    [job] = stored(store, a_job())
    began, release = threading.Event(), threading.Event()

    def slow(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM jobs")
        began.set()
        release.wait(30)

    future = store._writer.do(slow)
    assert began.wait(300)
    assert store.jobs() == [job]
    assert store.count() == {Phase.PENDING: 1}
    release.set()
    done(future)
    assert store.jobs() == []


def test_many_threads_read_what_one_writes(store: SqliteStore) -> None:
    """A listing never shows half a commit: every job read has the events that came with it."""
    [job] = stored(store, a_job())
    over = threading.Event()
    broken: list[object] = []

    def read() -> None:
        while not over.is_set():
            seen = store.job(job.id)
            if len(store.events(job=job.id)) < seen.version:
                broken.append(seen)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for version in range(1, 100):
        done(store.replace(replace(job, version=version), an_event(job, "tick")))
    over.set()
    for thread in threads:
        thread.join(timeout=300)
    assert broken == []


def test_a_write_taken_back_before_it_began_is_not_done(store: SqliteStore) -> None:
    """A client that went away cancels its future; the neighbours are confirmed as always."""
    began, release = threading.Event(), threading.Event()

    def slow(_: sqlite3.Connection) -> None:
        began.set()
        release.wait(30)

    store._writer.do(slow)
    assert began.wait(300)
    futures: list[Future[Job]] = [store.create(a_job(f"j{n}"), an_event()) for n in range(3)]
    assert futures[1].cancel()
    release.set()
    assert [done(futures[0]).id, done(futures[2]).id] == ["j0", "j2"]
    assert {job.id for job in store.jobs()} == {"j0", "j2"}


def test_work_that_breaks_halfway_fails_alone(store: SqliteStore) -> None:
    """Even a fault that nobody foresaw takes back only what it did itself."""
    release = threading.Event()
    store._writer.do(lambda _: release.wait(30))

    def broken(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE control SET epoch = 1000")
        raise ZeroDivisionError

    before = store.create(a_job("j1"), an_event())
    fault = store._writer.do(broken)
    after = store.create(a_job("j2"), an_event())
    release.set()
    with pytest.raises(ZeroDivisionError):
        done(fault)
    assert (done(before).id, done(after).id) == ("j1", "j2")
    assert store.take_over() == 1


def test_a_key_that_is_not_unicode_fails_alone(store: SqliteStore) -> None:
    release = threading.Event()
    store._writer.do(lambda _: release.wait(30))
    good = store.create(a_job("j1"), an_event())
    bad = store.create(a_job("j2"), an_event(), key="\ud800")
    release.set()
    assert done(good).id == "j1"
    assert bad.exception(timeout=300) is not None
    assert [job.id for job in store.jobs()] == ["j1"]


def test_of_jobs_created_together_a_fault_of_one_takes_all_back_and_no_neighbour(store: SqliteStore) -> None:
    release = threading.Event()
    store._writer.do(lambda _: release.wait(30))
    first, second = some("j1", "j2")
    bad = store.create_all([first, replace(second, key="\ud800")])
    good = store.create_all(some("j3", "j4", key="good"))
    release.set()
    assert bad.exception(timeout=300) is not None
    assert [job.id for job in done(good)] == ["j3", "j4"]
    assert {job.id for job in store.jobs()} == {"j3", "j4"}


def test_a_closed_store_says_so(path: Path) -> None:
    store = SqliteStore(path)
    store.close()
    with pytest.raises(StoreFailed, match="closed"):
        done(store.create(a_job(), an_event()))
    with pytest.raises(StoreFailed, match="closed"):
        store.job(JobId("j1"))


def test_a_file_of_something_else_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database\n" * 100)
    with pytest.raises(StoreFailed, match=r"notes\.txt"):
        SqliteStore(path)
    assert path.read_text().startswith("not a database")


def test_long_listings_are_read_in_several_goes(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "PAGE", 7)
    jobs = stored(store, *(a_job(f"j{n:02}", submitted_at=n // 3) for n in range(50)))
    assert store.jobs() == jobs[::-1]
    assert store.jobs(limit=15) == jobs[::-1][:15]


def test_a_prune_of_many_rows_lets_other_writes_go_between_its_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "PRUNED_AT_ONCE", 10)
    store = SqliteStore(tmp_path / "grus.db")
    try:
        jobs = stored(store, *(a_job(f"j{number}") for number in range(25)))
        over = [replace(job, phase=Phase.STOPPED, ended_at=5.0) for job in jobs]
        for future in [store.replace(job, an_event(job, "stopped", 5.0)) for job in over]:
            done(future)
        done(store.put(REPORTS, *(a_report("j1", number) for number in range(1, 31))))
        order: list[str] = []
        pruned = store.prune(PruneLimits(events_before=2000.0, jobs_before=2000.0))
        pruned.add_done_callback(lambda _: order.append("pruned"))
        other = store.create(a_job("jother"), an_event(at=3000.0))
        other.add_done_callback(lambda _: order.append("written"))
        assert done(pruned) == 75
        assert done(other).version == 1
        assert order == ["written", "pruned"]
        assert [job.id for job in store.jobs()] == ["jother"]
        assert len(store.events()) == 1
    finally:
        store.close()


@pytest.mark.parametrize("statement", ["UPDATE audit SET actor = 'x'", "DELETE FROM audit"])
def test_the_audit_log_is_append_only(path: Path, statement: str) -> None:
    store = SqliteStore(path)
    record = AuditRecord(at=1.0, actor=ADA, action="user.set", target="ada")
    done(store.put(USERS, User(name=ADA), record=record))
    store.close()
    with (
        closing(sqlite3.connect(path)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        connection.execute(statement)
