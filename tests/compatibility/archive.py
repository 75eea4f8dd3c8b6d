"""Relocatable archives of a state folder or a backup: paths of the machine become placeholders, SQLite files
become SQL text.

`pack` refuses to write an archive that still holds a path or a host name; `unpack` puts the new folder in.
"""

import hashlib
import io
import json
import os
import re
import socket
import sqlite3
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from grus.engines.local import processes

ROOT = "@ROOT@"
"""Stands for the folder that the archive is unpacked into."""
PYTHON, SOURCE = "@PYTHON@", "@SOURCE@"
"""Stand for the environment and the source tree that run the tests."""
TREE = Path(__file__).resolve().parents[2]
BOOT = "@BOOT@"
"""Stays: no process of a fixture lives, on any machine."""
SQL = ".sql"
BACKUP = "backup.json"
HOST = b"machine"
"""In place of the name of the machine that the fixture was made on."""
_HOST = re.compile(rb"(?<![\w.-])" + re.escape(socket.gethostname().encode()) + rb"(?![\w.-])")
_FOLDERS = re.compile(rb"(?<![\w@.])/(?:tmp|work|home|root|Users)\b[^\s\"']*")


def pack(folder: Path, archive: Path, *, leave_out: tuple[str, ...] = ()) -> None:
    """Write `archive`; names in `leave_out` are skipped wherever they are. Raises ValueError as above."""
    words = {str(folder): ROOT, processes.boot_id(): BOOT} | {path: name for name, path in _here().items()}
    with tarfile.open(archive, "w:xz") as tar:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if set(name.parts) & set(leave_out) or path.is_symlink() or not (path.is_dir() or path.is_file()):
                continue
            _add(tar, path, str(name), words)


def unpack(archive: Path, folder: Path) -> None:
    """The state as it was, in this folder; nobody owns it but the caller."""
    folder.mkdir(parents=True, exist_ok=True)
    words = {ROOT: str(folder), **_here()}
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "tar_filter"):  # Python 3.11.4 and newer
            tar.extractall(folder, filter="tar")  # which keeps the modes of folders
        else:
            tar.extractall(folder)
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        _fill(path, words)
    for told in folder.rglob(BACKUP):
        _digests(told)


def texts(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The name and the bytes of every file, as they are stored."""
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member)
            yield member.name, file.read() if file else b""


def _here() -> dict[str, str]:
    return {PYTHON: sys.prefix, SOURCE: str(TREE)}


def _add(tar: tarfile.TarFile, path: Path, name: str, words: Mapping[str, str]) -> None:
    content = b""
    if path.is_file():
        content = path.read_bytes()
        if content.startswith(b"SQLite format 3\0"):
            content, name = dumped(path), name + SQL
        content = _HOST.sub(HOST, _replaced(content, words))
        refuse(content, name)
    info = tar.gettarinfo(path, name)
    info.size = len(content)
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    tar.addfile(info, io.BytesIO(content) if path.is_file() else None)


def dumped(database: Path) -> bytes:
    """All that the file holds, as statements, with its version."""
    with closing(sqlite3.connect(database)) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        lines = [*connection.iterdump(), f"PRAGMA user_version = {version};"]
    return "\n".join(lines).encode()


def _replaced(content: bytes, words: Mapping[str, str]) -> bytes:
    for before, after in sorted(words.items(), key=lambda one: -len(one[0])):
        content = content.replace(before.encode(), after.encode())
    return content


def folders(content: bytes) -> list[str]:
    """Paths in there that only one machine can have."""
    return [one.decode() for one in _FOLDERS.findall(content)]


def refuse(content: bytes, name: str) -> None:
    """Raise ValueError if the content says anything of the machine that it was made on."""
    words = [word for word in (str(TREE), sys.prefix, processes.boot_id()) if word != "/usr"]
    found = [word for word in words if word.encode() in content] + folders(content)
    if found or _HOST.search(content):
        found = found or [socket.gethostname()]
        raise ValueError(f"{name} holds {found}; replace them by placeholders, or leave the file out")


def _fill(path: Path, words: Mapping[str, str]) -> None:
    before = path.read_bytes()
    content = _replaced(before, words)
    if path.suffix == SQL:
        _build(path.with_suffix(""), content.decode())
        path.unlink()
    elif content != before:
        times = path.stat()
        path.write_bytes(content)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _build(database: Path, statements: str) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript(statements)
        connection.execute("PRAGMA journal_mode = WAL")
    database.chmod(0o600)


def _digests(told: Path) -> None:
    """Those of the files as they are here."""
    content = json.loads(told.read_text())
    for name in content["files"]:
        content["files"][name] = hashlib.sha256((told.parent / name).read_bytes()).hexdigest()
    told.write_text(json.dumps(content))
