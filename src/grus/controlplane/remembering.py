"""Answers about a value that never changes, remembered for that very value.

A pass asks the same of one job many times over: who its workers are, who of them computes together. Comparing
jobs would cost more than it saves, so a value is known by its identity, and kept alive beside its answer: as
long as that stands here, no other value can have its identity.
"""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

MOST = 512
"""Values remembered at a time. What is asked of one job is asked in a row: few are enough."""

T = TypeVar("T")
R = TypeVar("R")


def remembered(ask: Callable[[T], R]) -> Callable[[T], R]:
    """The same function, for values and answers that nobody changes. For any thread."""
    known: dict[int, tuple[T, R]] = {}

    @wraps(ask)
    def answer(value: T) -> R:
        found = known.get(id(value))
        if found is None:
            if len(known) >= MOST:
                known.clear()
            found = known[id(value)] = value, ask(value)
        return found[1]

    return answer
