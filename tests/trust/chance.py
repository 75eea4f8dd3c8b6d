"""Chance that follows from words: the same words give the same dice, whatever else was thrown before.

So taking one deed out of a history changes nothing for the others but what really depended on it, which is
what makes histories shrink.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def dice(*words: object) -> float:
    """From 0 to 1, without 1."""
    digest = hashlib.blake2b(repr(words).encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") / (1 << 48)


def one_of(choices: Sequence[T], *words: object) -> T:
    return choices[int(dice(*words) * len(choices))]
