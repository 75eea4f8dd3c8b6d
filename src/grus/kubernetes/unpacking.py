"""A code bundle on its way into a pod: its pieces are put together, checked and unpacked. Light.

A bundle's name is a hash of what is in it and the number of its pieces: "1f0c…-3".
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
"""In front of the name where a job says its workdir."""
MOST_PACKED = 10 << 20
MOST_UNPACKED = 256 << 20
"""Bytes. What is larger belongs into an image or on a volume."""
_NAME = re.compile(r"([0-9a-f]{32})-([1-9][0-9]?)")


class Broken(Exception):
    """It is not what its name says, or does not make sense."""


def parts(name: str) -> tuple[str, int]:
    """Hash and number of pieces of a bundle's name, which may have the prefix in front. Raises Broken."""
    found = _NAME.fullmatch(name.removeprefix(PREFIX))
    if found is None:
        raise Broken("it is no name of a bundle")
    return found[1], int(found[2])


def piece(number: int) -> str:
    """The name of the file that holds the piece."""
    return f"{number:02}"


def digest(archive: bytes) -> str:
    """Of the archive before it was compressed: libraries compress differently."""
    return hashlib.sha256(archive).hexdigest()[:32]


def unpack(name: str, pieces: Path, target: Path) -> None:
    """Put the pieces in this folder together and unpack them into another. Repeatable. Raises Broken."""
    wanted, count = parts(name)
    archive = _archive(pieces, count)
    if digest(archive) != wanted:
        raise Broken("its content is not what its name says")
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            _extract(tar, os.path.realpath(target))
    except (tarfile.TarError, OSError) as error:
        raise Broken(f"it cannot be unpacked: {error}") from error
    _open_up(target)


def _extract(tar: tarfile.TarFile, root: str) -> None:
    """Files, folders and links within them only. Python's own filter does the same, but not before 3.11.4."""
    tar.extraction_filter = staticmethod(lambda member, _: member)  # newer ones ask for a filter
    for member in tar:
        folder = os.path.dirname(member.name)
        if not (member.isreg() or member.isdir() or member.issym()):
            raise tarfile.ExtractError(f"{member.name} is no file, folder or link")
        if _leaves(root, member.name) or (member.issym() and _leaves(root, folder, member.linkname)):
            raise tarfile.ExtractError(f"{member.name} leads outside")
        tar.extract(member, root)


def _leaves(root: str, *path: str) -> bool:
    """Whether it leads out of the root: as it is written, or over a link that was unpacked before."""
    place = os.path.realpath(os.path.join(root, *path))
    return place != root and not place.startswith(root + os.sep)


def _archive(pieces: Path, count: int) -> bytes:
    try:
        packed = b"".join((pieces / piece(number)).read_bytes() for number in range(count))
        if len(packed) > MOST_PACKED:
            raise Broken(f"it has more than {MOST_PACKED >> 20} MiB")
        with gzip.open(io.BytesIO(packed)) as stream:
            archive = stream.read(MOST_UNPACKED + 1)
    except FileNotFoundError as error:
        raise Broken(f"a piece is missing: {error.filename}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise Broken(f"it cannot be read: {error}") from error
    if len(archive) > MOST_UNPACKED:
        raise Broken(f"it has more than {MOST_UNPACKED >> 20} MiB when unpacked")
    return archive


def _open_up(target: Path) -> None:
    """For whichever user the worker runs as: nobody else ever sees this folder."""
    for place, _, files in os.walk(target):
        if place != str(target):
            os.chmod(place, 0o777)  # noqa: S103 - see above
        for name in files:
            path = os.path.join(place, name)
            if not os.path.islink(path):
                os.chmod(path, 0o777 if os.stat(path).st_mode & 0o100 else 0o666)
