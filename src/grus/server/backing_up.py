"""Back-ups: a folder with what a state needs to go on elsewhere or later, made while its server runs.

    grus.db         the record of one moment: jobs, log, queues, users, digests of tokens, results
    config.toml     the settings, if there are any
    backup.json     what is in it, and the SHA-256 of the other files
    artefacts/      what jobs left behind, if that was asked for

Not in it: logs of jobs, copies of code, telemetry, and secrets (the token file, the key of browsers'
sessions, the store of secrets).
"""

import glob
import hashlib
import json
import os
import shutil
import socket
import stat
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import grus
from grus.artefacts.manifest import is_digest
from grus.artefacts.vault import CHUNKS, MANIFESTS, Vault
from grus.model.errors import BadInput, Mistake, NotFound, StoreFailed
from grus.sdk.places import Places
from grus.server.record import DATABASE, require
from grus.store import copying
from grus.store.on_disk import make_folder, sync_folder

SETTINGS, CONTENTS, ARTEFACTS = "config.toml", "backup.json", "artefacts"
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class BackUp:
    """What a back-up says of itself."""

    grus: str
    """The version that made it."""
    at: float
    schema: int
    epoch: int
    jobs: int
    last_event: int
    files: dict[str, str]
    """SHA-256 of each, by name; artefacts have their own."""
    artefacts: bool = False
    damaged: int = 0
    """Chunks and manifests of artefacts that were damaged already, and are not in it."""


def back_up(at: Places, target: Path, now: float, *, artefacts: bool = False) -> BackUp:
    """Make the folder `target`, which appears whole or not at all. Raises GrusError.

    A folder that is there and empty (a mount point, the current one) is filled; `backup.json` comes last, and
    without it nothing in there counts.
    """
    database = at.state / DATABASE
    require(at.state)
    if not database.is_file():
        raise NotFound(f"there is no state in {at.state}; nothing was ever stored there")
    try:
        there = target.exists()
        beside = target if there else target.parent
        for folder in {beside, target.parent}:
            _remove_partials(folder, target.name)
        if there and not _is_empty(target):
            rule = "must not exist, or be an empty folder; take a name of its own for each back-up"
            raise BadInput([Mistake("target", rule, str(target))])
        make_folder(beside, 0o777)
        return _make(at, beside / _partial(target.name, os.getpid()), target, now, artefacts)
    except OSError as error:
        raise StoreFailed(f"could not write {target}: {error}") from error


def _make(at: Places, partial: Path, target: Path, now: float, artefacts: bool) -> BackUp:
    partial.mkdir(mode=0o700)
    try:
        made = _fill(at, partial, now, artefacts)
        if partial.parent == target:
            for entry in sorted(partial.iterdir(), key=lambda entry: entry.name == CONTENTS):
                entry.rename(target / entry.name)
        else:
            partial.rename(target)
        sync_folder(partial.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return made


def _partial(name: str, pid: int | str) -> str:
    """What a back-up is called while this process makes it."""
    return f".{name}.grus-{socket.gethostname()}-{pid}"


def _remove_partials(folder: Path, name: str) -> None:
    """Remove what processes left behind that were killed while they made a back-up of this name."""
    for entry in folder.glob(_partial(glob.escape(name), "*")):
        pid = entry.name.rpartition("-")[2]
        # One with this process's own number is of an earlier one, too: it has not begun yet.
        if pid.isdecimal() and (int(pid) == os.getpid() or not _lives(int(pid))):
            shutil.rmtree(entry, ignore_errors=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # somebody else's
    except (ProcessLookupError, OverflowError):
        return False
    return True


def _fill(at: Places, folder: Path, now: float, artefacts: bool) -> BackUp:
    copied = copying.copy(at.state / DATABASE, folder / DATABASE)
    if at.config_file.is_file():
        shutil.copyfile(at.config_file, folder / SETTINGS)
    damaged = 0
    if artefacts and (at.state / ARTEFACTS).is_dir():
        # After the record: what it names was kept before it was named, and stays for weeks.
        damaged = copy_vaults(at.state / ARTEFACTS, folder / ARTEFACTS)
    files = {name: _sha256(folder / name) for name in (DATABASE, SETTINGS) if (folder / name).exists()}
    made = BackUp(
        grus=grus.__version__,
        at=now,
        schema=copied.schema,
        epoch=copied.epoch,
        jobs=copied.jobs,
        last_event=copied.last_event,
        files=files,
        artefacts=artefacts,
        damaged=damaged,
    )
    (folder / CONTENTS).write_text(json.dumps(asdict(made), indent=2) + "\n")
    for path in (folder / name for name in (*files, CONTENTS)):
        path.chmod(0o600)  # a folder that was there may be open to others
        _sync(path)
    sync_folder(folder)
    return made


# ---------------------------------------------------------------------------------------------- artefacts


def copy_vaults(source: Path, target: Path) -> int:
    """Chunks and manifests of all vaults, with their owners; on disk when this returns.

    What is there already stays, if it is what its name says. What is damaged in the source is left out; how
    many of them there were.
    """
    _make_like(source, target)
    damaged = 0
    for vault in sorted(path for path in source.iterdir() if path.is_dir() and not path.is_symlink()):
        _make_like(vault, target / vault.name)
        for kind in (CHUNKS, MANIFESTS):
            damaged += _copy_kind(Vault(vault), Vault(target / vault.name), kind)
        sync_folder(target / vault.name)
    sync_folder(target)
    sync_folder(target.parent)
    return damaged


def _copy_kind(source: Vault, target: Vault, kind: str) -> int:
    """All chunks, or manifests; how many were damaged."""
    damaged = 0
    if not (source.root / kind).is_dir():
        return 0
    _make_like(source.root / kind, target.root / kind)
    for shard in sorted((source.root / kind).glob("??")):
        folder = target.root / kind / shard.name
        _make_like(shard, folder)
        for file in sorted(shard.iterdir()):
            digest = shard.name + file.name
            if not is_digest(digest) or target.sound(kind, digest) is not None:
                continue
            try:
                model = file.lstat()  # before it is read: it may be thrown out at any moment
            except FileNotFoundError:
                continue
            if (content := source.sound(kind, digest)) is not None:
                _write(folder / file.name, content, model)
            elif file.exists():  # else thrown out meanwhile
                damaged += 1
        sync_folder(folder)
    sync_folder(target.root / kind)
    return damaged


def _make_like(model: Path, folder: Path) -> None:
    if not folder.exists():
        folder.mkdir(mode=0o700)
        _same_owner(model.lstat(), folder)


def _write(place: Path, content: bytes, model: os.stat_result) -> None:
    """The file appears whole, and on disk, with the owner, rights and times of its model."""
    partial = place.with_name(f".{place.name}")
    partial.unlink(missing_ok=True)  # of a process that died here
    with partial.open("xb") as file:
        file.write(content)
        file.flush()
        _same_owner(model, partial)
        os.chmod(partial, stat.S_IMODE(model.st_mode))
        os.utime(partial, ns=(model.st_atime_ns, model.st_mtime_ns))
        os.fsync(file.fileno())
    partial.replace(place)


def _same_owner(model: os.stat_result, made: Path) -> None:
    if os.geteuid() == 0:
        os.chown(made, model.st_uid, model.st_gid, follow_symlinks=False)


def contents(source: Path) -> BackUp | None:
    """What a back-up says of itself; None for a copy of the file alone. Raises as `database_in`."""
    database = database_in(source)
    if database == source:
        return None
    told = json.loads((source / CONTENTS).read_text())
    known = {field.name for field in fields(BackUp)}
    try:
        return BackUp(**{name: value for name, value in told.items() if name in known})
    except TypeError:
        raise _not_whole(source) from None


def _not_whole(source: Path) -> StoreFailed:
    return StoreFailed(f"{source / CONTENTS} is missing or cannot be read: the back-up is not whole")


def database_in(source: Path) -> Path:
    """The record in a back-up: a folder made by `back_up`, or a copy of the file alone.

    Raises NotFound, and StoreFailed if a file is not what it was when the back-up was made.
    """
    if source.is_file():
        return source
    if not (source / DATABASE).is_file():
        raise NotFound(f"there is no back-up in {source}")
    try:
        told = json.loads((source / CONTENTS).read_text())
        files = {str(name): str(digest) for name, digest in told["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise _not_whole(source) from None
    for name, digest in files.items():
        if name not in (DATABASE, SETTINGS) or _sha256(source / name) != digest:
            raise StoreFailed(
                f"{source / name} is not what was backed up: it has changed since, or is damaged"
            )
    return source / DATABASE


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _sha256(file: Path) -> str:
    try:
        digest = hashlib.sha256()
        with file.open("rb") as opened:
            while piece := opened.read(_PIECE):
                digest.update(piece)
        return digest.hexdigest()
    except OSError as error:
        raise StoreFailed(f"{file} cannot be read: {error}") from error


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
