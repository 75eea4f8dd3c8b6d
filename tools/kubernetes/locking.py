"""A lock between processes: a file that one of them holds; whoever dies lets go of it."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(file: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Holds the lock inside, where file and folder may be removed; `waiting` is called if another has it."""
    while True:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            held = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # the folder was removed in between
            continue
        try:
            lock(held, waiting)
            if same(held, file):
                yield
                return
        finally:
            os.close(held)


def lock(held: int, waiting: Callable[[], None]) -> None:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        waiting()
        fcntl.flock(held, fcntl.LOCK_EX)


def same(held: int, file: Path) -> bool:
    """Whether the file is still the one that is held: its last holder may have removed it."""
    try:
        return os.path.samestat(os.fstat(held), file.stat())
    except FileNotFoundError:
        return False
