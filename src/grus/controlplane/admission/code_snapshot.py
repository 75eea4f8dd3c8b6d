"""Copies of submitted code, so that a resume sees what was submitted. One folder each under the state folder.

What git ignores is left out if git is there and the folder is in a work tree; otherwise everything is taken.
Symbolic links are copied as links and never followed: a copy holds nothing from outside its folder.
"""

import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from grus.model.errors import BadInput, Mistake
from grus.model.identifiers import UserName
from grus.store.durable_files import make_folder, sync_folder

PIECE = 1 << 20
SYNCS = 16
"""Files brought to the disk at a time."""


def fingerprint(
    source: Path, limit: int, *, left_out: Callable[[Path], bool] = lambda _: False
) -> tuple[str, list[str]]:
    """A digest of names, modes and contents, and the names; raises BadInput if they are more than `limit`."""
    names = sorted(name for name in _names(source) if not left_out(source / name))
    _check_size(source, names, limit)
    digest = hashlib.sha256()
    for name in names:
        path = source / name
        mode = path.lstat().st_mode
        digest.update(f"{name}\0{stat.S_IMODE(mode) & 0o111}\0".encode())
        if stat.S_ISLNK(mode):
            digest.update(os.readlink(path).encode())
        else:
            for piece in _pieces(path):
                digest.update(piece)
        digest.update(b"\0")
    return digest.hexdigest(), names


def folder_name(user: UserName, key: str, content: str) -> str:
    """Return a folder name that is the same for a repeated request, so that the repetition returns the same
    job. No user's string becomes a path.
    """
    return hashlib.sha256(f"{user}\0{key}\0{content}".encode()).hexdigest()[:32]


def copy(source: Path, names: list[str], target: Path) -> None:
    """Copy these files; the target appears whole, and on the disk, or not at all."""
    if target.exists():
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    make_folder(partial)
    try:
        for name in names:
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, partial / name, follow_symlinks=False)
        _bring_to_disk(partial)
        partial.rename(target)
        sync_folder(target.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _bring_to_disk(folder: Path) -> None:
    """Sync many files at a time: a disk does many syncs in the time of one."""
    paths = [folder, *(path for path in folder.rglob("*") if not path.is_symlink())]
    with ThreadPoolExecutor(SYNCS) as pool:
        for _ in pool.map(_sync, paths):
            pass


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_size(source: Path, names: list[str], limit: int) -> None:
    total = sum((source / name).lstat().st_size for name in names)
    if total > limit:
        rule = (
            f"the folder has {total / 2**20:.0f} MiB that git does not ignore, and {limit / 2**20:.0f} MiB"
            " are allowed; add data and results to .gitignore, or set snapshot: false"
        )
        raise BadInput([Mistake("snapshot", rule, str(source))])


def _names(source: Path) -> list[str]:
    if not source.is_dir():
        raise BadInput([Mistake("workdir", "must be a folder on the server", str(source))])
    listed = _git_names(source)
    found = listed if listed is not None else list(_all_names(source))
    return [name for name in found if _is_file(source / name)]


def _git_names(source: Path) -> list[str] | None:
    """Return the files that git would list, relative to the folder; None without git or a work tree."""
    # A file-system monitor named by the folder's own configuration would run another person's program.
    command = [
        "git",
        "-C",
        str(source),
        "-c",
        "core.fsmonitor=false",
        "ls-files",
        "-coz",
        "--exclude-standard",
        "--deduplicate",
    ]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]


def _all_names(source: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(source, followlinks=False):
        for name in folders + files:  # a link to a folder counts as a folder here, and is copied as a link
            yield os.path.relpath(os.path.join(folder, name), source)


def _is_file(path: Path) -> bool:
    """Files and links; a name that git lists but that was deleted, a socket or a pipe is nothing to copy."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece
