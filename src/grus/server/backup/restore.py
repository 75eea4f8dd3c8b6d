"""Restore of a backup into a state that no server uses. Every process that ran since then is fenced off.

The record goes back in time, the machine does not. So before the old record becomes the state's, the engine
is taken over under a leader term above any that was ever used here, which fences every earlier leader.
Workers that the backup does not know are ended, because their GPUs look free to it. Workers that it records
as running and that still run are found again by the next server; a job that has ended meanwhile is unknown to
it, and starts again.

All steps that need disk space are done before anything ends, and the record changes by one rename. A restore
that dies in between leaves the state that was there, or the backup; the same call does the rest.
"""

import getpass
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grus.controlplane.workers.worker_launch_spec import members, setup_id
from grus.engines.local import fencing, state_files
from grus.engines.local.engine import LocalEngine
from grus.model.audit import AuditRecord
from grus.model.errors import Conflict, GrusError, StoreFailed
from grus.model.identifiers import UserName, WorkerId
from grus.model.interfaces import WorkerState
from grus.model.jobs import HOLDING, Job
from grus.model.texts.plural_words import counted
from grus.sdk.state_paths import GrusPaths
from grus.server.backup.create import (
    ARTEFACTS,
    LOGS,
    SETTINGS,
    contents,
    copy_logs,
    copy_vaults,
    database_in,
)
from grus.server.runtime.device_inventory import FILE, remembered
from grus.server.runtime.lock import StateLock
from grus.server.runtime.state_check import DATABASE
from grus.store import sqlite_backup
from grus.store.durable_files import make_folder, make_state_folder, sync_folder, write_secret
from grus.store.verify_integrity import examine
from grus.telemetry.virtual_gpus import VirtualSource

GRACE = 30.0
"""Seconds that a worker has to save its work."""
PATIENCE = 60.0
"""Seconds within which all of them must be confirmed dead."""
POLL = 0.05


@dataclass(frozen=True, slots=True)
class RestoreResult:
    jobs: int
    last_event: int
    epoch: int
    """The next server acts under a higher one."""
    ended: tuple[str, ...]
    """Workers that the backup did not know."""
    aside: str
    """New place of the state that was there before; "" if there was none."""
    settings: str
    """Outcome for config.toml: restored, kept, or none."""
    revoked: tuple[str, ...] | None
    """Tokens of the backup that the state had no more, and so stay invalid; None if it could not be asked:
    then all of them are valid.
    """
    returned: tuple[str, ...]
    """Users of the backup that had been deleted since; they have no token."""
    damaged: int
    """Parts of artifacts that are damaged in the backup, and were left out."""
    live: tuple[str, ...]
    """Jobs that had not ended when the backup was made: they continue, or start again if they ended since."""


def restore(
    at: GrusPaths,
    source: Path,
    now: float,
    *,
    force: bool = False,
    without_log: bool = False,
    pause: Callable[[float], None] = time.sleep,
) -> RestoreResult:
    """Make the backup the state. Raises Conflict if a server runs, or if there is a state and no `force`.

    Also if it is a copy of the file alone that may lack the content of its log, unless `without_log`.
    """
    database = database_in(source)
    if source.is_file() and not without_log:
        _check_log(source)
    copied = sqlite_backup.look(database)
    file = at.state / DATABASE
    make_state_folder(at.state)
    lock = StateLock(at.lock_file)
    lock.take()
    try:
        if file.exists() and not force:
            raise Conflict(
                f"There is a state in {at.state} already; --force puts it aside and restores over it."
            )
        engine = at.state / "engine"
        epoch = max(copied.epoch, sqlite_backup.epoch_of(file), fencing.highest(engine)) + 1
        prepared = sqlite_backup.prepare(database, file, epoch, _note(source, copied.last_event, now))
        damaged = _bring_artefacts(at, source)
        _bring_logs(at, source)
        live = _live(prepared.path)
        ended = _end_unknown(engine, epoch, _known(live), pause)
        aside = _switch(prepared.path, file, now, len(ended))
        settings = _bring_settings(at, source)
        _bring_pool(at, source)
    finally:
        lock.release()
    return RestoreResult(
        jobs=copied.jobs,
        last_event=copied.last_event,
        epoch=epoch,
        ended=ended,
        aside=aside,
        settings=settings,
        revoked=prepared.revoked,
        returned=prepared.returned,
        damaged=damaged,
        live=tuple(f"{job.id} ({job.spec.name}, {job.user})" for job in live),
    )


def _note(source: Path, last_event: int, now: float) -> AuditRecord:
    """Audit record of a restore, which an account of the machine makes without a user of Grus."""
    actor = UserName(f"{getpass.getuser()} (account of the server's machine)")
    text = f"restored from {source}, up to event {last_event}"
    return AuditRecord(at=now, actor=actor, action="state.restore", target="state", text=text)


def _check_log(file: Path) -> None:
    """Raises Conflict if a copy of the file alone may lack what was confirmed."""
    if sqlite_backup.lacks_log(file):
        raise Conflict(
            f"{file} was not made by `grus backup`, and {file.name}-wal is not beside it: what stood only in "
            "that log when it was copied is not in it. Bring the log, or take a backup; if its server had "
            "been stopped, or you can do without, say --without-log."
        )


def _switch(fresh: Path, file: Path, now: float, ended: int) -> str:
    """Put the new record in the old one's place; where that is now, "" if there was none."""
    there = file.exists()
    aside = sqlite_backup.aside_of(file, time.strftime("%Y%m%d-%H%M%S", time.gmtime(now)))
    try:
        sqlite_backup.install(fresh, file, aside)
    except StoreFailed as error:
        lacking = counted(ended, "worker")
        raise StoreFailed(f"{error}; ended already, since the backup lacks them: {lacking}") from error
    return str(aside) if there else ""


def _live(database: Path) -> list[Job]:
    """Return the jobs of the backup that have not ended."""
    with examine(database) as examination:
        return [job for job in examination.jobs() if not job.terminal]


def _known(live: list[Job]) -> set[WorkerId]:
    """Return the workers that the backup has on record."""
    return {id_ for job in live if job.phase in HOLDING for id_ in _workers(job)}


def _workers(job: Job) -> set[WorkerId]:
    return {setup_id(job), *(member.id for member in members(job))}


def _end_unknown(
    engine: Path, epoch: int, known: set[WorkerId], pause: Callable[[float], None]
) -> tuple[str, ...]:
    """Fence every earlier leader, end the workers that are not known, and confirm that they are dead."""
    if not engine.is_dir():
        return ()
    hand = LocalEngine(engine, VirtualSource("1x1x1GB"))  # it starts nothing, so it needs no GPUs
    hand.open(epoch)
    try:
        unknown = [one for one in hand.workers() if one.id not in known]
        living = tuple(one.id for one in unknown if one.state is not WorkerState.ENDED)
        for worker in living:
            hand.stop(worker, GRACE)
        deadline = time.monotonic() + PATIENCE
        while left := [
            one for one in hand.workers() if one.id in living and one.state is not WorkerState.ENDED
        ]:
            if time.monotonic() > deadline:
                raise GrusError(
                    f"worker {left[0].id} does not end (pid {left[0].pid}); nothing was restored, "
                    f"but {counted(len(living) - len(left), 'worker')} ended"
                )
            pause(POLL)
        for one in unknown:
            hand.forget(one.id)
        sync_folder(engine / state_files.WORKERS)  # else they could come back beside a record that lacks them
    finally:
        hand.close()
    return living


def _bring_artefacts(at: GrusPaths, source: Path) -> int:
    """Copy the artifacts before the record that names them; existing ones stay. Return the number of damaged
    parts.
    """
    if not (source.is_dir() and (source / ARTEFACTS).is_dir()):
        return 0
    try:
        return copy_vaults(source / ARTEFACTS, at.state / ARTEFACTS)
    except OSError as error:
        raise StoreFailed(f"could not copy artefacts to {at.state / ARTEFACTS}: {error}") from error


def _bring_logs(at: GrusPaths, source: Path) -> None:
    """Those that are there already stay."""
    if not (source.is_dir() and (source / LOGS).is_dir()):
        return
    try:
        make_folder(at.state / "engine")
        copy_logs(source / LOGS, at.state / "engine" / state_files.LOGS)
    except OSError as error:
        raise StoreFailed(f"could not copy logs to {at.state}: {error}") from error


def _bring_pool(at: GrusPaths, source: Path) -> None:
    """Real GPUs of a backup are not replaced by virtual ones at the next start."""
    made = contents(source)
    if made is not None and made.pool and not remembered(at.state):
        write_secret(at.state / FILE, made.pool.encode())


def _bring_settings(at: GrusPaths, source: Path) -> str:
    """Restore the settings and return the outcome: existing ones stay."""
    settings = source / SETTINGS
    if not settings.is_file():
        return "none"
    if at.config_file.exists():
        return "kept"
    write_secret(at.config_file, settings.read_bytes())
    return "restored"
