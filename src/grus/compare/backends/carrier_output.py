"""Parcels of a carrier, extracted from a log."""

import base64
import binascii
import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grus.compare import remote_bootstrap
from grus.compare.backends.staging import MOST_OUTPUT
from grus.compare.environments import OUTPUT, RECORD, CollectedFiles


@dataclass(frozen=True, slots=True)
class Parcel:
    """The end of a program, and the files that it left."""

    began: float
    """Start time by the node's clock."""
    code: int
    printed: str
    files: Mapping[str, str]

    def collected(self, run: str) -> CollectedFiles:
        """Return the record and output of the run with this folder, a path relative to the bundle."""
        return CollectedFiles(
            record=self.files.get(f"{run}/{RECORD}", ""),
            output=self.files.get(f"{run}/{OUTPUT}", "")[-MOST_OUTPUT:],
        )


def source() -> str:
    """The carrier, as it travels."""
    return Path(remote_bootstrap.__file__).read_text()


def task(folder: str, argv: Sequence[str], *, pieces: str = "", run: str = "") -> str:
    """Return the carrier's input; `run` is the folder, relative to `folder`, whose record is wanted."""
    files = [f"{run}/{RECORD}", f"{run}/{OUTPUT}"] if run else []
    return json.dumps({"folder": folder, "argv": list(argv), "pieces": pieces, "files": files})


def opened(log: str) -> Parcel | None:
    """The last whole parcel in a log; None where there is none."""
    head = f"{remote_bootstrap.MARK} BEGIN "
    _, found, rest = log.rpartition(head)
    lines = rest.splitlines() if found else []
    if f"{remote_bootstrap.MARK} END" not in lines:
        return None
    digest, body = lines[0].strip(), "".join(lines[1 : lines.index(f"{remote_bootstrap.MARK} END")])
    try:
        packed = base64.b64decode(body, validate=True)
        if hashlib.sha256(packed).hexdigest() != digest:
            return None
        return Parcel(**json.loads(gzip.decompress(packed)))
    except (binascii.Error, OSError, EOFError, zlib.error, ValueError, TypeError):
        return None
