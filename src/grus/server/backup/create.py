"""Backups: a folder with everything that a state needs to continue elsewhere or later, made while its server
runs.

    grus.db         the record of one moment: jobs, log, queues, users, digests of tokens, results
    config.toml     the settings, if there are any
    backup.json     the list of contents, and the SHA-256 of the other files
    artefacts/      artifacts of jobs, if requested
    logs/           logs of jobs, if requested

Not in it: copies of code, telemetry, and secrets (the token file, the key of browsers' sessions, the store of
secrets, files that config.toml names). Secrets that stand in config.toml itself are in it (`inline_secrets`).
"""

import glob
import hashlib
import json
import os
import shutil
import socket
import stat
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import grus
from grus.artifacts.artifact_store import CHUNKS, MANIFESTS, ArtifactStore
from grus.artifacts.manifest import is_digest
from grus.controlplane.settings import LAST_BACKUP
from grus.engines.local import state_files
from grus.model.errors import BadInput, Mistake, NotFound, StoreFailed
from grus.sdk.bounded_read import LARGEST_SETTINGS, read_text
from grus.sdk.state_paths import GrusPaths
from grus.server.backup.rotation import CONTENTS, backups_in
from grus.server.runtime.device_inventory import remembered
from grus.server.runtime.state_check import DATABASE, require
from grus.store import sqlite_backup
from grus.store.durable_files import make_folder, sync_folder

SETTINGS, ARTEFACTS, LOGS = "config.toml", "artefacts", "logs"
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup's own list of contents."""

    grus: str
    """The version that made it."""
    at: float
    schema: int
    epoch: int
    jobs: int
    last_event: int
    files: dict[str, str]
    """SHA-256 of each, by name; artifacts have their own."""
    artefacts: bool = False
    damaged: int = 0
    """Number of chunks and manifests of artifacts that were damaged already, and are not in it."""
    logs: bool = False
    pool: str = ""
    """The pool of the last start: `nvml`, or the shape of a virtual one; "" if none was written down."""


def inline_secrets(folder: Path) -> tuple[str, ...]:
    """Return the settings of a backup's config.toml that hold a secret themselves, not the name of a file."""
    try:
        found = tomllib.loads(read_text(folder / SETTINGS, LARGEST_SETTINGS))
    except (OSError, ValueError, BadInput):  # a damaged file names none
        return ()
    named: list[str] = []
    for place, table, key in _places_of_secrets(found):
        if isinstance(table, dict) and table.get(key):
            named.append(f"{place}.{key}")
    return tuple(named)


def _places_of_secrets(config: dict[str, object]) -> Iterator[tuple[str, object, str]]:
    notifications = config.get("notifications")
    told = notifications if isinstance(notifications, dict) else {}
    hooks = told.get("webhook")
    for number, hook in enumerate(hooks if isinstance(hooks, list) else ()):
        yield f"notifications.webhook[{number}]", hook, "secret"
    yield "notifications.email", told.get("email"), "password"
    yield "client", config.get("client"), "token"


def back_up(
    at: GrusPaths, target: Path, now: float, *, artefacts: bool = False, logs: bool = False
) -> Backup:
    """Make the folder `target`, which appears whole or not at all. Raises GrusError.

    A folder that is there and empty (a mount point, the current one) is filled; `backup.json` comes last, and
    without it nothing in there counts.
    """
    database = at.state / DATABASE
    require_outside(at, target, "target")
    require(at.state)
    if not database.is_file():
        raise NotFound(f"there is no state in {at.state}; nothing was ever stored there")
    try:
        there = target.exists()
        beside = target if there else target.parent
        for folder in {beside, target.parent}:
            _remove_partials(folder, target.name)
        if there and not _is_empty(target):
            rule = "must not exist, or be an empty folder; take a name of its own for each backup"
            raise BadInput([Mistake("target", rule, str(target))])
        make_folder(beside, 0o777)
        made = _make(at, beside / _partial(target.name, os.getpid()), target, now, artefacts, logs)
        _note_time(at.state / LAST_BACKUP, now)
        return made
    except OSError as error:
        raise StoreFailed(f"could not write {target}: {error}") from error


def require_outside(at: GrusPaths, target: Path, name: str) -> None:
    """Raise BadInput for a folder inside the state: a loss of the state would take the backup along."""
    if target.resolve().is_relative_to(at.state.resolve()):
        rule = f"lies inside the state {at.state}, and would be lost with it; choose a folder outside"
        raise BadInput([Mistake(name, rule, str(target))])


def _make(at: GrusPaths, partial: Path, target: Path, now: float, artefacts: bool, logs: bool) -> Backup:
    partial.mkdir(mode=0o700)
    try:
        made = _fill(at, partial, now, artefacts, logs)
        if partial.parent == target:
            for entry in sorted(partial.iterdir(), key=lambda entry: entry.name == CONTENTS):
                entry.rename(target / entry.name)
        else:
            partial.rename(target)
        sync_folder(partial.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return made


def _note_time(file: Path, now: float) -> None:
    """Record the time for the server's metric; a state that cannot be written is backed up all the same."""
    with suppress(OSError):
        file.touch(mode=0o600)
        os.utime(file, (now, now))


def _partial(name: str, pid: int | str) -> str:
    """Return the name of a backup while this process makes it."""
    return f".{name}.grus-{socket.gethostname()}-{pid}"


def _remove_partials(folder: Path, name: str) -> None:
    """Remove partial backups of this name, left by processes that were killed."""
    for entry in folder.glob(_partial(glob.escape(name), "*")):
        pid = entry.name.rpartition("-")[2]
        # One with this process's own id is of an earlier process, too: this one has not started yet.
        if pid.isdecimal() and (int(pid) == os.getpid() or not _lives(int(pid))):
            shutil.rmtree(entry, ignore_errors=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # of another user
    except (ProcessLookupError, OverflowError):
        return False
    return True


def _fill(at: GrusPaths, folder: Path, now: float, artefacts: bool, logs: bool) -> Backup:
    copied = sqlite_backup.copy(at.state / DATABASE, folder / DATABASE)
    if at.config_file.is_file():
        shutil.copyfile(at.config_file, folder / SETTINGS)
    damaged = 0
    if artefacts and (at.state / ARTEFACTS).is_dir():
        # After the record: what it names was kept before it was named, and stays for weeks.
        damaged = copy_vaults(at.state / ARTEFACTS, folder / ARTEFACTS)
    if logs:
        copy_logs(at.state / "engine" / state_files.LOGS, folder / LOGS)
    files = {name: _sha256(folder / name) for name in (DATABASE, SETTINGS) if (folder / name).exists()}
    made = Backup(
        grus=grus.__version__,
        at=now,
        schema=copied.schema,
        epoch=copied.epoch,
        jobs=copied.jobs,
        last_event=copied.last_event,
        files=files,
        artefacts=artefacts,
        damaged=damaged,
        logs=logs,
        pool=remembered(at.state),
    )
    (folder / CONTENTS).write_text(json.dumps(asdict(made), indent=2) + "\n")
    for path in (folder / name for name in (*files, CONTENTS)):
        path.chmod(0o600)  # a folder that was there may be open to others
        _sync(path)
    sync_folder(folder)
    return made


# ---------------------------------------------------------------------------------------------- artefacts


def copy_vaults(source: Path, target: Path) -> int:
    """Copy chunks and manifests of all artifact stores, with their owners; on disk when this returns.

    Existing files stay, if their content matches their name. Damaged ones in the source are left out; return
    their number.
    """
    _make_like(source, target)
    damaged = 0
    for vault in sorted(path for path in source.iterdir() if path.is_dir() and not path.is_symlink()):
        _make_like(vault, target / vault.name)
        for kind in (CHUNKS, MANIFESTS):
            damaged += _copy_kind(ArtifactStore(vault), ArtifactStore(target / vault.name), kind)
        sync_folder(target / vault.name)
    sync_folder(target)
    sync_folder(target.parent)
    return damaged


def _copy_kind(source: ArtifactStore, target: ArtifactStore, kind: str) -> int:
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


# --------------------------------------------------------------------------------------------------- logs


def copy_logs(source: Path, target: Path) -> int:
    """Copy the logs of all jobs, with their owners; how many files. What `target` has already stays.

    Jobs may write meanwhile: a file is copied as long as it is now. Links and what is no file are left out.
    """
    copied = 0
    for job in _folders(source):
        for worker in _folders(job):
            place = target / job.name / worker.name
            for segment in sorted(worker.iterdir()):
                if not segment.name.isdecimal() or (place / segment.name).exists():
                    continue
                if (found := _read_file(segment)) is not None:
                    for model, folder in ((source, target), (job, place.parent), (worker, place)):
                        _make_like(model, folder)
                    _write(place / segment.name, *found)
                    copied += 1
            if place.exists():
                sync_folder(place)
    return copied


def _folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(
        path
        for path in folder.iterdir()
        if state_files.safe_name(path.name) and path.is_dir() and not path.is_symlink()
    )


def _read_file(path: Path) -> tuple[bytes, os.stat_result] | None:
    """Content and status of a regular file; None for anything else, and for one that is gone."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        return (file.read(), status) if stat.S_ISREG(status.st_mode) else None


# ------------------------------------------------------------------------------------------ files, folders


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


def contents(source: Path) -> Backup | None:
    """Return a backup's own list of contents; None for a copy of the file alone. Raises as `database_in`."""
    database = database_in(source)
    if database == source:
        return None
    told = json.loads((source / CONTENTS).read_text())
    known = {field.name for field in fields(Backup)}
    try:
        return Backup(**{name: value for name, value in told.items() if name in known})
    except TypeError:
        raise _not_whole(source) from None


def _not_whole(source: Path) -> StoreFailed:
    return StoreFailed(f"{source / CONTENTS} is missing or cannot be read: the backup is not whole")


def database_in(source: Path) -> Path:
    """Return the path of the record in a backup: a folder made by `back_up`, or a copy of the file alone.

    Raises NotFound, and StoreFailed if a file has changed since the backup was made.
    """
    if source.is_file():
        return source
    if not (source / DATABASE).is_file():
        raise NotFound(f"there is no backup in {source}{_newest_below(source)}")
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


def _newest_below(folder: Path) -> str:
    """Name the newest backup of a folder of dated ones; "" if it is none."""
    found = backups_in(folder)
    return f"; the newest of its backups is {found[-1]}" if found else ""


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
