"""Code bundles: a folder of code, packed under a content-addressed name, and kept in the cluster.

A bundle is an archive in pieces of at most 900 KB, each an immutable ConfigMap beside the jobs that use it.
The jobs own the pieces: with the last job the cluster removes the bundle. The same folder makes the same
bundle, for any user at any time, so a second job finds it there.
"""

import base64
import gzip
import io
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from grus.kubernetes.bundle.unpacking import MOST_PACKED, MOST_UNPACKED, digest, parts, piece
from grus.kubernetes.bundle.unpacking import PREFIX as REFERENCE
from grus.kubernetes.client.api import Api
from grus.kubernetes.client.errors import Exists, Missing
from grus.kubernetes.client.resource_kinds import CONFIG_MAPS, Object
from grus.kubernetes.names import BUNDLE_VOLUME, PREFIX
from grus.model.errors import BadInput, Mistake, NotFound

CODE = f"{PREFIX}code"
"""Label of a bundle's ConfigMaps: the hash."""
PIECE = 900_000
"""Bytes of the archive in one ConfigMap, which may have 1 MiB."""
KEY = "piece"
IGNORED = (
    ".git",
    ".hg",
    ".svn",
    "__pycache__",
    ".venv",
    "venv",
    "node_modules",
    ".mypy_cache",
    ".pytest_cache",
)
IGNORE_FILE = ".grusignore"
"""One pattern a line: names, or paths from the folder, that are left out."""


@dataclass(frozen=True, slots=True)
class Bundle:
    name: str
    """Hash and number of pieces."""
    pieces: tuple[bytes, ...]

    @property
    def reference(self) -> str:
        """Return the reference that a job gives as its workdir."""
        return REFERENCE + self.name


# ------------------------------------------------------------------------------------------------- packing


def pack(folder: Path, *, everything: bool = False) -> Bundle:
    """The folder as a bundle, or `everything` in it. Raises BadInput, which names what is too large or leads
    out of it."""
    names = list(_names(folder, () if everything else _patterns(folder)))
    _check(folder, names)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in names:
            _add(tar, folder, name)
    packed = gzip.compress(archive.getvalue(), compresslevel=6, mtime=0)
    if len(packed) > MOST_PACKED:
        raise _too_large(folder, names, f"{len(packed) / 1e6:.0f} MB packed", MOST_PACKED)
    pieces = tuple(packed[start : start + PIECE] for start in range(0, len(packed), PIECE))
    return Bundle(f"{digest(archive.getvalue())}-{len(pieces)}", pieces)


def _names(folder: Path, ignored: Sequence[str], below: str = "") -> Iterator[str]:
    """Everything that goes in, as paths from the folder, always in the same order."""
    for entry in sorted(os.scandir(folder / below), key=lambda one: one.name):
        name = f"{below}/{entry.name}" if below else entry.name
        if any(fnmatch(entry.name, one) or fnmatch(name, one) for one in ignored):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield name
            yield from _names(folder, ignored, name)
        elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
            yield name  # sockets, pipes and devices are not code


def _patterns(folder: Path) -> Sequence[str]:
    try:
        lines = (folder / IGNORE_FILE).read_text().splitlines()
    except FileNotFoundError:
        lines = []
    own = (line.strip().rstrip("/") for line in lines)
    return (*IGNORED, *(line for line in own if line and not line.startswith("#")))


def _check(folder: Path, names: Sequence[str]) -> None:
    """Check sizes before any file is read: reading a folder of data sets would take long."""
    total = sum(_size(folder, name) for name in names)
    if total > MOST_UNPACKED:
        raise _too_large(folder, names, f"{total / 1e6:.0f} MB", MOST_UNPACKED)
    top = folder.resolve()
    out = [
        name
        for name in names
        if (folder / name).is_symlink()
        and (os.path.isabs(os.readlink(folder / name)) or not (folder / name).resolve().is_relative_to(top))
    ]
    if out:
        rule = f"is a link that leads out of the folder; copy it, or leave it out by {IGNORE_FILE}"
        raise BadInput([Mistake(f"workdir: {name}", rule) for name in out])


def _too_large(folder: Path, names: Sequence[str], found: str, most: int) -> BadInput:
    largest = sorted(names, key=lambda name: _size(folder, name), reverse=True)[:3]
    shown = ", ".join(f"{name} ({_size(folder, name) / 1e6:.1f} MB)" for name in largest)
    rule = (
        f"may have {most >> 20} MiB; leave things out by {IGNORE_FILE}, or put them into the image or on a "
        f"volume. The largest: {shown}"
    )
    return BadInput([Mistake("workdir", rule, found)])


def _size(folder: Path, name: str) -> int:
    found = os.lstat(folder / name)
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _add(tar: tarfile.TarFile, folder: Path, name: str) -> None:
    """Add a file without data that differs between copies of the folder: times, owners, most of the mode."""
    entry = tar.gettarinfo(folder / name, arcname=name)
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    if entry.islnk():  # two names of one file: each gets the content, since the order depends on the disk
        entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", os.stat(folder / name).st_size
    if entry.isreg():
        with open(folder / name, "rb") as file:
            tar.addfile(entry, file)
    else:
        tar.addfile(entry)


# ---------------------------------------------------------------------------------------------- in a cluster


def config_maps(bundle: Bundle) -> list[Object]:
    hash_, _ = parts(bundle.name)
    return [
        {
            "metadata": {"name": map_name(bundle.name, number), "labels": {CODE: hash_}},
            "immutable": True,
            "binaryData": {KEY: base64.b64encode(content).decode()},
        }
        for number, content in enumerate(bundle.pieces)
    ]


def map_name(name: str, number: int) -> str:
    return f"grus-code-{name.removeprefix(REFERENCE)}-{number}"


def volume(reference: str) -> Object:
    """The volume of a pod that brings the pieces to its init container. Raises Broken."""
    _, count = parts(reference)
    sources = [
        {"configMap": {"name": map_name(reference, number), "items": [{"key": KEY, "path": piece(number)}]}}
        for number in range(count)
    ]
    return {"name": BUNDLE_VOLUME, "projected": {"sources": sources}}


def publish(api: Api, namespace: str, bundle: Bundle) -> str:
    """Publish the bundle in a namespace, unless it is there; return the workdir for a job."""
    for one in config_maps(bundle):
        try:
            api.create(CONFIG_MAPS, one, namespace)
        except Exists:
            continue
    return bundle.reference


def adopt(api: Api, namespace: str, reference: str, owner: Object) -> None:
    """Keep the bundle as long as this owner (`apiVersion`, `kind`, `name`, `uid`). Repeatable.

    Raises NotFound, with the fix, if a piece is missing.
    """
    _, count = parts(reference)
    patch = {"metadata": {"ownerReferences": [owner]}}  # merged by uid: other owners stay
    for number in range(count):
        try:
            api.patch(CONFIG_MAPS, map_name(reference, number), patch, namespace, how="strategic")
        except Missing as error:
            raise NotFound(
                f"the code {reference} is not (or no longer) in namespace {namespace}: submit again"
            ) from error
