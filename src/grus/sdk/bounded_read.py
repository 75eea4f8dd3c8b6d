"""Bounded reads of files that users name: `/dev/zero` costs no more than the largest job file."""

import os
import sys

from grus.model.errors import BadInput, Mistake

STDIN = "-"
LARGEST_SETTINGS = 1024 * 1024
"""Bytes of config.toml."""


def read_at_most(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content, but never more than one byte beyond `most`; `-` is the standard input. Raises
    OSError.
    """
    if os.fspath(path) == STDIN:
        return sys.stdin.buffer.read(most + 1)
    with open(path, "rb", buffering=0) as file:
        return b"".join(_pieces(file.fileno(), most + 1))


def read_text(path: str | os.PathLike[str], most: int) -> str:
    """Return UTF-8 text of at most so many bytes. Raises OSError, UnicodeDecodeError, and BadInput if
    larger.
    """
    content = read_at_most(path, most)
    if len(content) > most:
        raise BadInput([Mistake(os.fspath(path), f"must be at most {most >> 10} KiB")])
    return content.decode()


def _pieces(file: int, most: int) -> list[bytes]:
    found = []
    while most > 0 and (piece := os.read(file, min(most, 1 << 20))):
        found.append(piece)
        most -= len(piece)
    return found
