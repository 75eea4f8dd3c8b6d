"""Profile learning in a cluster: job measurements, read from node agents and stored by fingerprint.

Nodes sample and recognize by themselves; here their metrics are only recorded and added up, and their tags of
jobs are kept where users query them. It runs on threads of its own, so that it delays no other work.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from grus.controlplane.fingerprint.profile_cache import Profiles
from grus.controlplane.history.result_writer import ResultKeeper
from grus.controlplane.monitoring.profile_collector import Profiling
from grus.controlplane.monitoring.sampler import Watching, holding
from grus.controlplane.monitoring.tag_store import TagKeeper
from grus.controlplane.monitoring.worker_source import OwnSamples
from grus.controlplane.reconciler.loop import ControlLoop
from grus.model.identifiers import JobId, WorkerId
from grus.model.ports import Engine, Store
from grus.model.tags import Tag
from grus.telemetry.profiler import JobFacts
from grus.telemetry.recorder import Recorder
from grus.telemetry.samples import Batch, Subject

EVERY = 5.0
"""Seconds between two looks: as often as agents tell."""

Tags = Callable[[float], Mapping[JobId, Tag]]


class FromNodes:
    """Tags recognized by the nodes, where the samples are: nothing is recognized here a second time."""

    def __init__(self, tags: Tags) -> None:
        self._tags = tags

    def take(self, batch: Batch) -> None:
        """Its node has seen it."""

    def hear(
        self,
        job: JobId,
        figures: Mapping[str, float],
        at: float,
        worker: WorkerId | None = None,
        saved_at: float | None = None,
    ) -> None:
        """Do nothing: the job's node has received the report."""

    def known(self, job: JobId, facts: JobFacts) -> None:
        """Its node knows what it needs."""

    def forget(self, job: JobId) -> None:
        """Its node takes the tag away."""

    def tags(self, now: float) -> Mapping[Subject, Tag]:  # noqa: ARG002 - those of GPUs stay on their nodes
        return {}

    def jobs(self, now: float) -> Mapping[JobId, Tag]:
        return self._tags(now)


class Learning:
    """Profile learning: `start` and `close` for threads; `look` for one round without them."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        loop: ControlLoop,
        profiles: Profiles,
        tags: Tags,
        *,
        file: Path,
        clock: Callable[[], float],
    ) -> None:
        self.keeper = TagKeeper(store)
        self._samples = OwnSamples(engine, lambda: holding(loop), shortest=EVERY)
        self._results = ResultKeeper(store, profiles)
        self.profiling = Profiling(
            store,
            profiles,
            jobs=lambda: holding(loop),
            types=lambda: {device.id: device.type for node in loop.picture.nodes for device in node.devices},
            containers=True,
            clock=clock,
            on_ended=self._results.ended,
        )
        recorder = Recorder(file, clock=clock)
        self.watching = Watching(
            engine, loop, recorder, [self._samples], profiler=FromNodes(tags), clock=clock
        )
        self.profiling.watch(self.watching)
        self.keeper.watch(self.watching, lambda: holding(loop))

    def start(self) -> None:
        self._results.start()
        self.profiling.start()
        self.watching.start()

    def close(self) -> None:
        """Idempotent."""
        self.watching.close()
        self.watching.recorder.close()
        self.profiling.close()
        self._results.close()

    def look(self, now: float) -> None:
        """Record the measurements and tags since the last call."""
        self.watching.take(self._samples.sample(now), EVERY)
        self.watching.look(now)
