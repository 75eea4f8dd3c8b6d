"""The log of one worker: a row of segments, each named by the offset of its first byte. Light.

Offsets count from the first byte ever written; rotation drops the oldest segment and changes no offset. The
supervisor is the only writer; any number may read.
"""

import contextlib
import os

SEGMENT = 8 << 20
KEEP = 4


def names(folder: str) -> list[str]:
    """Workers that have a log below the folder of their job."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


class LogWriter:
    """Appends to the newest segment, or begins another. A full disk loses bytes, not the job."""

    def __init__(
        self, folder: str, segment: int = SEGMENT, keep: int = KEEP, *, resume: bool = False
    ) -> None:
        """Open the log; with `resume`, continue after the existing output."""
        self._folder = folder
        self._segment = segment
        self._keep = keep
        self._base, newest = (segments(folder) or [(0, "")])[-1] if resume else (0, "")
        self._size = _size(os.path.join(folder, newest)) if newest else 0
        self._file = -1
        with contextlib.suppress(OSError):  # now, so that a worker without output has a log too
            os.makedirs(folder, mode=0o700, exist_ok=True)

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                if self._file == -1:
                    os.makedirs(self._folder, mode=0o700, exist_ok=True)
                    self._file = self._open()
                if self._size >= self._segment:
                    self._rotate()
                written = os.write(self._file, view[: self._segment - self._size])
            except OSError:
                return  # the disk or a quota is full: the job matters more than its output
            self._size += written
            view = view[written:]

    @property
    def end(self) -> int:
        """The offset after the last byte written."""
        return self._base + self._size

    def tail(self, length: int) -> bytes:
        """The last bytes written."""
        return read(self._folder, max(0, self.end - length), length)[0]

    def _open(self) -> int:
        path = os.path.join(self._folder, f"{self._base:020d}")
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)

    def _rotate(self) -> None:
        os.close(self._file)
        self._file = -1
        self._base += self._size
        self._size = 0
        self._file = self._open()
        for _, name in segments(self._folder)[: -self._keep]:
            os.unlink(os.path.join(self._folder, name))


def segments(folder: str) -> list[tuple[int, str]]:
    """(offset of the first byte, name) of each segment, oldest first."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted((int(name), name) for name in names if name.isdigit())


def read(folder: str, offset: int, limit: int) -> tuple[bytes, int]:
    """Bytes from `offset` (negative: from the end), and the offset after them; skips removed ones."""
    rows = segments(folder)
    if not rows:
        return b"", 0
    last_base, last_name = rows[-1]
    end = last_base + _size(os.path.join(folder, last_name))
    at = end + offset if offset < 0 else offset
    at = min(max(at, rows[0][0]), end)
    parts: list[bytes] = []
    for index, (base, name) in enumerate(rows):
        following = rows[index + 1][0] if index + 1 < len(rows) else end
        if at >= following or limit <= 0:
            continue
        part = _read_at(os.path.join(folder, name), at - base, min(limit, following - at))
        if part is None:  # rotated away since the listing
            at = following
            continue
        parts.append(part)
        at += len(part)
        limit -= len(part)
    return b"".join(parts), at


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _read_at(path: str, offset: int, length: int) -> bytes | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        return os.pread(file, length, offset)
    finally:
        os.close(file)
