"""Whoever dies, in whatever moment: what counts is whole, and what is whole is on disk."""

import os
from pathlib import Path

import pytest

from grus.artifacts.artifact_store import ArtifactStore
from grus.artifacts.artifact_upload import keep
from grus.artifacts.manifest import CHUNK
from tests.artifacts.builders import (
    a_folder,
)


def test_nothing_gets_its_name_before_it_is_on_disk(
    vault: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss of power takes what is not synced: files before their names, folders before the manifest."""
    synced: list[tuple[int, int]] = []
    names: list[str] = []
    fsync, replace = os.fsync, os.replace

    def note_fsync(file: int) -> None:
        synced.append((os.fstat(file).st_dev, os.fstat(file).st_ino))
        fsync(file)

    def note_replace(source: Path, target: Path) -> None:
        assert _inode(source) in synced, f"{target} has its name before its content is on disk"
        if target.parent.parent.name == "manifests":
            folders = [path.parent for path in (vault.root / "chunks").glob("*/*")]
            for folder in (vault.root / "chunks", *folders):
                assert _inode(folder) in synced, f"the manifest comes before {folder} is on disk"
        names.append(target.parent.parent.name)
        replace(source, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_replace)
    keep(vault, a_folder(tmp_path / "data", {"a": b"a" * (CHUNK + 1), "b": b"b"}))
    assert names == ["chunks", "chunks", "chunks", "manifests"]
    (manifest,) = (vault.root / "manifests").glob("*/*")
    assert synced[-2:] == [_inode(manifest.parent), _inode(vault.root / "manifests")]


def test_chunks_that_another_wrote_are_synced_too_before_they_count(
    vault: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_folder(tmp_path / "data", {"a": b"a"})
    vault.put_chunk(b"a")  # by one who died before it came to the folder
    synced: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(_of(os.fstat(file))))
    keep(ArtifactStore(vault.root), folder)
    (chunk,) = (vault.root / "chunks").glob("*/*")
    assert _inode(chunk.parent) in synced


def _inode(path: Path) -> tuple[int, int]:
    return _of(path.stat())


def _of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
