"""A block that is full goes to disk, and what it says to the coarser tiers; in the caller's transaction."""

import logging
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from grus.telemetry.tsdb.blocks import HIGHEST, DamagedBlock, packed, unpacked
from grus.telemetry.tsdb.sqlite_file import RecorderFile
from grus.telemetry.tsdb.tiers import TIERS, Tier, folded

log = logging.getLogger(__name__)

Block = dict[int, NDArray[np.float32]]


def seal(
    file: RecorderFile, base: Tier, subject: int, number: int, block: Mapping[int, NDArray[np.float32]]
) -> None:
    """Write a block of the base tier, and fold it into each coarser one in turn."""
    whole = _merge(file, base, number, subject, block, 0)
    for finer, coarser in pairwise(TIERS[base.number :]):
        rows = _folded(whole, finer.span // coarser.step)
        number, rest = divmod(number * finer.span, coarser.span)
        whole = _merge(file, coarser, number, subject, rows, rest // coarser.step)


def _folded(whole: Block, count: int) -> Block:
    found: Block = {}
    for code, row in whole.items():
        if code < HIGHEST:
            found[code] = folded(row, count, highest=False)
            found[code + HIGHEST] = folded(whole.get(code + HIGHEST, row), count, highest=True)
    return found


def _merge(
    file: RecorderFile,
    tier: Tier,
    number: int,
    subject: int,
    rows: Mapping[int, NDArray[np.float32]],
    first: int,
) -> Block:
    """The block with these rows from slot `first` on, where they have values; it is on disk so."""
    data = file.block(tier, number, subject)
    whole = read(data, tier)
    for code, row in rows.items():
        target = whole.setdefault(code, np.full(tier.slots, np.nan, dtype=np.float32))
        part = target[first : first + len(row)]
        np.copyto(part, row, where=~np.isnan(row))
    file.put_block(tier, number, subject, packed(whole), len(data or b""))
    return whole


def read(data: bytes | None, tier: Tier) -> Block:
    """Return a block's rows; a damaged one has none, and is reported in the log."""
    if data is None:
        return {}
    try:
        return unpacked(data, tier.slots)
    except DamagedBlock as error:
        log.warning("a block of recorded telemetry cannot be read and counts as empty: %s", error)
        return {}
