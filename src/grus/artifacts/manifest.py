"""Manifest of an artifact: a list of its files, and of the chunks that hold their bytes. Pure.

The digest of an artifact is the hash of this list. It depends on names, contents, links and the executable
flag; never on times, owners, or the original path. The bytes of small files are stored together in chunks, in
the order of the list; a large file has chunks of its own, so that they are found again when other files
change.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grus.model.errors import GrusError

CHUNK = 4 << 20
"""Bytes of the largest chunk."""
VERSION = 1
FILE, FOLDER, LINK = "f", "d", "l"
_HEX = frozenset("0123456789abcdef")


class DamagedArtifact(GrusError):
    """The stored data differs from the original."""

    code = "damaged"


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One file, folder or link; `path` is relative, with slashes."""

    kind: str
    path: str
    size: int = 0
    executable: bool = False
    target: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file that is a part of a chunk."""

    entry: ManifestEntry
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """An artifact: a folder, or a single file."""

    single: bool
    """True if it is one file, and not a folder."""
    entries: tuple[ManifestEntry, ...]
    chunks: tuple[str, ...]
    """Digests, in the order of `pieces`."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.entries)

    def text(self) -> bytes:
        """Return the canonical text."""
        rows = [_row(entry) for entry in self.entries]
        what = {"version": VERSION, "single": self.single, "entries": rows, "chunks": list(self.chunks)}
        return json.dumps(what, separators=(",", ":")).encode()

    @property
    def digest(self) -> str:
        return digest_of(self.text())

    def parts(self) -> Iterator[tuple[str, tuple[Piece, ...]]]:
        """Yield each chunk's digest with its content."""
        return zip(self.chunks, pieces(self.entries), strict=True)


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def is_digest(text: str) -> bool:
    return len(text) == 64 and _HEX.issuperset(text)


def pieces(entries: Sequence[ManifestEntry]) -> Iterator[tuple[Piece, ...]]:
    """Yield the pieces in each chunk: they follow from the sizes alone."""
    gathered: list[Piece] = []
    held = 0
    for entry in entries:
        if entry.kind != FILE or not entry.size:
            continue
        if held + entry.size > CHUNK and gathered:
            yield tuple(gathered)
            gathered, held = [], 0
        if entry.size > CHUNK:
            yield from (
                (Piece(entry, at, min(CHUNK, entry.size - at)),) for at in range(0, entry.size, CHUNK)
            )
        else:
            gathered.append(Piece(entry, 0, entry.size))
            held += entry.size
    if gathered:
        yield tuple(gathered)


def length(parts: Sequence[Piece]) -> int:
    """Bytes of a chunk."""
    return sum(piece.length for piece in parts)


def read(text: bytes) -> Manifest:
    """The manifest that was written so. Raises DamagedArtifact for anything else, and for names that lead
    outside."""
    try:
        found = json.loads(text)
        entries = tuple(_entry(row) for row in found["entries"])
        manifest = Manifest(bool(found["single"]), entries, tuple(str(one) for one in found["chunks"]))
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        raise DamagedArtifact("the list of an artefact's files cannot be read") from None
    if manifest.text() != text or not _sound(manifest):
        raise DamagedArtifact("the list of an artefact's files is not as Grus writes it")
    return manifest


def _sound(manifest: Manifest) -> bool:
    paths = [entry.path for entry in manifest.entries]
    return (
        all(is_digest(chunk) for chunk in manifest.chunks)
        and len(set(paths)) == len(paths)
        and all(is_inside(path) for path in paths)
        and all(leads_inside(entry.path, entry.target) for entry in manifest.entries if entry.kind == LINK)
        and len(manifest.chunks) == sum(1 for _ in pieces(manifest.entries))
        and (not manifest.single or (len(paths) == 1 and manifest.entries[0].kind == FILE))
    )


def is_inside(path: str) -> bool:
    """Return whether a path is relative and plain: it cannot leave the folder that it is put under."""
    return bool(path) and "\0" not in path and all(part not in ("", ".", "..") for part in path.split("/"))


def leads_inside(path: str, target: str) -> bool:
    """Return whether a link at `path` stays in the artifact: by its text alone, without reading files."""
    if not target or "\0" in target or target.startswith("/"):
        return False
    depth = path.count("/")
    for part in target.split("/"):
        if part == "..":
            depth -= 1
        elif part not in ("", "."):
            depth += 1
        if depth < 0:
            return False
    return True


def _row(entry: ManifestEntry) -> list[object]:
    if entry.kind == FILE:
        return [FILE, entry.path, entry.size, int(entry.executable)]
    return [LINK, entry.path, entry.target] if entry.kind == LINK else [FOLDER, entry.path]


def _entry(row: Sequence[object]) -> ManifestEntry:
    match list(row):
        case ["f", str(path), int(size), int(executable)] if size >= 0:
            return ManifestEntry(FILE, path, size, bool(executable))
        case ["l", str(path), str(target)]:
            return ManifestEntry(LINK, path, target=target)
        case ["d", str(path)]:
            return ManifestEntry(FOLDER, path)
    raise ValueError("neither file, nor folder, nor link")
