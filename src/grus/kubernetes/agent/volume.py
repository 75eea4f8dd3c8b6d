"""Shared folder of a worker and the agent, from the agent's side.

The agent is root and the folder is the worker's: any entry may have been put there to be followed, waited for
or read without end. So an entry is checked before it is opened (a handle that opens nothing, then its type),
links are never followed, nothing blocks, and reads are bounded.
"""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from grus.kubernetes.names import ATTACHED_FILE, BELL_FILE, CONTROL_FILE, REPORT_FILE, VOLUME

REACH = 16 << 10
"""Bytes that are read from the end of a report: a line longer than that is none."""
_DRAIN = 1 << 16
"""Bytes of rings that are taken at once: what a pipe holds."""


def place(pods: Path, uid: str) -> Path:
    """Return the path where the kubelet keeps a pod's folder."""
    return pods / uid / "volumes" / "kubernetes.io~empty-dir" / VOLUME


class Volume:
    """Open from when the worker's files are there until it is closed. Not for several threads.

    Report and bell stay open, so that the last line can be read after the kubelet has removed the folder.
    """

    def __init__(self, folder: int, report: int, bell: int) -> None:
        self._folder = folder
        self._report = report
        self._bell = bell

    @classmethod
    def find(cls, folder: Path) -> "Volume | None":
        """None while the folder, or a bell and a report of the right kind in it, are not there."""
        try:
            top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        opened = [top]
        try:
            opened.append(_open(top, REPORT_FILE, os.O_RDONLY, stat.S_ISREG))
            # Open for writing too: otherwise it would signal end of file.
            opened.append(_open(top, BELL_FILE, os.O_RDWR, stat.S_ISFIFO))
        except OSError:
            for handle in opened:
                os.close(handle)
            return None
        return cls(*opened)

    def close(self) -> None:
        for handle in (self._folder, self._report, self._bell):
            os.close(handle)

    @property
    def bell(self) -> int:
        """Readable when it was rung."""
        return self._bell

    def hear(self) -> bool:
        """Take all rings; whether there was one."""
        try:
            return bool(os.read(self._bell, _DRAIN))
        except BlockingIOError:
            return False

    def renew_bell(self) -> bool:
        """Return whether another bell has replaced this one; the agent then listens to the new one."""
        found = _replaced(self._folder, BELL_FILE, self._bell, os.O_RDWR, stat.S_ISFIFO)
        if found is None:
            return False
        os.close(self._bell)
        self._bell = found
        return True

    def attach(self) -> None:
        """Report to the init container that the agent listens to the bell."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with suppress(FileExistsError):
            os.close(os.open(ATTACHED_FILE, flags, 0o444, dir_fd=self._folder))

    def write_control(self, text: str) -> None:
        """Replace the control file whole. Raises OSError if the worker has made that impossible."""
        temporary = f".{CONTROL_FILE}.{os.urandom(8).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(temporary, flags, 0o600, dir_fd=self._folder)
        try:
            try:
                view = memoryview(text.encode())
                while view:
                    view = view[os.write(file, view) :]
                os.fchmod(file, 0o644)
            finally:
                os.close(file)
            os.rename(temporary, CONTROL_FILE, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=self._folder)
            raise

    def last_line(self) -> str:
        """The last whole line of the report; "" if there is none."""
        found = _replaced(self._folder, REPORT_FILE, self._report, os.O_RDONLY, stat.S_ISREG)
        if found is not None:
            os.close(self._report)
            self._report = found
        begin = max(0, os.fstat(self._report).st_size - REACH)
        lines = os.pread(self._report, REACH, begin).split(b"\n")[:-1]
        whole = lines[1:] if begin else lines
        return whole[-1].decode(errors="replace") if whole else ""


def _open(folder: int, name: str, flags: int, wanted: Callable[[int], bool]) -> int:
    """Return a handle of a file of the expected type; raises OSError for anything else.

    The first handle opens nothing: a device, or a pipe without a reader, must not even be touched.
    """
    look = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if not wanted(os.fstat(look).st_mode):
            raise OSError(f"{name} is not what it should be")
        return os.open(f"/proc/self/fd/{look}", flags | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(look)


def _replaced(folder: int, name: str, held: int, flags: int, wanted: Callable[[int], bool]) -> int | None:
    """Return a handle of the file that now has this name,
    if it is a new one of the expected type, else None.
    """
    try:
        there, mine = os.stat(name, dir_fd=folder, follow_symlinks=False), os.fstat(held)
        if (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino):
            return None
        return _open(folder, name, flags, wanted)
    except OSError:  # removed, or replaced by another kind of file
        return None
