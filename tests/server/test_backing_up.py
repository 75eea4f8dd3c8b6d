"""Back-ups: on disk before they have their name, in whatever empty place; nothing of a killed one stays."""

import os
from pathlib import Path

import pytest

from grus.artefacts.vault import CHUNKS, MANIFESTS, Vault
from grus.model.errors import BadInput, StoreFailed
from grus.sdk.places import Places
from grus.server.backing_up import BackUp, back_up, contents, copy_vaults
from grus.store.sqlite import SqliteStore
from tests.artefacts.builders import a_vault

NOW = 1000.0


@pytest.fixture
def at(tmp_path: Path) -> Places:
    return a_state(tmp_path)


def a_state(tmp_path: Path) -> Places:
    """Make a state with settings and one artifact store."""
    places = Places(config=tmp_path / "config", state=tmp_path / "state")
    places.config.mkdir()
    places.config_file.write_text("[server]\n")
    SqliteStore(places.state / "grus.db").close()
    vault = places.state / "artefacts" / "v1"
    vault.parent.mkdir()
    fill(vault)
    return places


def fill(vault: Path) -> None:
    """Two chunks and, as far as a copy cares, a manifest."""
    kept = a_vault(vault)
    kept.put_chunk(b"one")
    digest = kept.put_chunk(b"two")
    place = vault / MANIFESTS / digest[:2] / digest[2:]
    place.parent.mkdir()
    place.write_bytes(b"two")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def parts(folder: Path) -> list[Path]:
    return sorted(path for kind in (CHUNKS, MANIFESTS) for path in folder.glob(f"artefacts/*/{kind}/??/*"))


def test_a_back_up_says_what_is_in_it(at: Places, tmp_path: Path) -> None:
    made = back_up(at, tmp_path / "b", NOW, artefacts=True)
    assert contents(tmp_path / "b") == made
    assert (made.artefacts, made.damaged, len(parts(tmp_path / "b"))) == (True, 0, 3)
    assert contents(tmp_path / "b" / "grus.db") is None


def test_all_of_it_is_on_disk_before_it_has_its_name(
    at: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    before: list[Path] = []
    sync, rename = os.fsync, Path.rename

    def fsync(file: int) -> None:
        synced.add(os.fstat(file).st_ino)
        sync(file)

    def renamed(self: Path, target: Path) -> Path:
        if target == tmp_path / "b":
            before.extend(path for path in (self, *self.rglob("*")) if path.stat().st_ino not in synced)
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", renamed)
    back_up(at, tmp_path / "b", NOW, artefacts=True)
    assert before == []
    assert tmp_path.stat().st_ino in synced


def test_what_is_damaged_is_left_out_and_counted(at: Places, tmp_path: Path) -> None:
    one = parts(at.state)[0]
    one.chmod(0o600)
    one.write_bytes(b"0ne")
    made = back_up(at, tmp_path / "b", NOW, artefacts=True)
    assert (made.damaged, len(parts(tmp_path / "b"))) == (1, 2)


def test_what_is_thrown_out_while_it_is_copied_is_in_it_or_not_and_the_rest_is(
    at: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = parts(at.state)[0]
    sound = Vault.sound

    def swept(self: Vault, kind: str, digest: str) -> bytes | None:
        found = sound(self, kind, digest)
        if self.root.is_relative_to(at.state):
            one.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(Vault, "sound", swept)
    made = back_up(at, tmp_path / "b", NOW, artefacts=True)
    assert (made.damaged, len(parts(tmp_path / "b"))) == (0, 3)


def test_what_is_there_stays_if_it_is_sound_and_is_replaced_if_not(at: Places, tmp_path: Path) -> None:
    back_up(at, tmp_path / "b", NOW, artefacts=True)
    sound, damaged = parts(at.state)[:2]
    whole = damaged.read_bytes()
    damaged.chmod(0o600)
    damaged.write_bytes(b"?" * len(whole))
    inode = sound.stat().st_ino
    assert copy_vaults(tmp_path / "b" / "artefacts", at.state / "artefacts") == 0
    assert damaged.read_bytes() == whole
    assert sound.stat().st_ino == inode


# ------------------------------------------------------------------------------------------------- places


def test_an_empty_folder_is_filled_and_stays_the_one_it_was(
    at: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a mount point, which cannot be replaced, or the folder that one is in."""
    here = tmp_path / "here"
    here.mkdir(mode=0o755)
    monkeypatch.chdir(here)
    inode = here.stat().st_ino
    back_up(at, Path().absolute(), NOW, artefacts=True)
    assert here.stat().st_ino == inode
    assert names(Path()) == ["artefacts", "backup.json", "config.toml", "grus.db"]
    assert isinstance(contents(here), BackUp)
    assert all(path.stat().st_mode & 0o077 == 0 for path in here.iterdir())


def test_a_place_that_cannot_be_written_is_said_so(at: Places, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreFailed, match="could not write"):
        back_up(at, tmp_path / "file" / "b", NOW)
    with pytest.raises(BadInput, match="must not exist"):
        back_up(at, tmp_path / "file", NOW)
