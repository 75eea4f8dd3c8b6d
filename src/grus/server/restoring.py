"""Bringing a back-up into a state that no server uses. Nothing of what ran since then may act on.

The record goes back in time, the machine does not. So before the old record becomes the state's, the engine
is taken over under an epoch above any that was ever used here, which fences whoever acted before; and workers
that the back-up does not know are ended, for their GPUs look free to it. What it knows as running and what
still runs is found again by the next server; what has ended meanwhile is lost to it, and starts again.

All that needs room on the disk is done before anything ends, and the record changes by one rename. Whoever
dies in between leaves the state that was there, or the back-up; the same call does the rest.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grus.controlplane.launching import members, setup_id
from grus.engines.local import epochs, layout
from grus.engines.local.engine import LocalEngine
from grus.model.errors import Conflict, GrusError, StoreFailed
from grus.model.identifiers import WorkerId
from grus.model.jobs import HOLDING, Job
from grus.model.ports import WorkerState
from grus.sdk.places import Places
from grus.server.backing_up import ARTEFACTS, SETTINGS, copy_vaults, database_in
from grus.server.lock import StateLock
from grus.server.record import DATABASE
from grus.store import copying
from grus.store.examination import examine
from grus.store.on_disk import make_folder, sync_folder, write_secret
from grus.telemetry.virtual import VirtualSource

GRACE = 30.0
"""Seconds that a worker has to save its work."""
PATIENCE = 60.0
"""Seconds within which all of them must be proven dead."""
POLL = 0.05


@dataclass(frozen=True, slots=True)
class Restored:
    jobs: int
    last_event: int
    epoch: int
    """The next server acts under a higher one."""
    ended: tuple[str, ...]
    """Workers that the back-up did not know."""
    aside: str
    """Where what stood there before is now; "" if there was nothing."""
    settings: str
    """What became of config.toml: restored, kept, or none."""
    revoked: tuple[str, ...] | None
    """Tokens of the back-up that the state had no more, and so stay invalid; None if it could not be asked:
    then all of them are valid."""
    damaged: int
    """Parts of artefacts that are damaged in the back-up, and were left out."""


def restore(
    at: Places,
    source: Path,
    now: float,
    *,
    force: bool = False,
    without_log: bool = False,
    pause: Callable[[float], None] = time.sleep,
) -> Restored:
    """Make the back-up the state. Raises Conflict if a server runs, or if there is a state and no `force`.

    Also if it is a copy of the file alone that may lack what stood in its log, unless `without_log`.
    """
    database = database_in(source)
    if source.is_file() and not without_log:
        _check_log(source)
    copied = copying.look(database)
    file = at.state / DATABASE
    make_folder(at.state)
    lock = StateLock(at.lock_file)
    lock.take()
    try:
        if file.exists() and not force:
            raise Conflict(
                f"There is a state in {at.state} already; --force puts it aside and restores over it."
            )
        engine = at.state / "engine"
        epoch = max(copied.epoch, copying.epoch_of(file), epochs.highest(engine)) + 1
        prepared = copying.prepare(database, file, epoch)
        damaged = _bring_artefacts(at, source)
        ended = _end_unknown(engine, epoch, _known(prepared.path), pause)
        aside = _switch(prepared.path, file, now, len(ended))
        settings = _bring_settings(at, source)
    finally:
        lock.release()
    return Restored(
        jobs=copied.jobs,
        last_event=copied.last_event,
        epoch=epoch,
        ended=ended,
        aside=aside,
        settings=settings,
        revoked=prepared.revoked,
        damaged=damaged,
    )


def _check_log(file: Path) -> None:
    """Raises Conflict if a copy of the file alone may lack what was confirmed."""
    if copying.lacks_log(file):
        raise Conflict(
            f"{file} was not made by `grus backup`, and {file.name}-wal is not beside it: what stood only in "
            "that log when it was copied is not in it. Bring the log, or take a back-up; if its server had "
            "been stopped, or you can do without, say --without-log."
        )


def _switch(fresh: Path, file: Path, now: float, ended: int) -> str:
    """Put the new record in the old one's place; where that is now, "" if there was none."""
    there = file.exists()
    aside = copying.aside_of(file, time.strftime("%Y%m%d-%H%M%S", time.gmtime(now)))
    try:
        copying.install(fresh, file, aside)
    except StoreFailed as error:
        raise StoreFailed(f"{error}; {ended} workers that the back-up lacks have ended already") from error
    return str(aside) if there else ""


def _known(database: Path) -> set[WorkerId]:
    """Workers that the back-up has on record."""
    with examine(database) as examination:
        return {id_ for job in examination.jobs() if job.phase in HOLDING for id_ in _workers(job)}


def _workers(job: Job) -> set[WorkerId]:
    return {setup_id(job), *(member.id for member in members(job))}


def _end_unknown(
    engine: Path, epoch: int, known: set[WorkerId], pause: Callable[[float], None]
) -> tuple[str, ...]:
    """Fence whoever acted here before, end the workers that are not known, and prove them dead."""
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
                    f"but {len(living) - len(left)} workers have ended"
                )
            pause(POLL)
        for one in unknown:
            hand.forget(one.id)
        sync_folder(engine / layout.WORKERS)  # else they could come back beside a record that lacks them
    finally:
        hand.close()
    return living


def _bring_artefacts(at: Places, source: Path) -> int:
    """Before the record that names them; what is there already stays. How many parts were damaged."""
    if not (source.is_dir() and (source / ARTEFACTS).is_dir()):
        return 0
    try:
        return copy_vaults(source / ARTEFACTS, at.state / ARTEFACTS)
    except OSError as error:
        raise StoreFailed(f"could not copy artefacts to {at.state / ARTEFACTS}: {error}") from error


def _bring_settings(at: Places, source: Path) -> str:
    """What became of them: those that are there already stay."""
    settings = source / SETTINGS
    if not settings.is_file():
        return "none"
    if at.config_file.exists():
        return "kept"
    write_secret(at.config_file, settings.read_bytes())
    return "restored"
