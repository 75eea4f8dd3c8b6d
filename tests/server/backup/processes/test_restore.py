"""A back-up becomes the state: nothing ends before all that needs room is done, and the next server acts."""

import os
import shutil
from pathlib import Path

import pytest

from grus.model.errors import Conflict, StoreFailed
from grus.sdk.state_paths import GrusPaths, places
from grus.server.backup.create import back_up
from grus.server.backup.restore import restore
from grus.store import sqlite_backup
from grus.store.sqlite import SqliteStore
from tests.server.process import ServerProcess
from tests.store.builders import a_job, an_event


def a_state(home: Path, *jobs: str) -> GrusPaths:
    """A record with these jobs, and an engine that has come to epoch 31."""
    at = places({"GRUS_HOME": str(home)})
    store = SqliteStore(at.state / "grus.db")
    store.take_over()
    for name in jobs:
        job = a_job(name)
        store.create(job, an_event(job)).result()
    store.close()
    (at.state / "engine" / "epochs" / "31").mkdir(parents=True)
    return at


@pytest.fixture
def backed_up(tmp_path: Path) -> Path:
    back_up(a_state(tmp_path / "earlier", "first"), tmp_path / "back-up", 1000.0)
    return tmp_path / "back-up"


def test_a_full_disk_fences_nobody_and_ends_nothing(
    backed_up: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = a_state(tmp_path / "home", "first", "second")

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(sqlite_backup, "_sync", full)
    with pytest.raises(StoreFailed, match=f"room in {at.state}"):
        restore(at, backed_up, 1000.0, force=True)
    assert os.listdir(at.state / "engine" / "epochs") == ["31"]
    assert sqlite_backup.look(at.state / "grus.db").jobs == 2


def test_live_jobs_of_the_backup_are_named(backed_up: Path, tmp_path: Path) -> None:
    (named,) = restore(a_state(tmp_path / "home", "second"), backed_up, 1000.0, force=True).live
    assert named == "first (resnet, ada)"


def test_the_next_server_acts_above_the_epoch_of_a_restore_that_broke_off(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "home")
    a_state(tmp_path / "home")
    assert sqlite_backup.epoch_of(server.places.state / "grus.db") == 1
    server.start()
    try:
        assert sqlite_backup.epoch_of(server.places.state / "grus.db") == 32
    finally:
        server.end()


def test_a_restore_that_is_repeated_goes_above_the_epoch_of_the_first(
    backed_up: Path, tmp_path: Path
) -> None:
    at = a_state(tmp_path / "home", "first", "second")
    epochs = [restore(at, backed_up, 1000.0, force=True).epoch for _ in range(2)]
    assert epochs == [32, 33]
    assert len(list(at.state.glob("grus.db.before-*"))) == 2


def test_a_lone_copy_of_a_file_in_use_is_taken_only_by_who_knows_what_it_lacks(tmp_path: Path) -> None:
    at, other = a_state(tmp_path / "used"), places({"GRUS_HOME": str(tmp_path / "home")})
    store = SqliteStore(at.state / "grus.db")
    job = a_job("in-the-log")
    store.create(job, an_event(job)).result()
    lone = tmp_path / "lone.db"
    shutil.copy(store.path, lone)
    with pytest.raises(Conflict, match=r"lone\.db-wal is not beside it.*--without-log"):
        restore(other, lone, 1000.0)
    assert restore(other, lone, 1000.0, without_log=True).jobs == 0
    shutil.copy(f"{store.path}-wal", f"{lone}-wal")
    store.close()
    assert restore(other, lone, 1000.0, force=True).jobs == 1
