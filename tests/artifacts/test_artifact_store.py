"""A vault keeps what it was given, as it was, whoever dies meanwhile; and says so when it has not."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grus.artifacts import manifest as manifests
from grus.artifacts.artifact_store import ArtifactStore, LostChunk
from grus.artifacts.artifact_upload import keep, measured
from grus.artifacts.cache import fetch, shelved, throw_out, trim
from grus.artifacts.manifest import CHUNK, DamagedArtifact, Manifest, ManifestEntry, pieces
from grus.model.errors import BadInput, Conflict, NotFound
from tests.artifacts.builders import NODE, PLENTY, a_folder, contents


def some(size: int, seed: int = 1) -> bytes:
    """Bytes that do not repeat."""
    block = b"".join(
        manifests.digest_of(f"{seed} {number}".encode()).encode() for number in range(size // 64 + 1)
    )
    return block[:size]


def test_a_folder_comes_back_as_it_was(vault: ArtifactStore, tmp_path: Path) -> None:
    files = {"a/one": b"1", "a/b/two": some(3 * CHUNK + 17), "empty": b"", "zebra": some(CHUNK)}
    folder = a_folder(tmp_path / "data", files)
    (folder / "nothing").mkdir()
    (folder / "a" / "run").write_bytes(b"#!/bin/sh\n")
    (folder / "a" / "run").chmod(0o755)
    (folder / "link").symlink_to("a/one")
    digest = keep(vault, folder).digest
    lent = fetch(vault, NODE, digest, PLENTY)
    assert contents(lent.path) == contents(folder)
    assert (lent.path / "nothing").is_dir()
    assert os.readlink(lent.path / "link") == "a/one"
    assert os.access(lent.path / "a" / "run", os.X_OK)
    assert (lent.path / "a" / "one").stat().st_mode & 0o222 == 0
    lent.give_back()


def test_a_single_file_keeps_its_name(vault: ArtifactStore, tmp_path: Path) -> None:
    a_folder(tmp_path, {"model.pt": b"weights"})
    lent = fetch(vault, NODE, keep(vault, tmp_path / "model.pt").digest, PLENTY)
    assert (lent.path.name, lent.path.read_bytes()) == ("model.pt", b"weights")
    lent.give_back()


def test_a_digest_depends_on_content_alone(vault: ArtifactStore, tmp_path: Path) -> None:
    first = a_folder(tmp_path / "one", {"b": b"2", "a/x": b"1"})
    again = a_folder(tmp_path / "two", {"a/x": b"1", "b": b"2"})
    os.utime(again / "b", (1, 1))
    digest = keep(vault, first).digest
    assert keep(vault, again).digest == measured(again).digest == digest
    (again / "b").chmod(0o700)
    assert measured(again).digest != digest
    (again / "b").chmod(0o600)
    (again / "b").rename(again / "c")
    assert measured(again).digest != digest


def test_what_two_artefacts_share_is_kept_once(vault: ArtifactStore, tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "data", {"big": some(2 * CHUNK + 1), "note": b"first"})
    keep(vault, folder)
    before = {digest for digest, _ in vault.kept("chunks")}
    (folder / "note").write_bytes(b"second")
    keep(vault, folder)
    assert len({digest for digest, _ in vault.kept("chunks")} - before) == 1


def test_links_that_lead_outside_and_special_files_are_refused_all_at_once(
    vault: ArtifactStore, tmp_path: Path
) -> None:
    folder = a_folder(tmp_path / "data", {"fine": b"1"})
    (folder / "absolute").symlink_to("/etc/passwd")
    (folder / "up").symlink_to("../../secret")
    os.mkfifo(folder / "pipe")
    with pytest.raises(BadInput) as error:
        keep(vault, folder)
    assert sorted(mistake.field for mistake in error.value.mistakes) == ["absolute", "pipe", "up"]


def test_of_many_that_cannot_be_kept_some_are_named_and_all_are_counted(
    vault: ArtifactStore, tmp_path: Path
) -> None:
    folder = a_folder(tmp_path / "data", {"fine": b"1"})
    for number in range(500):
        (folder / f"link-{number}").symlink_to("/etc/passwd")
    with pytest.raises(BadInput, match="data: has 490 more that cannot be kept") as error:
        keep(vault, folder)
    assert len(str(error.value)) < 2000


def test_a_file_that_changes_while_it_is_kept_is_told(vault: ArtifactStore, tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "data", {"a": some(CHUNK + 1), "b": some(CHUNK + 1, 2)})

    def grow(done: int, total: int) -> None:
        (folder / "b").write_bytes(b"shorter")

    with pytest.raises(Conflict, match="b changed while it was being kept"):
        keep(vault, folder, grow)


def test_a_chunk_that_rotted_is_noticed_when_it_is_read_and_mended_when_it_is_kept_again(
    vault: ArtifactStore, tmp_path: Path
) -> None:
    folder = a_folder(tmp_path / "data", {"a": b"right"})
    digest = keep(vault, folder).digest
    (chunk,) = (vault.root / "chunks").glob("*/*")
    chunk.chmod(0o600)
    chunk.write_bytes(b"wrong")
    with pytest.raises(DamagedArtifact, match="a chunk of a is changed"):
        fetch(vault, NODE, digest, PLENTY)
    keep(vault, folder)
    lent = fetch(vault, NODE, digest, PLENTY)
    assert contents(lent.path) == {"a": b"right"}
    lent.give_back()


def test_a_list_of_files_that_was_changed_opens_nothing(vault: ArtifactStore, tmp_path: Path) -> None:
    outside = Manifest(False, (ManifestEntry("f", "../../evil", 1),), ("00" * 32,))
    with pytest.raises(DamagedArtifact):
        manifests.read(outside.text())
    digest = keep(vault, a_folder(tmp_path / "data", {"a": b"1"})).digest
    (listed,) = (vault.root / "manifests").glob("*/*")
    listed.chmod(0o600)
    listed.write_bytes(outside.text())
    with pytest.raises(DamagedArtifact):
        vault.manifest(digest)
    assert not vault.whole(digest)


@pytest.mark.parametrize("digest", ["", "../../../etc/passwd", "AB" * 32, "0" * 63])
def test_only_a_digest_opens_the_vault(vault: ArtifactStore, digest: str) -> None:
    with pytest.raises(NotFound):
        vault.manifest(digest)


def test_a_manifest_without_all_its_chunks_is_never_committed(vault: ArtifactStore) -> None:
    with pytest.raises(LostChunk):
        vault.commit(Manifest(False, (ManifestEntry("f", "a", 3),), ("00" * 32,)))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 3 * CHUNK), max_size=12))
def test_every_byte_of_every_file_stands_in_exactly_one_chunk(sizes: list[int]) -> None:
    entries = [ManifestEntry("f", str(number), size) for number, size in enumerate(sizes)]
    seen = dict.fromkeys(map(str, range(len(sizes))), 0)
    for parts in pieces(entries):
        assert 0 < manifests.length(parts) <= CHUNK
        for piece in parts:
            assert piece.offset == seen[piece.entry.path]
            seen[piece.entry.path] += piece.length
    assert list(seen.values()) == sizes


# ------------------------------------------------------------------------------------------- the cache


def test_a_copy_into_the_cache_that_broke_off_goes_on(vault: ArtifactStore, tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "data", {"big": some(3 * CHUNK), "small": b"s"})
    digest = keep(vault, folder).digest

    class Killed(BaseException):
        pass

    def die(done: int, total: int) -> None:
        if done >= 2 * CHUNK:
            raise Killed

    with pytest.raises(Killed):
        fetch(vault, NODE, digest, PLENTY, die)
    read: list[str] = []
    original = vault.chunk
    vault.chunk = lambda digest, parts: read.append(digest) or original(digest, parts)  # type: ignore[method-assign, func-returns-value]  # counts
    lent = fetch(vault, NODE, digest, PLENTY)
    assert contents(lent.path) == contents(folder)
    assert len(read) == 2
    lent.give_back()


def test_inputs_that_a_job_has_written_to_are_mended_for_the_next(
    vault: ArtifactStore, tmp_path: Path
) -> None:
    folder = a_folder(tmp_path / "data", {"a": b"right", "b/c": b"too"})
    digest = keep(vault, folder).digest
    lent = fetch(vault, NODE, digest, PLENTY)
    lent.give_back()
    lent.path.chmod(0o700)
    (lent.path / "a").chmod(0o600)
    (lent.path / "a").write_bytes(b"wrong and longer")
    (lent.path / "more").mkdir()
    again = fetch(vault, NODE, digest, PLENTY)
    assert contents(again.path) == {"a": b"right", "b/c": b"too"}
    assert not (again.path / "more").exists()
    again.give_back()


def test_the_cache_keeps_to_its_budget_and_what_was_used_longest_ago_goes_first(
    vault: ArtifactStore, tmp_path: Path
) -> None:
    digests = []
    for number in range(4):
        folder = a_folder(tmp_path / str(number), {"a": some(1000, number)})
        digests.append(keep(vault, folder).digest)
        lent = fetch(vault, NODE, digests[-1], 3000)
        lent.give_back()
        os.utime(lent.path.parent / "use", (number, number))
    cache = vault.root / "cache" / NODE
    assert {one.folder.name for one in shelved(cache)} == set(digests[1:])
    assert sum(one.size for one in shelved(cache)) == 3000


def test_what_is_in_use_is_never_thrown_out_and_what_is_larger_than_the_budget_still_comes(
    vault: ArtifactStore, tmp_path: Path
) -> None:
    first = keep(vault, a_folder(tmp_path / "a", {"a": some(1000, 1)})).digest
    second = keep(vault, a_folder(tmp_path / "b", {"b": some(1000, 2)})).digest
    held = fetch(vault, NODE, first, 10)
    other = fetch(vault, NODE, second, 10)
    assert contents(held.path)
    assert contents(other.path)
    other.give_back()
    assert trim(vault.root / "cache" / NODE, 0) == 1000
    assert contents(held.path)
    held.give_back()
    assert trim(vault.root / "cache" / NODE, 0) == 1000


def test_an_entry_that_is_thrown_out_while_it_is_made_is_made_again(
    vault: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_folder(tmp_path / "data", {"a": some(1000)})
    digest = keep(vault, folder).digest
    fetch(vault, NODE, digest, 3000).give_back()
    is_dir = Path.is_dir
    thrown: list[bool] = []

    def late(path: Path) -> bool:
        if path.name == digest and not thrown:  # mkdir has found it there, and looks what it is
            thrown.append(throw_out(path))
        return is_dir(path)

    monkeypatch.setattr(Path, "is_dir", late)
    lent = fetch(vault, NODE, digest, 3000)
    assert thrown == [True]
    assert contents(lent.path) == contents(folder)
    lent.give_back()


def test_many_at_once_fetch_and_throw_out_and_nobody_sees_half_of_it(
    vault: ArtifactStore, tmp_path: Path
) -> None:
    folder = a_folder(tmp_path / "data", {f"{number}": some(500, number) for number in range(20)})
    digest = keep(vault, folder).digest
    wanted = contents(folder)
    wrong: list[object] = []
    done = threading.Event()

    def use() -> None:
        for _ in range(60):
            lent = fetch(ArtifactStore(vault.root), NODE, digest, 0)
            if contents(lent.path) != wanted:
                wrong.append(contents(lent.path))
            lent.give_back()

    def throw() -> None:
        while not done.is_set():
            trim(vault.root / "cache" / NODE, 0)

    users = [threading.Thread(target=use) for _ in range(3)]
    thrower = threading.Thread(target=throw)
    for thread in (*users, thrower):
        thread.start()
    for thread in users:
        thread.join()
    done.set()
    thrower.join()
    assert wrong == []
