"""Artifacts as tar files for download, and back.

    python -m grus.artifacts.archive STORE DIGEST OFFSET > rest.tar

The same artifact always gives the same bytes, so that a broken download can resume. Data is verified against
its hashes while it is read; a damaged artifact ends the stream, never silently.
"""

import os
import sys
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

from grus.artifacts.artifact_store import ArtifactStore
from grus.artifacts.artifact_upload import measured
from grus.artifacts.manifest import (
    FILE,
    FOLDER,
    LINK,
    DamagedArtifact,
    Manifest,
    ManifestEntry,
    Piece,
    is_inside,
    leads_inside,
)
from grus.model.errors import Conflict, GrusError

BLOCK = tarfile.BLOCKSIZE
COPIED = 1 << 20


class TarSegment(NamedTuple):
    """Some bytes of the tar: how many, and how to get them."""

    length: int
    content: Callable[[], bytes]


class _Chunk:
    """Chunk that is read once, when its first part is needed."""

    def __init__(self, vault: ArtifactStore, digest: str, parts: tuple[Piece, ...]) -> None:
        self._read = partial(vault.chunk, digest, parts)
        self._content: bytes | None = None

    def cut(self, at: int, length: int) -> bytes:
        if self._content is None:
            self._content = self._read()
        return self._content[at : at + length]


def stream(vault: ArtifactStore, manifest: Manifest, offset: int = 0) -> Iterator[bytes]:
    """Yield the tar from this byte on. Earlier chunks are not read. Raises DamagedArtifact."""
    for part in _parts(vault, manifest):
        if offset >= part.length:
            offset -= part.length
        else:
            yield part.content()[offset:]
            offset = 0


def _parts(vault: ArtifactStore, manifest: Manifest) -> Iterator[TarSegment]:
    contents = _contents(vault, manifest)
    for entry in manifest.entries:
        header = _header(entry)
        yield TarSegment(len(header), partial(bytes, header))
        left = entry.size
        while left:
            part = next(contents)
            left -= part.length
            yield part
        padding = -entry.size % BLOCK
        yield TarSegment(padding, partial(bytes, padding))
    yield TarSegment(2 * BLOCK, partial(bytes, 2 * BLOCK))


def _contents(vault: ArtifactStore, manifest: Manifest) -> Iterator[TarSegment]:
    """The bytes of all files, in their order."""
    for digest, parts in manifest.parts():
        chunk, at = _Chunk(vault, digest, parts), 0
        for piece in parts:
            yield TarSegment(piece.length, partial(chunk.cut, at, piece.length))
            at += piece.length


def _header(entry: ManifestEntry) -> bytes:
    info = tarfile.TarInfo(entry.path)
    info.mode = 0o755 if entry.executable or entry.kind == FOLDER else 0o644
    if entry.kind == FILE:
        info.size = entry.size
    elif entry.kind == LINK:
        info.type, info.linkname = tarfile.SYMTYPE, entry.target
    else:
        info.type = tarfile.DIRTYPE
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


# -------------------------------------------------------------------------------------------- unpacking


def unpack(tar: BinaryIO, folder: Path, digest: str) -> list[str]:
    """Unpack the artifact's files into a new folder, unchanged; return their names. Raises DamagedArtifact,
    Conflict.

    Nothing is written outside: names are checked one by one, and links are made when all files are there.
    """
    folder.mkdir(parents=True)
    links: list[tuple[Path, str]] = []
    names = []
    try:
        with tarfile.open(fileobj=tar, mode="r:") as opened:
            for member in opened:
                names.append(_unpack_one(opened, member, folder, links))
    except tarfile.TarError as error:
        raise DamagedArtifact(f"what came is not an artefact: {error}") from error
    for path, target in links:
        path.symlink_to(target)
    single = len(names) == 1 and (folder / names[0]).is_file() and "/" not in names[0]
    same = measured(folder).digest == digest or (single and measured(folder / names[0]).digest == digest)
    if not same:
        raise DamagedArtifact(f"what came is not artefact {digest[:12]}: get it again")
    return names


def _unpack_one(
    opened: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, links: list[tuple[Path, str]]
) -> str:
    path = folder / member.name
    if not is_inside(member.name):
        raise Conflict(f"a name leads outside the folder, and nothing more is written: {member.name!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.isdir():
        path.mkdir(exist_ok=True)
    elif member.issym() and leads_inside(member.name, member.linkname):
        links.append((path, member.linkname))
    elif member.isreg():
        content = opened.extractfile(member)
        assert content is not None
        with path.open("xb") as file:
            while piece := content.read(COPIED):
                file.write(piece)
        path.chmod(0o755 if member.mode & 0o100 else 0o644)
    else:
        raise Conflict(f"{member.name!r} is neither a file, nor a folder, nor a link that stays inside")
    return member.name


def main(root: str, digest: str, offset: str) -> int:
    vault = ArtifactStore(Path(root))
    try:
        for content in stream(vault, vault.manifest(digest), int(offset)):
            sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader is gone
        return 1
    except GrusError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
