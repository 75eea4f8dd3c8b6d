"""One server per state folder. The lock is the kernel's: it goes with the process, however that ends."""

import fcntl
import os
from pathlib import Path

from grus.model.errors import Conflict


class StateLock:
    """Held from `take` to `release`, or to the death of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def take(self) -> None:
        """Raises Conflict, naming the other server's pid, if one has it."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(file, 20, 0).decode(errors="replace").strip() or "unknown"
            os.close(file)
            raise Conflict(
                f"A server is already running on {self._path.parent} (pid {pid}). "
                "Use it, or stop it first with `grus down`."
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
