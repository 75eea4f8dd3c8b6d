"""Checkpoints on disk: each is a folder `step-000000000120` that is either complete or absent.

It is written under a temporary name beside the final one, with a manifest that holds the size and the SHA-256
of every file, flushed to disk (fsync of files and folders), and only then given its name, by one rename.
Removal is the reverse: renamed first, then deleted. So a writer that is killed at any moment leaves either a
whole checkpoint or a temporary folder, which the next writer removes.

Temporary names carry host, process and start of their writer; the folder of a living writer is never touched.
Several processes may write into one folder at once, also the same step. This module does not depend on the
content of a checkpoint.
"""

import errno
import hashlib
import json
import os
import platform
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from grus.elastic.training_state.process_starts import UNKNOWN, start_of

STATE = "state.pt"
MANIFEST = "manifest.json"
FORMAT = 1

_NAME = re.compile(r"step-(\d{12,})")
_TEMPORARY = re.compile(r"\.tmp-([0-9a-f]+)-(\d+)-(\d+)-[0-9a-f]+")
_SAME_START = 2.0
"""Seconds that two readings of one process's start may differ."""
_FORGOTTEN = 24 * 3600.0
"""Seconds after which a temporary folder of another host, whose processes are unknown, is removed."""


class Damaged(Exception):
    """The checkpoint is not whole; the text gives the reason."""


class Sink(Protocol):
    def write(self, data: Any, /) -> int: ...
    def flush(self) -> None: ...


def place(folder: Path, step: int, fill: Callable[[Sink], None]) -> Path:
    """Write a checkpoint, whole and durable. One that is there already, and whole, is as good."""
    target = folder / f"step-{step:012d}"
    temporary = _temporary(folder)
    temporary.mkdir()
    try:
        told = _write_state(temporary / STATE, fill)
        manifest = {"format": FORMAT, "step": step, "files": {STATE: told}}
        _write(temporary / MANIFEST, json.dumps(manifest, indent=1).encode())
        sync(temporary)
        _give_name(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # already gone if all went well
    sync(folder)
    return target


def found(folder: Path) -> list[Path]:
    """All that have a checkpoint's name, newest first; whole or not."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    steps = {name: int(match[1]) for name in names if (match := _NAME.fullmatch(name))}
    return [folder / name for name in sorted(steps, key=steps.__getitem__, reverse=True)]


def verify(checkpoint: Path) -> int:
    """Return its step, if it is whole: every file exists, with the size and the hash in the manifest."""
    try:
        return _verify(checkpoint)
    except PermissionError:
        raise  # that is no damage, and the user can fix it
    except OSError as error:
        raise Damaged(f"cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"its manifest is damaged: {error!r}") from error


def is_whole(checkpoint: Path) -> bool:
    try:
        verify(checkpoint)
    except (Damaged, PermissionError):
        return False
    return True


def remove(checkpoint: Path) -> None:
    """Take a checkpoint away; under a temporary name first, so that no half of it bears its name."""
    aside = _temporary(checkpoint.parent)
    try:
        os.rename(checkpoint, aside)
    except FileNotFoundError:
        return  # another process was faster
    shutil.rmtree(aside, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Clear away what writers left that are dead now."""
    for name in os.listdir(folder):
        if _abandoned(folder, name):
            shutil.rmtree(folder / name, ignore_errors=True)


def try_out(folder: Path) -> None:
    """Write a little as a checkpoint is written, and take it away again."""
    temporary = _temporary(folder)
    temporary.mkdir()
    try:
        _write(temporary / MANIFEST, b" " * 4096)
        sync(temporary)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def sync(folder: Path) -> None:
    """Make the names in a folder survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems do not support this
            raise
    finally:
        os.close(handle)


def _verify(checkpoint: Path) -> int:
    manifest = json.loads((checkpoint / MANIFEST).read_bytes())
    if manifest["format"] != FORMAT:
        raise Damaged(f"it has format {manifest['format']!r}, which is not known here")
    step = int(checkpoint.name.removeprefix("step-"))
    if manifest["step"] != step or STATE not in manifest["files"]:
        raise Damaged("its manifest is that of another checkpoint")
    for name, told in manifest["files"].items():
        file = checkpoint / Path(name).name
        size = file.stat().st_size
        if size != told["size"]:
            raise Damaged(f"{name} has {size} bytes in place of {told['size']}")
        with open(file, "rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() != told["sha256"]:
                raise Damaged(f"{name} has another hash than when it was written")
    return step


def _give_name(temporary: Path, target: Path) -> None:
    try:
        os.rename(temporary, target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        if is_whole(target):
            return  # another worker saved the same step
        remove(target)  # damaged: the run fell back to an older one, and has reached this step again
        os.rename(temporary, target)


class _Hashing:
    """File that hashes the data written to it, and never raises while it is written.

    The writer above is C++, in which an error of Python's half-way is not safe: it is kept until the end.
    """

    def __init__(self, file: Any) -> None:
        self.error: OSError | None = None
        self.size = 0
        self.digest = hashlib.sha256()
        self._file = file

    def write(self, data: Any, /) -> int:
        length = memoryview(data).nbytes
        if self.error is None:
            self.digest.update(data)
            self.size += length
            try:
                self._file.write(data)
            except OSError as error:
                self.error = error
        return length

    def flush(self) -> None: ...


def _write_state(path: Path, fill: Callable[[Sink], None]) -> dict[str, object]:
    with open(path, "xb", buffering=0) as file:
        sink = _Hashing(_FullWriter(file.fileno()))
        fill(sink)
        if sink.error is not None:
            raise sink.error
        os.fsync(file.fileno())
    return {"size": sink.size, "sha256": sink.digest.hexdigest()}


@dataclass(frozen=True, slots=True)
class _FullWriter:
    """Writes all that it is given, or raises."""

    handle: int

    def write(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        while view:
            view = view[os.write(self.handle, view) :]


def _write(path: Path, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _temporary(folder: Path) -> Path:
    """A name that no other writer has."""
    start = int(start_of(os.getpid()) or UNKNOWN)
    return folder / f".tmp-{_host()}-{os.getpid()}-{start}-{os.urandom(6).hex()}"


def _abandoned(folder: Path, name: str) -> bool:
    """Return whether this is a temporary folder whose writer is dead."""
    match = _TEMPORARY.fullmatch(name)
    if match is None:
        return False
    if match[1] != _host():
        return _age(folder / name) > _FORGOTTEN
    start = start_of(int(match[2]))
    return start is None or (start != UNKNOWN and abs(start - int(match[3])) > _SAME_START)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _host() -> str:
    """Within which a process number means one process: a host since its start, and in it a pid namespace."""
    parts = [platform.node()]
    for path, read in (
        ("/proc/sys/kernel/random/boot_id", lambda path: Path(path).read_text(encoding="ascii")),
        ("/proc/self/ns/pid", os.readlink),
    ):
        try:
            parts.append(read(path))
        except OSError:
            parts.append("")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
