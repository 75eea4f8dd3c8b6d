"""Back-ups: on disk before they have their name, in whatever empty place; nothing of a killed one stays."""

import os
from pathlib import Path

import pytest

from grus.artifacts.artifact_store import CHUNKS, MANIFESTS, ArtifactStore
from grus.model.errors import BadInput, StoreFailed
from grus.sdk.state_paths import GrusPaths
from grus.server.backup.create import Backup, back_up, contents, copy_logs, copy_vaults, inline_secrets
from grus.store.sqlite import SqliteStore
from tests.artifacts.builders import a_vault

NOW = 1000.0


@pytest.fixture
def at(tmp_path: Path) -> GrusPaths:
    return a_state(tmp_path)


def a_state(tmp_path: Path) -> GrusPaths:
    """Make a state with settings and one artifact store."""
    places = GrusPaths(config=tmp_path / "config", state=tmp_path / "state")
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


def test_a_back_up_says_what_is_in_it(at: GrusPaths, tmp_path: Path) -> None:
    made = back_up(at, tmp_path / "b", NOW, artefacts=True)
    assert contents(tmp_path / "b") == made
    assert (made.artefacts, made.damaged, len(parts(tmp_path / "b"))) == (True, 0, 3)
    assert contents(tmp_path / "b" / "grus.db") is None


INLINE = """
[client]
token = "grus_geheim"
[[notifications.webhook]]
secret_file = "hook.secret"
[[notifications.webhook]]
secret = "geheim"
[notifications.email]
password = "geheim"
"""


def test_secrets_that_stand_in_the_settings_are_named(at: GrusPaths, tmp_path: Path) -> None:
    back_up(at, tmp_path / "a", NOW)
    assert inline_secrets(tmp_path / "a") == ()
    at.config_file.write_text(INLINE)
    back_up(at, tmp_path / "b", NOW)
    named = ("notifications.webhook[1].secret", "notifications.email.password", "client.token")
    assert inline_secrets(tmp_path / "b") == named
    (tmp_path / "b" / "config.toml").write_text("notifications = 1\nclient = [")
    assert inline_secrets(tmp_path / "b") == ()


def test_all_of_it_is_on_disk_before_it_has_its_name(
    at: GrusPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


def test_what_is_damaged_is_left_out_and_counted(at: GrusPaths, tmp_path: Path) -> None:
    one = parts(at.state)[0]
    one.chmod(0o600)
    one.write_bytes(b"0ne")
    made = back_up(at, tmp_path / "b", NOW, artefacts=True)
    assert (made.damaged, len(parts(tmp_path / "b"))) == (1, 2)


def test_what_is_thrown_out_while_it_is_copied_is_in_it_or_not_and_the_rest_is(
    at: GrusPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = parts(at.state)[0]
    sound = ArtifactStore.sound

    def swept(self: ArtifactStore, kind: str, digest: str) -> bytes | None:
        found = sound(self, kind, digest)
        if self.root.is_relative_to(at.state):
            one.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(ArtifactStore, "sound", swept)
    made = back_up(at, tmp_path / "b", NOW, artefacts=True)
    assert (made.damaged, len(parts(tmp_path / "b"))) == (0, 3)


def test_what_is_there_stays_if_it_is_sound_and_is_replaced_if_not(at: GrusPaths, tmp_path: Path) -> None:
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
    at: GrusPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a mount point, which cannot be replaced, or the folder that one is in."""
    here = tmp_path / "here"
    here.mkdir(mode=0o755)
    monkeypatch.chdir(here)
    inode = here.stat().st_ino
    back_up(at, Path().absolute(), NOW, artefacts=True)
    assert here.stat().st_ino == inode
    assert names(Path()) == ["artefacts", "backup.json", "config.toml", "grus.db"]
    assert isinstance(contents(here), Backup)
    assert all(path.stat().st_mode & 0o077 == 0 for path in here.iterdir())


def test_a_place_that_cannot_be_written_is_said_so(at: GrusPaths, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreFailed, match="could not write"):
        back_up(at, tmp_path / "file" / "b", NOW)
    with pytest.raises(BadInput, match="must not exist"):
        back_up(at, tmp_path / "file", NOW)


def a_log(state: Path, job: str = "j1", content: bytes = b"epoch 1\n") -> Path:
    folder = state / "engine" / "logs" / job / f"{job}.1.worker.0.1"
    folder.mkdir(parents=True)
    (folder / "0").write_bytes(content)
    return folder / "0"


def test_logs_are_in_it_when_asked_for(at: GrusPaths, tmp_path: Path) -> None:
    log = a_log(at.state)
    made = back_up(at, tmp_path / "with", NOW, logs=True)
    assert made.logs
    assert (tmp_path / "with" / "logs" / "j1" / "j1.1.worker.0.1" / "0").read_bytes() == log.read_bytes()
    assert not back_up(at, tmp_path / "without", NOW).logs
    assert not (tmp_path / "without" / "logs").exists()


def test_a_link_in_the_place_of_a_log_is_not_followed(at: GrusPaths, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("key")
    log = a_log(at.state)
    log.unlink()
    log.symlink_to(secret)
    (log.parent.parent / "evil").symlink_to(tmp_path)
    os.mkfifo(log.parent / "7")
    assert copy_logs(at.state / "engine" / "logs", tmp_path / "copy") == 0


def test_logs_that_are_there_stay_when_others_are_copied(at: GrusPaths, tmp_path: Path) -> None:
    a_log(at.state, content=b"longer than before\n")
    a_log(at.state, "j2")
    there = a_log(tmp_path / "new", content=b"kept\n")
    assert copy_logs(at.state / "engine" / "logs", there.parents[2]) == 1
    assert there.read_bytes() == b"kept\n"


def test_the_pool_of_the_last_start_is_in_it(at: GrusPaths, tmp_path: Path) -> None:
    (at.state / "pool").write_text("nvml")
    assert back_up(at, tmp_path / "b", NOW).pool == "nvml"
