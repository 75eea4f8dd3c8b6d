"""Storing: puts a file or folder into the artifact store, chunk by chunk.

Chunks that an interrupted try has stored already stay.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from grus.artifacts import tree
from grus.artifacts.artifact_store import ArtifactStore, LostChunk
from grus.artifacts.manifest import Manifest, Piece, digest_of, length, pieces
from grus.model.errors import Conflict

Tell = Callable[[int, int], None]
"""Callback that receives the bytes done and the total."""
MOST_TRIES = 5
"""Maximum number of tries if chunks are removed meanwhile: even one retry is rare."""


def keep(vault: ArtifactStore, path: Path, tell: Tell = lambda *_: None) -> Manifest:
    """Store the path, and return the stored manifest, on disk.

    Raises FileNotFoundError, BadInput, OSError; Conflict if the files change.
    """
    single, entries = tree.scan(path)
    total = sum(entry.size for entry in entries)
    for _ in range(MOST_TRIES):
        chunks, done = [], 0
        for parts in pieces(entries):
            chunks.append(vault.put_chunk(_gathered(path, parts, single=single)))
            done += length(parts)
            tell(done, total)
        manifest = Manifest(single, entries, tuple(chunks))
        try:
            vault.commit(manifest)
        except LostChunk:
            continue
        return manifest
    raise Conflict(f"{path.name} could not be kept: its parts were removed {MOST_TRIES} times meanwhile")


def measured(path: Path) -> Manifest:
    """Return the manifest that would be stored, without storing it. Raises as `keep` does."""
    single, entries = tree.scan(path)
    chunks = tuple(digest_of(_gathered(path, parts, single=single)) for parts in pieces(entries))
    return Manifest(single, entries, chunks)


def _gathered(top: Path, parts: Sequence[Piece], *, single: bool) -> bytes:
    return b"".join(_read(top if single else top / piece.entry.path, piece) for piece in parts)


def _read(path: Path, piece: Piece) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            content = os.pread(file, piece.length, piece.offset)
            same = len(content) == piece.length and os.fstat(file).st_size == piece.entry.size
        finally:
            os.close(file)
    except FileNotFoundError:
        same = False
    if not same:
        raise Conflict(f"{piece.entry.path} changed while it was being kept: something still writes to it")
    return content
