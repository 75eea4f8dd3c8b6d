"""Scan of a file or folder that is to be stored: names, kinds and sizes, without following a link."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from grus.artifacts.manifest import FILE, FOLDER, LINK, ManifestEntry, leads_inside
from grus.model.errors import BadInput, Mistake

MOST_ENTRIES = 2_000_000
MOST_TOLD = 10
"""Maximum number of errors in words; the sentence has to fit into a worker's report."""


def scan(path: Path) -> tuple[bool, tuple[ManifestEntry, ...]]:
    """Return whether it is a single file, and its entries in the order of their paths.

    Raises FileNotFoundError for a missing path, BadInput with the errors of files that cannot be stored.
    """
    status = path.stat()  # the output itself may be a link: its target is stored
    if stat.S_ISREG(status.st_mode):
        return True, (_file(path.name, status),)
    if not stat.S_ISDIR(status.st_mode):
        raise BadInput([Mistake(path.name, "is neither a file nor a folder")])
    entries: list[ManifestEntry] = []
    mistakes: list[Mistake] = []
    for relative, found in _walk(str(path), ""):
        try:
            entries.append(_entry(relative, found))
        except ValueError as error:
            mistakes.append(Mistake(relative, str(error)))
        if len(entries) > MOST_ENTRIES:
            raise BadInput([Mistake(path.name, f"has more than {MOST_ENTRIES:,} files: pack them together")])
    if len(mistakes) > MOST_TOLD:
        more = f"has {len(mistakes) - MOST_TOLD:,} more that cannot be kept"
        raise BadInput([*mistakes[:MOST_TOLD], Mistake(path.name, more)])
    if mistakes:
        raise BadInput(mistakes)
    return False, tuple(sorted(entries, key=lambda entry: entry.path))


def _walk(top: str, below: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    folders = [below]
    while folders:
        at = folders.pop()
        with os.scandir(os.path.join(top, at)) as listed:
            for one in listed:
                relative = f"{at}/{one.name}" if at else one.name
                yield relative, one
                if one.is_dir(follow_symlinks=False):
                    folders.append(relative)


def _entry(relative: str, found: os.DirEntry[str]) -> ManifestEntry:
    status = found.stat(follow_symlinks=False)
    if stat.S_ISREG(status.st_mode):
        return _file(relative, status)
    if stat.S_ISDIR(status.st_mode):
        return ManifestEntry(FOLDER, relative)
    if not stat.S_ISLNK(status.st_mode):
        raise ValueError("is no file, folder or link (a socket, a pipe or a device), and cannot be kept")
    target = os.readlink(found.path)
    if not leads_inside(relative, target):
        raise ValueError(f"is a link to outside the output ({target}): copy what it leads to")
    return ManifestEntry(LINK, relative, target=target)


def _file(relative: str, status: os.stat_result) -> ManifestEntry:
    return ManifestEntry(FILE, relative, status.st_size, bool(status.st_mode & stat.S_IXUSR))
