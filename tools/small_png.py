"""Makes a browser's PNG small: 256 of its colours, the others as the nearest of them.

A page has few colours but for the edges of its letters: nobody sees a difference, and it takes a third.
"""

import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MOST = 256
CHANNELS = {2: 3, 6: 4}
"""Of the kinds of PNG that browsers write: with and without transparency."""


def shrink(file: Path) -> None:
    """In place."""
    pixels = decoded(file.read_bytes())
    colours, which, count = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    kept, nearest = palette(colours.astype(np.int64), count)
    height, width = pixels.shape[:2]
    rows = nearest[which].reshape(height, width)
    data = b"".join(b"\0" + row.tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = (
        (b"IHDR", header),
        (b"PLTE", colours[kept].tobytes()),
        (b"IDAT", zlib.compress(data, 9)),
        (b"IEND", b""),
    )
    file.write_bytes(SIGNATURE + b"".join(_chunk(kind, body) for kind, body in parts))


def palette(colours: NDArray[np.int64], count: NDArray[np.int64]) -> tuple[list[int], NDArray[np.uint8]]:
    """Which colours are kept, and which of those each one becomes.

    Again and again the one that would change most: frequent, or far from all that are kept. So the few points
    of a legend keep their colour.
    """
    kept: list[int] = []
    error = np.full(len(colours), np.iinfo(np.int32).max, np.int64)
    nearest = np.zeros(len(colours), np.uint8)
    while len(kept) < MOST and error.any():
        chosen = int((error * count).argmax())
        apart = ((colours - colours[chosen]) ** 2).sum(axis=1)
        nearest[apart < error] = len(kept)
        error = np.minimum(error, apart)
        kept.append(chosen)
    return kept, nearest


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def decoded(png: bytes) -> NDArray[np.uint8]:
    """Rows of pixels of red, green and blue."""
    chunks = list(_chunks(png))
    width, height, depth, kind = struct.unpack(">IIBB", chunks[0][1][:10])
    if depth != 8 or kind not in CHANNELS:
        raise ValueError(f"not a picture of a browser: {depth} bits, kind {kind}")
    step = CHANNELS[kind]
    data = zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT"))
    length = width * step
    before, rows = [0] * length, []
    for begin in range(0, len(data), length + 1):
        before = _unfiltered(data[begin], data[begin + 1 : begin + 1 + length], before, step)
        rows.append(bytes(before))
    return np.frombuffer(b"".join(rows), np.uint8).reshape(height, width, step)[:, :, :3]


def _chunks(png: bytes) -> list[tuple[bytes, bytes]]:
    found, at = [], len(SIGNATURE)
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        found.append((png[at + 4 : at + 8], png[at + 8 : at + 8 + size]))
        at += 12 + size
    return found


def _unfiltered(how: int, line: bytes, above: list[int], step: int) -> list[int]:
    """One row, as section 9 of the PNG specification defines its filters."""
    row = list(line)
    for place in range(len(row)):
        left = row[place - step] if place >= step else 0
        up = above[place]
        if how == 1:
            guess = left
        elif how == 2:
            guess = up
        elif how == 3:
            guess = (left + up) // 2
        elif how == 4:
            guess = _paeth(left, up, above[place - step] if place >= step else 0)
        else:
            break
        row[place] = (row[place] + guess) & 255
    return row


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    to_left, to_up, to_corner = abs(guess - left), abs(guess - up), abs(guess - corner)
    if to_left <= to_up and to_left <= to_corner:
        return left
    return up if to_up <= to_corner else corner
