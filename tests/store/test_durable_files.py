"""What must survive a loss of power is synced, and in the right order: content, name, folder."""

import os
import stat
from pathlib import Path

import pytest

from grus.store import durable_files


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What was synced and renamed, by name, in order."""
    seen: list[tuple[str, str]] = []
    sync, replace = os.fsync, os.replace

    def fsync(file: int) -> None:
        seen.append(("sync", Path(os.readlink(f"/proc/self/fd/{file}")).name))
        sync(file)

    def renamed(old: Path, new: Path) -> None:
        seen.append(("name", new.name))
        replace(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", renamed)
    return seen


def test_a_secret_is_on_the_disk_before_it_has_its_name_and_its_name_before_the_call_returns(
    tmp_path: Path, done: list[tuple[str, str]]
) -> None:
    folder = tmp_path / "state"
    durable_files.write_secret(folder / "key", b"secret")
    assert done == [("sync", tmp_path.name), ("sync", ".key.new"), ("name", "key"), ("sync", "state")]
    assert (folder / "key").read_bytes() == b"secret"
    assert stat.S_IMODE((folder / "key").stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["key"]


def test_what_a_dead_process_left_of_a_secret_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / ".key.new").write_bytes(b"ha")
    (tmp_path / "key").write_bytes(b"old")
    durable_files.write_secret(tmp_path / "key", b"new")
    assert (tmp_path / "key").read_bytes() == b"new"


def test_each_new_folder_on_the_way_lasts_in_the_one_above_it(
    tmp_path: Path, done: list[tuple[str, str]]
) -> None:
    durable_files.make_folder(tmp_path / "a" / "b")
    assert done == [("sync", tmp_path.name), ("sync", "a")]
    durable_files.make_folder(tmp_path / "a" / "b")
    assert len(done) == 2


@pytest.mark.parametrize(("uid", "mode"), [(0, 0o711), (1000, 0o700)])
def test_the_folders_of_roots_state_can_be_passed_under_any_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, mode: int
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    before = os.umask(0o077)
    try:
        durable_files.make_state_folder(tmp_path / "home" / "state")
    finally:
        os.umask(before)
    for folder in (tmp_path / "home", tmp_path / "home" / "state"):
        assert stat.S_IMODE(folder.stat().st_mode) == mode


def test_the_outermost_closed_folder_is_named(tmp_path: Path) -> None:
    inner = tmp_path / "closed" / "inner"
    inner.mkdir(parents=True)
    for folder in (inner, tmp_path / "closed"):
        folder.chmod(0o700)
    found = durable_files.closed_folder(inner / "missing")
    assert found is not None
    assert inner.is_relative_to(found)
    assert not found.stat().st_mode & stat.S_IXOTH
    assert durable_files.closed_folder(Path("/")) is None
