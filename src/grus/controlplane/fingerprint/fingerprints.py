"""Fingerprints that identify jobs as the same work: code, command, image and user.

    program       command, setup, images and user: known at once
    code          files in the workdir: read from the disk, so never by a thread that must not block
    fingerprint   both

Code is the source files of the workdir and any file that the command names, by content. Results that a job
leaves beside its source do not count, nor do hidden folders and installed packages. Data is identified from
outside only: names, sizes and times. Both stop at a limit, so that a folder of a million files costs no more
than one of some thousands; the same folder still gives the same digest.
"""

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from grus.model.identifiers import UserName
from grus.model.job_spec import is_bundle, is_path
from grus.model.jobs import Spec
from grus.model.results import words_of

SOURCE = frozenset(
    {
        *(".py", ".pyx", ".pyi", ".sh", ".bash", ".jl", ".r", ".lua", ".go", ".rs", ".java", ".scala"),
        *(".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp"),
    }
)
"""Extensions of files that people write and jobs do not."""
SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "build", "dist"})
MOST_SOURCES = 2000
MOST_SOURCE_BYTES = 16 << 20
"""Limit for all files together; beyond it a file counts with its name and size."""
MOST_SEEN = 20_000
"""Entries of folders that are looked at, for source or for data."""
LENGTH = 16
"""Letters of a digest: enough for a pool's lifetime of different jobs, and short enough to be typed."""


_OWN_NAME = re.compile(r"-[0-9a-f]{16}(?=[./]|$)")
"""Suffix that separates the checkpoints of stages."""


def program(spec: Spec, user: UserName) -> str:
    """Return the digest that jobs share if they run the same command for the same user, regardless of code,
    size and name.
    """
    roles = [(role.name, role.run, role.image) for role in spec.request.roles]
    return short_digest((user, spec.image, spec.run, spec.setup, roles))


def fingerprint(program: str, code: str) -> str:
    return short_digest((program, code))


def command_words(spec: Spec) -> str:
    """Return the command as users wrote it."""
    return words_of(command(spec))


def command(spec: Spec) -> tuple[str, ...]:
    """Return the program of the job: its own, or that of the first role that has one."""
    return next((argv for argv in (spec.run, *(role.run for role in spec.request.roles)) if argv), ())


def code_digest(spec: Spec, *, containers: bool, contents: bool = True) -> str:
    """Return the digest of the code that the job would run if it started now. Reads the disk; never raises
    for what it finds there.

    If workers are containers, code is in the image or in a bundle that is named by its content. Without
    `contents` files count by name, size and time.
    """
    if containers or is_bundle(spec.workdir):
        return short_digest(spec.workdir)
    root = Path(spec.workdir)
    return _digest(root, {*_sources(root), *_named(spec)}, contents)


def part_digest(spec: Spec, source: Iterable[str] | None, *, contents: bool = True) -> tuple[str, float]:
    """Return the digest of only these source files and those that the command names, and the time of their
    last change.

    None for all source files.
    """
    root = Path(spec.workdir)
    names = {*(_sources(root) if source is None else source), *_named(spec)}
    return _digest(root, names, contents), max((_changed(root / name) for name in names), default=0.0)


def _changed(path: Path) -> float:
    """Return the time at which the file, or its metadata, last changed: users cannot set this time back."""
    try:
        return os.lstat(path).st_ctime
    except OSError:
        return 0.0


def _digest(root: Path, files: Iterable[str], contents: bool) -> str:
    names = sorted(files)
    digest = hashlib.sha256()
    left = MOST_SOURCE_BYTES
    for name in names[:MOST_SOURCES]:
        content = content_of(root / name, left if contents else -1)
        if content is not None:
            left = max(0, left - len(content))
            digest.update(f"{name}\0{len(content)}\0".encode(errors="surrogateescape"))
            digest.update(content)
    return digest.hexdigest()[:LENGTH]


def files_digest(workdir: str, *, but: Iterable[str], contents: bool = True) -> str:
    """Return the digest of all files in a folder beside source, except those left out; empty if there are too
    many.

    This covers files that a program reads without declaring them. Files count by content up to the limit, and
    by size and time beyond it, or without `contents`.
    """
    root = Path(workdir)
    left_out = [os.path.normpath(os.path.join(workdir, path)) for path in but]
    digest = hashlib.sha256()
    left = MOST_SOURCE_BYTES
    for seen, (folder, name) in enumerate(_walk(root)):
        if seen + 1 >= MOST_SEEN:
            return ""
        path = os.path.join(folder, name)
        plain = _OWN_NAME.sub("", path)  # as the job with that output names the path
        if os.path.splitext(name)[1].lower() in SOURCE or any(_below(plain, one) for one in left_out):
            continue
        content = content_of(Path(path), left if contents and _size(path) <= left else -1)
        if content is not None:
            left -= len(content) if contents else 0
            digest.update(f"{os.path.relpath(path, root)}\0{len(content)}\0".encode(errors="surrogateescape"))
            digest.update(content)
    return digest.hexdigest()[:LENGTH]


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def data_digest(data: Iterable[str], *, containers: bool) -> str:
    """Return the digest of the data that a job declares, as it is now; empty for a job that declares none."""
    given = sorted(set(data))
    if not given:
        return ""
    return short_digest(
        [(name, () if containers or not is_path(name) else _outside(Path(name))) for name in given]
    )


def short_digest(told: object) -> str:
    """Return the digest of plain values, by their `repr`."""
    return hashlib.sha256(repr(told).encode(errors="surrogatepass")).hexdigest()[:LENGTH]


def _sources(root: Path) -> Iterator[str]:
    """Source files below a folder, relative to it."""
    for folder, name in _walk(root):
        if os.path.splitext(name)[1].lower() in SOURCE:
            yield os.path.relpath(os.path.join(folder, name), root)


def _named(spec: Spec) -> Iterator[str]:
    """Words of the command that may be files of the workdir: a configuration, for one."""
    for argv in (spec.run, *(role.run for role in spec.request.roles), spec.setup):
        for part in argv:
            for word in words(part):
                path = word.partition("=")[2] or word
                if path and not os.path.isabs(path) and ".." not in path.split("/"):
                    yield os.path.normpath(path)


def words(part: str) -> list[str]:
    """Split an argument that may be a whole command line into words."""
    try:
        return shlex.split(part)
    except ValueError:
        return part.split()


def _walk(root: Path) -> Iterator[tuple[str, str]]:
    """Yield folder and name of each file below, in a deterministic order; up to the limit."""
    seen = 0
    for folder, folders, files in os.walk(root, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in SKIPPED)
        for name in sorted(files):
            seen += 1
            if seen > MOST_SEEN:
                return
            yield folder, name
        seen += len(folders)
        if seen > MOST_SEEN:
            return


def content_of(path: Path, most: int) -> bytes | None:
    """Return the content of a regular file; its size if it is too long (and its time, if `most` is negative).

    None if it is no regular file, or may not be read.
    """
    try:
        # Never wait for the other end of a pipe, and never follow a link to a path outside.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        if most < 0:
            return f"{status.st_size} bytes of {status.st_mtime_ns}".encode()
        if status.st_size > most:
            return f"{status.st_size} bytes".encode()
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _outside(path: Path) -> tuple[object, ...]:
    """Return names, sizes and times of the existing files."""
    try:
        status = path.stat()
    except OSError:
        return ()
    if not stat.S_ISDIR(status.st_mode):
        return (status.st_size, status.st_mtime_ns)
    found: list[object] = []
    for folder, name in _walk(path):
        try:
            one = os.stat(os.path.join(folder, name), follow_symlinks=False)
        except OSError:
            continue
        found.append((os.path.relpath(os.path.join(folder, name), path), one.st_size, one.st_mtime_ns))
    return tuple(found)
