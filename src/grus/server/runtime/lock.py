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


def is_held_by(path: Path, pid: int) -> bool:
    """Return whether that process holds the lock. It only reads: a server that is just starting is not
    disturbed.
    """
    try:
        inode = path.stat().st_ino
    except FileNotFoundError:
        return False
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return True  # a sandbox that does not show locks: no evidence against it
    # "3: FLOCK  ADVISORY  WRITE 32477 fe:00:2147898 0 EOF"; the device is not to be trusted everywhere.
    held = (line.replace("->", "").split() for line in lines)
    return any(fields[4] == str(pid) and fields[5].endswith(f":{inode}") for fields in held)
