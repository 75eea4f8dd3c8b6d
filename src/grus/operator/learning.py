"""What jobs of a cluster show: asked of their nodes' agents now and then, kept under their fingerprints.

Nodes sample and recognise by themselves; here their figures are only added up, and their tags of jobs are
kept where people ask for them. A thread of its own, in nobody's way.
"""

import logging
import threading
from collections.abc import Callable, Mapping

from grus.controlplane.loop import ControlLoop
from grus.controlplane.own_samples import OwnSamples
from grus.controlplane.profiles import Profiles
from grus.controlplane.profiling import Profiling
from grus.controlplane.tag_keeping import TagKeeper, by_key, keys_of
from grus.controlplane.watching import Recognised, holding
from grus.model.identifiers import JobId
from grus.model.ports import Engine, Store
from grus.model.tags import Tag

log = logging.getLogger(__name__)

EVERY = 5.0
"""Seconds between two looks."""

Tags = Callable[[float], Mapping[JobId, Tag]]


class Learning:
    """`start` and `close` for threads; `look` to drive it by hand."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        loop: ControlLoop,
        profiles: Profiles,
        tags: Tags,
        *,
        clock: Callable[[], float],
    ) -> None:
        self.keeper = TagKeeper(store)
        self._loop = loop
        self._tags = tags
        self._clock = clock
        self._samples = OwnSamples(engine, lambda: holding(loop), shortest=EVERY)
        self._profiling = Profiling(
            store,
            profiles,
            jobs=lambda: holding(loop),
            types=lambda: {device.id: device.type for node in loop.picture.nodes for device in node.devices},
            containers=True,
            clock=clock,
        )
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="learning", daemon=True)

    def start(self) -> None:
        self._profiling.start()
        self._thread.start()

    def close(self) -> None:
        """Idempotent."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self._profiling.close()

    def look(self, now: float) -> None:
        """Take in what was measured and recognised since the last look."""
        seen = Recognised({}, self._tags(now))
        newest = {sample.subject: sample for sample in self._samples.sample(now).samples}
        self._profiling.look(seen, newest)
        self.keeper.keep(by_key(seen), keys_of(holding(self._loop)), now)

    def _run(self) -> None:
        while not self._closing.wait(EVERY):
            try:
                self.look(self._clock())
            except Exception:
                # The edge of a thread: a node that does not answer now may answer the next time.
                log.exception("what jobs show could not be read; tried again")
