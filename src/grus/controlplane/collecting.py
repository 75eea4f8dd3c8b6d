"""Garbage collection of artefacts: what the record still names is gathered here, and each vault is swept by a
process of its owner (`grus.artefacts.sweeping`).

What is written between the gathering and the sweep is young, and so is what somebody has used in between:
neither goes.
"""

import json
import logging
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from grus.artefacts.sweeping import Order
from grus.controlplane import handing_on
from grus.controlplane.settings import Settings
from grus.controlplane.vaults import Vaults
from grus.model.jobs import Job
from grus.model.ports import Store
from grus.model.results import Result

log = logging.getLogger(__name__)

PAGE = 500
LONGEST = 600.0
"""Seconds that a sweep of one vault may take; it goes on where it was the next time."""


class _Named:
    """What the record says of one vault."""

    def __init__(self) -> None:
        self.needed: set[str] = set()
        self.known: set[str] = set()
        self.live: set[str] = set()

    def order(self, settings: Settings) -> Order:
        return Order(
            needed=frozenset(self.needed),
            known=frozenset(self.known),
            live=frozenset(self.live),
            keep=settings.artefact_retention,
            grace=settings.artefact_grace,
            budget=settings.cache_bytes,
        )


class Collector:
    """Sweeps all vaults, one after the other. `collect` and `close` may be called by different threads."""

    def __init__(self, store: Store, settings: Settings, vaults: Vaults) -> None:
        self._store = store
        self._settings = settings
        self._vaults = vaults
        self._lock = threading.Lock()
        self._closed = False
        self._running: subprocess.Popen[str] | None = None

    def collect(self) -> int:
        """Bytes that are free now. Raises OSError."""
        if not self._settings.artefacts.is_dir():
            return 0
        named = self._named()
        vaults = sorted(path for path in self._settings.artefacts.iterdir() if path.is_dir())
        return sum(self._sweep(vault, named[vault].order(self._settings)) for vault in vaults)

    def close(self) -> None:
        """End a sweep that is under way: it may die anywhere. Idempotent."""
        with self._lock:
            self._closed = True
            if self._running is not None:
                self._running.kill()

    def _named(self) -> defaultdict[Path, _Named]:
        found: defaultdict[Path, _Named] = defaultdict(_Named)
        for job in self._jobs():
            one = found[self._vaults.place(job.user)]
            one.known.update(artefact.digest for artefact in job.artefacts)
            if not job.terminal and handing_on.hands_on(job.spec):
                one.live.add(job.id)
                given = handing_on.given(self._store.job, job.spec)
                one.needed.update(each.artefact.digest for each in given if each.artefact)
        for result in self._results():
            one = found[self._vaults.place(result.user)]
            one.known.update(artefact.digest for artefact in (*result.inputs, *result.outputs))
        return found

    def _jobs(self) -> Iterator[Job]:
        after = None
        while page := self._store.jobs(limit=PAGE, after=after):
            yield from page
            after = (page[-1].submitted_at, page[-1].id)

    def _results(self) -> Iterator[Result]:
        after = None
        while page := self._store.results(limit=PAGE, after=after):
            yield from page
            after = (page[-1].ended_at, page[-1].job)

    def _sweep(self, vault: Path, order: Order) -> int:
        with self._lock:
            if self._closed:
                return 0
            process = self._running = self._vaults.sweeper(vault)
        try:
            said, troubles = process.communicate(order.text(), LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            log.warning("the sweep of %s took longer than %g s; it goes on the next time", vault, LONGEST)
            return 0
        finally:
            with self._lock:
                self._running = None
        if process.returncode != 0:
            if not self._closed:
                log.error("artefacts in %s could not be swept: %s", vault, troubles.strip()[-1000:])
            return 0
        swept = json.loads(said)
        if swept["freed"]:
            log.info("swept %s: %d artefacts, %d bytes are free", vault, swept["artefacts"], swept["freed"])
        return int(swept["freed"])
