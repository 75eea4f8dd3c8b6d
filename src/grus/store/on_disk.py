"""Files and folders that survive a loss of power from the moment a call returns.

A file's content lasts from its fsync on, its name from that of its folder on. The one does not bring the
other.
"""

import os
from pathlib import Path


class FileInPlace:
    """The file that a path led to when this was made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._was = self._now()

    def trouble(self) -> str:
        """Why the path does not lead to it any more; "" while it does."""
        now = self._now()
        if now == self._was:
            return ""
        what = "was removed" if now is None else "was replaced by another file"
        return (
            f"{self._path} {what} while it was in use: nobody would find what is written now. "
            "Bring it back, or stop the server and use `grus restore BACKUP`"
        )

    def _now(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_dev, status.st_ino


def make_folder(folder: Path, mode: int = 0o700) -> None:
    """Make what is missing of the way to it, each with this mode but for the umask, to last."""
    folder = folder.absolute()
    for part in reversed([folder, *folder.parents]):
        if not part.exists():
            part.mkdir(mode=mode, exist_ok=True)
            sync_folder(part.parent)


def write_secret(path: Path, content: bytes) -> None:
    """In place of what is there, whole or not at all; in a file that only its owner reads."""
    make_folder(path.parent)
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)  # of a process that died here
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(fresh, flags, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
