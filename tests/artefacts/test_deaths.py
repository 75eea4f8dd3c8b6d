"""Whoever dies, in whatever moment: what counts is whole, and what is whole is on disk."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from grus.api import kept
from grus.artefacts.cache import fetch
from grus.artefacts.manifest import CHUNK
from grus.artefacts.storing import keep
from grus.artefacts.vault import Vault
from tests.artefacts.builders import (
    NODE,
    PLENTY,
    a_folder,
    a_plan,
    a_vault,
    around,
    begin,
    contents,
    end_of,
    said,
)
from tests.server.process import eventually

PARTS = 6
MAKE = f"""
import os
for number in range({PARTS}):
    with open(os.path.join(os.environ["GRUS_OUTPUT_DATA"], str(number)), "wb") as file:
        file.write(bytes([number]) * ({CHUNK} + 1))
"""


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return a_vault(tmp_path / "vault")


def test_a_worker_killed_again_and_again_while_it_keeps_its_output_keeps_it_in_the_end(
    vault: Vault, tmp_path: Path
) -> None:
    plan = a_plan(vault.root, outputs=[["data", ""]])
    program = [sys.executable, "-c", MAKE]
    for count in range(1, 2 * PARTS, 3):
        process = begin(plan, program, tmp_path)
        eventually(partial(_ended_or_has, process, vault, count), "it has ended, or has kept so many parts")
        process.kill()
        end_of(process)
        assert all(vault.whole(digest) for digest, _ in vault.kept("manifests"))
    assert around(plan, program, tmp_path).code == 0
    (artefact,) = kept.artefacts(json.dumps(said(tmp_path)))
    lent = fetch(vault, NODE, artefact.digest, PLENTY)
    assert contents(lent.path) == {str(one): bytes([one]) * (CHUNK + 1) for one in range(PARTS)}
    lent.give_back()


def test_nothing_gets_its_name_before_it_is_on_disk(
    vault: Vault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    vault: Vault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_folder(tmp_path / "data", {"a": b"a"})
    vault.put_chunk(b"a")  # by one who died before it came to the folder
    synced: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(_of(os.fstat(file))))
    keep(Vault(vault.root), folder)
    (chunk,) = (vault.root / "chunks").glob("*/*")
    assert _inode(chunk.parent) in synced


def _ended_or_has(process: "subprocess.Popen[str]", vault: Vault, count: int) -> bool:
    return process.poll() is not None or len(list(vault.kept("chunks"))) >= count


def _inode(path: Path) -> tuple[int, int]:
    return _of(path.stat())


def _of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
