"""Durable files and folders: they survive a loss of power from the moment a call returns.

A file's content is durable after its fsync, its name after that of its folder. Neither implies the other.
"""

import os
import stat
from pathlib import Path

PRIVATE, PASSABLE = 0o700, 0o711
"""Modes of folders: for the owner alone, or open for others to pass."""


class FileInPlace:
    """File that a path led to when this was made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._was = self._now()

    def trouble(self) -> str:
        """Return the reason why the path no longer leads to it; "" while it does."""
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
    """Make the missing folders of the path durably, each with this mode except for the umask."""
    folder = folder.absolute()
    for part in reversed([folder, *folder.parents]):
        if not part.exists():
            part.mkdir(mode=mode, exist_ok=True)
            sync_folder(part.parent)


def make_state_folder(state: Path) -> None:
    """Make the state and the missing folders above it.

    Jobs that run as another Unix user must reach their control files, so root's folders let others pass and
    do nothing more; other owners keep theirs closed. Neither depends on the umask.
    """
    new = [folder for folder in (state, *state.parents) if not folder.exists()]
    make_folder(state)
    for folder in new:
        folder.chmod(PASSABLE if os.geteuid() == 0 else PRIVATE)


def closed_folder(path: Path) -> Path | None:
    """The outermost folder on the way to the path, itself included, that only its owner or group can pass."""
    for folder in reversed((path, *path.parents)):
        if folder.exists() and not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    return None


def write_secret(path: Path, content: bytes) -> None:
    """Replace the file, whole or not at all; only its owner can read it."""
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
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
