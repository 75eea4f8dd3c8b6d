"""Positions in the event log of a store."""

from grus.model.interfaces import Store


def last_seq(store: Store) -> int:
    """The highest number in the log, found by doubling and halving: the log can only be read forwards."""
    low, step = 0, 1
    while store.events(after=low + step, limit=1):
        low += step
        step *= 2
    while step:
        if store.events(after=low + step - 1, limit=1):
            low += step
        else:
            step //= 2
    return low
