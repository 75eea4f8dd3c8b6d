"""Bringing a back-up into a state that no server uses. Nothing of what ran since then may act on.

The record goes back in time, the machine does not. So before the old record becomes the state's, the engine
is taken over under an epoch above any that was ever used here, which fences whoever acted before; and workers
that the back-up does not know are ended, for their GPUs look free to it. What it knows as running and what
still runs is found again by the next server; what has ended meanwhile is lost to it, and starts again.
"""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grus.controlplane.launching import members, setup_id
from grus.engines.local import layout
from grus.engines.local.engine import LocalEngine
from grus.model.errors import Conflict, GrusError
from grus.model.identifiers import WorkerId
from grus.model.jobs import HOLDING, Job
from grus.model.ports import WorkerState
from grus.sdk.places import Places
from grus.server.backing_up import ARTEFACTS, DATABASE, SETTINGS, copy_vaults, database_in
from grus.server.lock import StateLock
from grus.store import copying
from grus.store.examination import examine
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


def restore(
    at: Places, source: Path, now: float, *, force: bool = False, pause: Callable[[float], None] = time.sleep
) -> Restored:
    """Make the back-up the state. Raises Conflict if a server runs, or if there is a state and no `force`."""
    database = database_in(source)
    copied = copying.look(database)
    file = at.state / DATABASE
    at.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = StateLock(at.lock_file)
    lock.take()
    try:
        if file.exists() and not force:
            raise Conflict(
                f"There is a state in {at.state} already; --force puts it aside and restores over it."
            )
        epoch = max(copied.epoch, copying.epoch_of(file), _highest(at.state / "engine")) + 1
        ended = _end_unknown(at.state / "engine", epoch, _known(database), pause)
        aside = file.with_name(f"{DATABASE}.before-{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}")
        there = file.exists()
        copying.install(database, file, epoch, aside)
        settings = _beside(at, source)
    finally:
        lock.release()
    return Restored(copied.jobs, copied.last_event, epoch, ended, str(aside) if there else "", settings)


def _highest(engine: Path) -> int:
    """The highest epoch that an engine here was opened under."""
    epochs = engine / layout.EPOCHS
    if not epochs.is_dir():
        return 0
    return max((int(entry.name) for entry in epochs.iterdir() if entry.name.isdigit()), default=0)


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
                raise GrusError(f"worker {left[0].id} does not end (pid {left[0].pid}); nothing was restored")
            pause(POLL)
        for one in unknown:
            hand.forget(one.id)
    finally:
        hand.close()
    return living


def _beside(at: Places, source: Path) -> str:
    """Bring what else is in the back-up; what is there already stays."""
    if source.is_dir() and (source / ARTEFACTS).is_dir():
        copy_vaults(source / ARTEFACTS, at.state / ARTEFACTS)
    settings = source / SETTINGS
    if not settings.is_file():
        return "none"
    if at.config_file.exists():
        return "kept"
    at.config.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.copyfile(settings, at.config_file)
    at.config_file.chmod(0o600)
    return "restored"
