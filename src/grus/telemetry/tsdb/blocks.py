"""Encoding of values as bytes: a block of one subject's series, and the journal of values not in a block yet.

Bytes of equal weight are stored together, since adjacent values in time differ in the low ones only; zlib
does the rest. Unreadable data raises `DamagedBlock`, never anything else.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

HIGHEST = 128
"""Added to a measure's code: the row of its maxima."""
_LEVEL = 1
"""Level of zlib: higher ones take three times as long for some per cent."""

Rows = Mapping[int, NDArray[np.float32]]
"""A block's values by the code of their measure."""


class DamagedBlock(Exception):
    """These bytes are not what was written."""


class JournalEntry(NamedTuple):
    """One value of the journal."""

    subject: int
    code: int
    at: int
    """Milliseconds."""
    value: float


def packed(rows: Rows) -> bytes:
    codes = bytes(sorted(rows))
    matrix = np.stack([rows[code] for code in codes]).astype("<f4")
    planes = matrix.reshape(-1, 1).view(np.uint8).T.tobytes()
    return bytes([len(codes)]) + codes + zlib.compress(planes, _LEVEL)


def unpacked(data: bytes, slots: int) -> dict[int, NDArray[np.float32]]:
    """Its rows; they may be changed."""
    try:
        count = data[0]
        planes = np.frombuffer(zlib.decompress(data[1 + count :]), np.uint8)
        matrix = planes.reshape(4, count * slots).T.copy().view("<f4").reshape(count, slots)
    except (IndexError, ValueError, zlib.error) as error:
        raise DamagedBlock(str(error)) from None
    return {code: np.asarray(matrix[row], dtype=np.float32) for row, code in enumerate(data[1 : 1 + count])}


def journalled(entries: Sequence[JournalEntry]) -> bytes:
    subjects, codes, moments, values = zip(*entries, strict=True)
    columns = (
        np.array(subjects, "<u4"),
        np.array(codes, "<u1"),
        np.diff(np.array(moments, "<i8"), prepend=0).astype("<i8"),
        np.array(values, "<f4"),
    )
    return zlib.compress(b"".join(column.tobytes() for column in columns), _LEVEL)


def entries(data: bytes) -> list[JournalEntry]:
    try:
        raw = zlib.decompress(data)
        count, rest = divmod(len(raw), 4 + 1 + 8 + 4)
        if rest:
            raise ValueError(f"{rest} bytes too many")
        subjects = np.frombuffer(raw, "<u4", count)
        codes = np.frombuffer(raw, "<u1", count, 4 * count)
        moments = np.cumsum(np.frombuffer(raw, "<i8", count, 5 * count))
        values = np.frombuffer(raw, "<f4", count, 13 * count)
    except (ValueError, zlib.error) as error:
        raise DamagedBlock(str(error)) from None
    columns = (subjects.tolist(), codes.tolist(), moments.tolist(), values.tolist())
    return [JournalEntry(*entry) for entry in zip(*columns, strict=True)]
