"""Garbage collection of artifacts: gather the artifacts that the record still references; a process of each
artifact store's owner then sweeps that store (`grus.artifacts.gc`).

Artifacts written or used between the gathering and the sweep are young, so the sweep keeps them.
"""

import json
import logging
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from grus.artifacts.gc import Order
from grus.controlplane.artifacts.stores import ArtifactStores
from grus.controlplane.settings import Settings
from grus.controlplane.workers import artifact_inputs_outputs
from grus.model.interfaces import RESULTS, Store
from grus.model.jobs import Job
from grus.model.results import Result

log = logging.getLogger(__name__)

PAGE = 500
LONGEST = 600.0
"""Maximum duration of the sweep of one artifact store, in seconds; the next sweep continues where this one
stopped.
"""


class _Named:
    """References to one artifact store in the record."""

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
    """Sweep all artifact stores, one after the other. `collect` and `close` may be called by different
    threads.
    """

    def __init__(self, store: Store, settings: Settings, vaults: ArtifactStores) -> None:
        self._store = store
        self._settings = settings
        self._vaults = vaults
        self._lock = threading.Lock()
        self._closed = False
        self._running: subprocess.Popen[str] | None = None

    def collect(self) -> int:
        """Collect garbage; return the freed bytes. Raises OSError."""
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
            if not job.terminal and artifact_inputs_outputs.hands_on(job.spec):
                one.live.add(job.id)
                given = artifact_inputs_outputs.given(self._store.job, job.spec)
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
        while page := self._store.find(RESULTS, limit=PAGE, after=after):
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
