"""Unpacking of a code bundle in a pod: its pieces are put together, checked and unpacked. Light.

A bundle's name is a hash of its content and the number of its pieces: "1f0c…-3".
"""

import gzip
import hashlib
import io
import os
import re
import tarfile
import zlib
from pathlib import Path

PREFIX = "bundle:"
"""Prefix of the bundle's name in a job's workdir."""
MOST_PACKED = 10 << 20
MOST_UNPACKED = 256 << 20
"""Bytes. What is larger belongs into an image or on a volume."""
_NAME = re.compile(r"([0-9a-f]{32})-([1-9][0-9]?)")


class InvalidArchive(Exception):
    """The bundle does not match its name, or is invalid."""


def parts(name: str) -> tuple[str, int]:
    """Hash and number of pieces of a bundle's name, which may have the prefix in front. Raises
    InvalidArchive."""
    found = _NAME.fullmatch(name.removeprefix(PREFIX))
    if found is None:
        raise InvalidArchive("it is no name of a bundle")
    return found[1], int(found[2])


def piece(number: int) -> str:
    """The name of the file that holds the piece."""
    return f"{number:02}"


def digest(archive: bytes) -> str:
    """Return the hash of the archive before compression: libraries compress differently."""
    return hashlib.sha256(archive).hexdigest()[:32]


def unpack(name: str, pieces: Path, target: Path) -> None:
    """Put the pieces in this folder together and unpack them into another. Repeatable. Raises
    InvalidArchive."""
    wanted, count = parts(name)
    archive = _archive(pieces, count)
    if digest(archive) != wanted:
        raise InvalidArchive("its content is not what its name says")
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            _extract(tar, os.path.realpath(target))
    except (tarfile.TarError, OSError) as error:
        raise InvalidArchive(f"it cannot be unpacked: {error}") from error
    _open_up(target)


def _extract(tar: tarfile.TarFile, root: str) -> None:
    """Files, folders and links within them only. Python's own filter does the same, but not before 3.11.4."""
    tar.extraction_filter = staticmethod(lambda member, _: member)  # newer ones require a filter
    for member in tar:
        folder = os.path.dirname(member.name)
        if not (member.isreg() or member.isdir() or member.issym()):
            raise tarfile.ExtractError(f"{member.name} is no file, folder or link")
        if _leaves(root, member.name) or (member.issym() and _leaves(root, folder, member.linkname)):
            raise tarfile.ExtractError(f"{member.name} leads outside")
        tar.extract(member, root)


def _leaves(root: str, *path: str) -> bool:
    """Return whether a path leads out of the root: as written, or over a link that was unpacked before."""
    place = os.path.realpath(os.path.join(root, *path))
    return place != root and not place.startswith(root + os.sep)


def _archive(pieces: Path, count: int) -> bytes:
    try:
        packed = b"".join((pieces / piece(number)).read_bytes() for number in range(count))
        if len(packed) > MOST_PACKED:
            raise InvalidArchive(f"it has more than {MOST_PACKED >> 20} MiB")
        with gzip.open(io.BytesIO(packed)) as stream:
            archive = stream.read(MOST_UNPACKED + 1)
    except FileNotFoundError as error:
        raise InvalidArchive(f"a piece is missing: {error.filename}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidArchive(f"it cannot be read: {error}") from error
    if len(archive) > MOST_UNPACKED:
        raise InvalidArchive(f"it has more than {MOST_UNPACKED >> 20} MiB when unpacked")
    return archive


def _open_up(target: Path) -> None:
    """Open the folder to any user that the worker runs as; no other user ever sees this folder."""
    for place, _, files in os.walk(target):
        if place != str(target):
            os.chmod(place, 0o777)  # noqa: S103 - see above
        for name in files:
            path = os.path.join(place, name)
            if not os.path.islink(path):
                os.chmod(path, 0o777 if os.stat(path).st_mode & 0o100 else 0o666)
