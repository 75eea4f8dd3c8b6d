"""Memoization by object identity, for values that never change.

A pass asks the same of one job many times: its workers, its worker group. Comparing jobs would cost more than
it saves, so a value is identified by its identity, and kept alive beside its answer: while it is kept here,
no other value can have its identity.
"""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

MOST = 512
"""Values remembered at a time. Questions about one job come in a row: few values are enough."""

T = TypeVar("T")
R = TypeVar("R")


def remembered(ask: Callable[[T], R]) -> Callable[[T], R]:
    """Memoize by object identity; values and answers must be immutable. For any thread."""
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
