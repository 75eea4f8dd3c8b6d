"""A file or folder goes into the vault, chunk by chunk; what a broken try has brought in already stays."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from grus.artefacts import tree
from grus.artefacts.manifest import Manifest, Piece, digest_of, length, pieces
from grus.artefacts.vault import Lost, Vault
from grus.model.errors import Conflict

Tell = Callable[[int, int], None]
"""Hears how many bytes of how many are done."""
MOST_TRIES = 5
"""How often what is thrown out meanwhile is brought in again: once is rare already."""


def keep(vault: Vault, path: Path, tell: Tell = lambda *_: None) -> Manifest:
    """What is kept now, on disk. Raises FileNotFoundError, BadInput, OSError; Conflict if it changes."""
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
        except Lost:
            continue
        return manifest
    raise Conflict(f"{path.name} could not be kept: its parts were removed {MOST_TRIES} times meanwhile")


def measured(path: Path) -> Manifest:
    """What would be kept, without keeping it. Raises as `keep` does."""
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
