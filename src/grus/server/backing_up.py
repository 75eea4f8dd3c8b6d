"""Back-ups: a folder with what a state needs to go on elsewhere or later, made while its server runs.

    grus.db         the record of one moment: jobs, log, queues, users, digests of tokens, results
    config.toml     the settings, if there are any
    backup.json     what is in it, and the SHA-256 of the other files
    artefacts/      what jobs left behind, if that was asked for

Not in it: logs of jobs, copies of code, telemetry, and secrets (the token file, the key of browsers'
sessions).
"""

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import grus
from grus.artefacts.vault import CHUNKS, MANIFESTS
from grus.model.errors import BadInput, Mistake, NotFound, StoreFailed
from grus.sdk.places import Places
from grus.store import copying

DATABASE, SETTINGS, CONTENTS, ARTEFACTS = "grus.db", "config.toml", "backup.json", "artefacts"
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


def back_up(at: Places, target: Path, now: float, *, artefacts: bool = False) -> BackUp:
    """Make the folder `target`, which appears whole or not at all. Raises GrusError."""
    database = at.state / DATABASE
    if not database.is_file():
        raise NotFound(f"there is no state in {at.state}; nothing was ever stored there")
    if target.exists() and not _is_empty(target):
        rule = "must not exist, or be an empty folder; take a name of its own for each back-up"
        raise BadInput([Mistake("target", rule, str(target))])
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    partial.mkdir(mode=0o700, parents=True)
    try:
        made = _fill(at, partial, now, artefacts)
        if target.exists():
            target.rmdir()
        partial.rename(target)
        _sync(target.parent)
    except OSError as error:
        raise StoreFailed(f"could not write {target}: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return made


def _fill(at: Places, folder: Path, now: float, artefacts: bool) -> BackUp:
    copied = copying.copy(at.state / DATABASE, folder / DATABASE)
    if at.config_file.is_file():
        shutil.copyfile(at.config_file, folder / SETTINGS)
    if artefacts and (at.state / ARTEFACTS).is_dir():
        # After the record: what it names was kept before it was named, and stays for weeks.
        copy_vaults(at.state / ARTEFACTS, folder / ARTEFACTS)
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
    )
    (folder / CONTENTS).write_text(json.dumps(asdict(made), indent=2) + "\n")
    for path in (*(folder / name for name in (*files, CONTENTS)), folder):
        _sync(path)
    return made


def copy_vaults(source: Path, target: Path) -> None:
    """Chunks and manifests of all vaults, with their owners; what is there already stays as it is."""
    for vault in sorted(path for path in source.iterdir() if path.is_dir() and not path.is_symlink()):
        for kind in (CHUNKS, MANIFESTS):
            for file in sorted((vault / kind).glob("??/*")):
                _copy_file(file, target / file.relative_to(source), target)


def _copy_file(file: Path, place: Path, root: Path) -> None:
    folders = [folder for folder in reversed(place.parents) if folder.is_relative_to(root)]
    for folder, model in zip(folders, list(reversed(file.parents))[-len(folders) :], strict=True):
        if not folder.exists():
            folder.mkdir(mode=0o700)
            _same_owner(model, folder)
    if not place.exists():
        partial = place.with_name(f".{place.name}")
        shutil.copy2(file, partial, follow_symlinks=False)
        _same_owner(file, partial)
        partial.rename(place)


def _same_owner(model: Path, made: Path) -> None:
    if os.geteuid() == 0:
        owner = model.lstat()
        os.chown(made, owner.st_uid, owner.st_gid, follow_symlinks=False)


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
        raise StoreFailed(
            f"{source / CONTENTS} is missing or cannot be read: the back-up is not whole"
        ) from None
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
