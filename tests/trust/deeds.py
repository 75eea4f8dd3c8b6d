"""What people do and what befalls the pool, as data: a history is a list of deeds drawn from one seed.

A deed says when it happens after the one before it, what it is, and the number that all its chance is made
of. So a list with some deeds taken out is a history too, and the rest of it happens as before.
"""

import random
from dataclasses import dataclass

WEIGHTS = {
    "submit": 30,
    "submit again": 4,
    "stages": 3,
    "wish": 12,
    "queue": 2,
    "cordon": 2,
    "worker ends": 6,
    "crash": 8,
    "two servers": 5,
    "weather": 5,
    "news again": 2,
    "clock": 4,
    "node": 4,
    "gpu": 4,
    "workers hang": 4,
    "disk full": 3,
    "slow disk": 4,
    "answers lost": 2,
    "engine trouble": 2,
    "tags": 3,
    "retention": 4,
}
WAITS = (0.0, 0.0, 0.0, 0.4, 1.0, 3.0, 7.0, 20.0, 61.0)
"""Seconds between two deeds: often none, sometimes longer than any grace and any timeout."""
USUAL = 120
"""Deeds of a history."""


@dataclass(frozen=True, slots=True)
class Deed:
    number: int
    """Its place in the history as it was drawn; it stays when others are taken out."""
    kind: str
    after: float
    """Seconds since the deed before."""
    chance: int


def draw(seed: int, length: int = USUAL) -> list[Deed]:
    """The same seed gives the same deeds."""
    source = random.Random(seed)
    kinds = source.choices(list(WEIGHTS), weights=list(WEIGHTS.values()), k=length)
    return [
        Deed(number, kind, source.choice(WAITS), source.getrandbits(32)) for number, kind in enumerate(kinds)
    ]
