"""Reports of a worker: a file that it may append to (the last whole line counts) and a bell beside it.

The worker rings the bell to have the file read now. Light.

Both belong to the worker, but their folder does not: they can be filled, but not replaced by anything else.
"""

import os
import stat

from grus.engines.local import state_files

_REACH = 16 << 10
"""Bytes that are read from the end: a line longer than that is none."""


def create(folder: str, owner: tuple[int, int] | None) -> None:
    """Make the empty file, for this (uid, gid) if it is not the engine's own user."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    file = os.open(os.path.join(folder, state_files.REPORT), flags, 0o600)
    try:
        if owner is not None:
            os.fchown(file, *owner)
    finally:
        os.close(file)


def hang_bell(folder: str, owner: tuple[int, int] | None) -> int:
    """Make the FIFO and open it; also for writing, so that it is never at its end."""
    path = os.path.join(folder, state_files.BELL)
    os.mkfifo(path, 0o600)
    if owner is not None:
        os.chown(path, *owner, follow_symlinks=False)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)


def last_line(folder: str) -> str:
    """The last whole line; "" if there is none, or no such file any more."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        file = os.open(os.path.join(folder, state_files.REPORT), flags)
    except OSError:
        return ""
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            return ""
        begin = max(0, status.st_size - _REACH)
        lines = os.pread(file, _REACH, begin).split(b"\n")[:-1]
    finally:
        os.close(file)
    whole = lines[1:] if begin else lines
    return whole[-1].decode(errors="replace") if whole else ""
