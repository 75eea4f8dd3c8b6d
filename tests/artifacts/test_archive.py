"""An artefact as a tar: the same bytes every time, from any byte on; and nothing leaves its folder."""

import io
import tarfile
from pathlib import Path

import pytest

from grus.artifacts.archive import stream, unpack
from grus.artifacts.artifact_store import ArtifactStore
from grus.artifacts.artifact_upload import keep
from grus.artifacts.manifest import CHUNK, DamagedArtifact
from grus.model.errors import Conflict
from tests.artifacts.builders import a_folder, contents


def test_a_download_that_broke_off_goes_on_from_any_byte(vault: ArtifactStore, tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "data", {"big": b"b" * (CHUNK + 700), "a/one": b"1", "z": b""})
    (folder / "link").symlink_to("a/one")
    manifest = keep(vault, folder)
    whole = b"".join(stream(vault, manifest))
    for offset in (0, 1, 511, 512, 700, CHUNK, CHUNK + 3000, len(whole) - 1, len(whole), len(whole) + 9):
        assert b"".join(stream(vault, manifest, offset)) == whole[offset:]
    names = unpack(io.BytesIO(whole), tmp_path / "out", manifest.digest)
    assert sorted(names) == ["a", "a/one", "big", "link", "z"]
    assert contents(tmp_path / "out") == contents(folder)


def test_a_single_file_comes_back_under_its_name(vault: ArtifactStore, tmp_path: Path) -> None:
    a_folder(tmp_path, {"model.pt": b"weights"})
    manifest = keep(vault, tmp_path / "model.pt")
    assert unpack(io.BytesIO(b"".join(stream(vault, manifest))), tmp_path / "out", manifest.digest) == [
        "model.pt"
    ]
    assert (tmp_path / "out" / "model.pt").read_bytes() == b"weights"


def test_what_lies_before_the_offset_is_not_read(vault: ArtifactStore, tmp_path: Path) -> None:
    manifest = keep(vault, a_folder(tmp_path / "data", {"a": b"a" * (CHUNK + 1), "b": b"b" * (CHUNK + 1)}))
    vault.remove("chunks", manifest.chunks[0])
    assert b"".join(stream(vault, manifest, 512 + CHUNK)).count(b"b") > CHUNK
    with pytest.raises(DamagedArtifact):
        list(stream(vault, manifest))


def test_a_tar_that_is_not_the_artefact_is_refused(vault: ArtifactStore, tmp_path: Path) -> None:
    manifest = keep(vault, a_folder(tmp_path / "data", {"a": b"right"}))
    content = b"".join(stream(vault, manifest)).replace(b"right", b"wrong")
    with pytest.raises(DamagedArtifact, match="is not artefact"):
        unpack(io.BytesIO(content), tmp_path / "out", manifest.digest)
    with pytest.raises(DamagedArtifact, match="what came is not an artefact"):
        unpack(io.BytesIO(b"x" * 2048), tmp_path / "other", manifest.digest)


@pytest.mark.parametrize("kind", ["up", "absolute", "link", "device"])
def test_nothing_is_written_outside_the_folder(tmp_path: Path, kind: str) -> None:
    info = tarfile.TarInfo({"up": "../evil", "absolute": "/tmp/evil"}.get(kind, "evil"))
    if kind == "link":
        info.type, info.linkname = tarfile.SYMTYPE, "../../etc"
    if kind == "device":
        info.type = tarfile.CHRTYPE
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        tar.addfile(info)
    made.seek(0)
    with pytest.raises(Conflict):
        unpack(made, tmp_path / "out", "0" * 64)
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]
    assert list((tmp_path / "out").iterdir()) == []
