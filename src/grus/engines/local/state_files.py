"""File layout of the engine: the names of its files, and the atomic replacement of one.

    epochs/<epoch>/<nonce>/     staging of one engine object; if it is gone, that engine has been fenced
    workers/<worker>/           spec.json, claim, started, stop, control, report, bell, exit.json
    logs/<job>/<worker>/        segments, each named by the offset of its first byte
    notify/<nonce>              a FIFO on which supervisors name the worker that has news
    trash/                      on its way to be deleted

Light: used by the launcher and the supervisors. Only names that `safe_name` accepts may become a path.
"""

import os

EPOCHS = "epochs"
WORKERS = "workers"
LOGS = "logs"
NOTIFY = "notify"
TRASH = "trash"
FOLDERS = (EPOCHS, WORKERS, LOGS, NOTIFY, TRASH)

SPEC = "spec.json"
CLAIM = "claim"
STARTED = "started"
STOP = "stop"
CONTROL = "control"
REPORT = "report"
BELL = "bell"
EXIT = "exit.json"

LONGEST_NAME = 200
_ALPHABET = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-")


def safe_name(name: str) -> bool:
    """Return whether it can be a file's name: lower-case
    letters, digits, dots and dashes; no dot or dash first.
    """
    return 0 < len(name) <= LONGEST_NAME and name[0] not in ".-" and _ALPHABET.issuperset(name)


def replace_file(folder: str, name: str, content: bytes, *, mode: int = 0o600, durable: bool = False) -> None:
    """Write a file so that a reader sees the old content or the new one, never a part."""
    temporary = write_temporary(folder, name, content, mode=mode, durable=durable)
    os.replace(temporary, os.path.join(folder, name))
    if durable:
        sync_folder(folder)


def create_file(folder: str, name: str, content: bytes) -> bool:
    """Write a file if there is none, whole and atomically; whether it was this call that made it."""
    temporary = write_temporary(folder, name, content)
    try:
        os.link(temporary, os.path.join(folder, name))
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)
    return True


def write_temporary(
    folder: str, name: str, content: bytes, *, mode: int = 0o600, durable: bool = False
) -> str:
    """Write a file in the target's folder, under a unique name; return the path."""
    path = os.path.join(folder, f".{name}.{os.getpid()}.{os.urandom(4).hex()}")
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(file, view) :]
        os.fchmod(file, mode)
        if durable:
            os.fsync(file)
    finally:
        os.close(file)
    return path


def read_file(folder: str, name: str) -> bytes | None:
    """The content, or None where there is no such file (or no such folder any more)."""
    try:
        file = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        parts = []
        while part := os.read(file, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)


def sync_folder(folder: str) -> None:
    """Make the names in a folder survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
