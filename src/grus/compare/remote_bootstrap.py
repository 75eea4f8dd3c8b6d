"""The carrier: one file that brings a run home when only standard output is shared.

    python3 carrier.py TASK

TASK is a JSON file: `pieces` (a folder with the bundle's archive in parts; empty if the bundle is there),
`folder` (the bundle's location, or the target to unpack it to), `argv` (the command to run in it), `files`
(paths from the folder whose last bytes are returned). When the program has ended, and also after a request to
end, one parcel is printed: between two lines with MARK, a JSON object in gzip and base64, with its digest. So
any channel that shows a program's output can bring a run home. Standard library only; also runs on older
Pythons.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from typing import Any

MARK = "GRUS-PARCEL"
LINE = 1000
"""Characters of a line: some logs cut longer ones."""
MOST = 6 << 20
"""Bytes of a file that are brought home, from both its ends: kubelets keep no more than 10 MB of a log."""
MOST_PRINTED = 64 << 10


def unpack(pieces: str, folder: str) -> None:
    """The bundle, from its parts in the order of their names."""
    packed = b""
    for name in sorted(name for name in os.listdir(pieces) if not name.startswith(".")):
        with open(os.path.join(pieces, name), "rb") as file:
            packed += file.read()
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(packed))) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(folder, filter="data")
        else:  # it is our own archive, from the comparison that started this
            archive.extractall(folder)  # noqa: S202 - see above


def ends_of(path: str, most: int) -> str:
    """A file's text; of a large one the first line and the last bytes, whole lines."""
    try:
        with open(path, "rb") as file:
            first = file.readline(most)
            size = os.fstat(file.fileno()).st_size
            if size <= most:
                return (first + file.read()).decode(errors="replace")
            file.seek(size - most)
            return (first + file.read().partition(b"\n")[2]).decode(errors="replace")
    except OSError:
        return ""


def run(argv: list[str], folder: str) -> tuple[int, str]:
    """Exit code, and the last of what it printed. A request to end is passed on, and its end waited for."""
    printed = os.path.join(folder, ".printed")
    with open(printed, "wb") as file:
        try:
            child = subprocess.Popen(
                argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
            )
        except OSError as why:
            return 127, str(why)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: child.terminate())
        code = child.wait()
    return code, ends_of(printed, MOST_PRINTED)


def parcel(content: dict[str, Any]) -> str:
    packed = gzip.compress(json.dumps(content).encode(), 6)
    text = base64.b64encode(packed).decode()
    lines = [text[start : start + LINE] for start in range(0, len(text), LINE)]
    head = f"{MARK} BEGIN {hashlib.sha256(packed).hexdigest()}"
    return "\n".join(["", head, *lines, f"{MARK} END", ""])


def main() -> int:
    began = time.time()
    with open(sys.argv[1]) as file:
        task = json.load(file)
    folder = task["folder"]
    os.makedirs(folder, exist_ok=True)
    if task["pieces"]:
        unpack(task["pieces"], folder)
    code, printed = run(task["argv"], folder)
    files = {name: ends_of(os.path.join(folder, name), MOST) for name in task["files"]}
    sys.stdout.write(parcel({"began": began, "code": code, "printed": printed, "files": files}))
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
