"""Wait for a condition, asking seldom enough that a long wait takes no core from what is waited for."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SHORTEST = 0.005
LONGEST = 0.25
SHARE = 0.1
"""Share of the time waited so far that passes before the next look: a wait is longer than needed by that."""


def poll(condition: Callable[[], T | None], seconds: float) -> T | None:
    """Return the first true answer; None (or another false one) if there was none for so many seconds."""
    begun = time.monotonic()
    while not (found := condition()):
        waited = time.monotonic() - begun
        if waited > seconds:
            break
        time.sleep(min(LONGEST, max(SHORTEST, waited * SHARE)))
    return found
