"""What an artefact is made of: a list of its files, and of the chunks that hold their bytes. Pure.

The digest of an artefact is the hash of this list. It depends on names, contents, links and whether a file
may be executed; never on times, owners, or where it was. The bytes of small files stand together in chunks,
in the order of the list; a large file has chunks of its own, so that it is found again when others change.
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


class Damaged(GrusError):
    """What is kept is not what was kept."""

    code = "damaged"


@dataclass(frozen=True, slots=True)
class Entry:
    """One file, folder or link; `path` is relative, with slashes."""

    kind: str
    path: str
    size: int = 0
    executable: bool = False
    target: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file that is a part of a chunk."""

    entry: Entry
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """An artefact: a folder, or a single file."""

    single: bool
    """Whether it is one file, and not a folder."""
    entries: tuple[Entry, ...]
    chunks: tuple[str, ...]
    """Digests, in the order of `pieces`."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.entries)

    def text(self) -> bytes:
        """The one way to write it down."""
        rows = [_row(entry) for entry in self.entries]
        what = {"version": VERSION, "single": self.single, "entries": rows, "chunks": list(self.chunks)}
        return json.dumps(what, separators=(",", ":")).encode()

    @property
    def digest(self) -> str:
        return digest_of(self.text())

    def parts(self) -> Iterator[tuple[str, tuple[Piece, ...]]]:
        """Each chunk's digest with what stands in it."""
        return zip(self.chunks, pieces(self.entries), strict=True)


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def is_digest(text: str) -> bool:
    return len(text) == 64 and _HEX.issuperset(text)


def pieces(entries: Sequence[Entry]) -> Iterator[tuple[Piece, ...]]:
    """What stands in each chunk: it follows from the sizes alone."""
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
    """The manifest that was written so. Raises Damaged for anything else, and for names that lead outside."""
    try:
        found = json.loads(text)
        entries = tuple(_entry(row) for row in found["entries"])
        manifest = Manifest(bool(found["single"]), entries, tuple(str(one) for one in found["chunks"]))
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        raise Damaged("the list of an artefact's files cannot be read") from None
    if manifest.text() != text or not _sound(manifest):
        raise Damaged("the list of an artefact's files is not as Grus writes it")
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
    """Whether a path is relative and plain: it cannot leave the folder that it is put under."""
    return bool(path) and "\0" not in path and all(part not in ("", ".", "..") for part in path.split("/"))


def leads_inside(path: str, target: str) -> bool:
    """Whether a link at `path` stays in the artefact: by its words alone, without looking."""
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


def _row(entry: Entry) -> list[object]:
    if entry.kind == FILE:
        return [FILE, entry.path, entry.size, int(entry.executable)]
    return [LINK, entry.path, entry.target] if entry.kind == LINK else [FOLDER, entry.path]


def _entry(row: Sequence[object]) -> Entry:
    match list(row):
        case ["f", str(path), int(size), int(executable)] if size >= 0:
            return Entry(FILE, path, size, bool(executable))
        case ["l", str(path), str(target)]:
            return Entry(LINK, path, target=target)
        case ["d", str(path)]:
            return Entry(FOLDER, path)
    raise ValueError("neither file, nor folder, nor link")
