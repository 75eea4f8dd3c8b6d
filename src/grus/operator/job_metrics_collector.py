"""Telemetry of a cluster: job measurements and tags, read from node agents.

Nodes sample and recognize by themselves; here their metrics are only recorded and added up, and their tags of
jobs are kept where users query them.
"""

from collections.abc import Callable, Mapping

from grus.controlplane.application_wiring import Telemetry
from grus.controlplane.monitoring.telemetry_collector import Facts, Watching, holding
from grus.controlplane.monitoring.worker_source import OwnSamples
from grus.controlplane.reconciler.loop import ControlLoop, Tags
from grus.model.activity_labels import Tag
from grus.model.identifiers import JobId, WorkerId
from grus.model.interfaces import Engine
from grus.telemetry.samples import Batch, Subject
from grus.telemetry.telemetry_analyzer import JobFacts
from grus.telemetry.tsdb import Recorder

EVERY = 5.0
"""Seconds between two looks: as often as agents tell."""


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


def from_nodes(engine: Engine, recorder: Recorder, tags: Tags, clock: Callable[[], float]) -> Telemetry:
    """Sample the workers of a cluster, and take the tags of jobs from their nodes."""

    def sampler(loop: ControlLoop, _: Facts) -> Watching:
        own = OwnSamples(engine, lambda: holding(loop), shortest=EVERY)
        return Watching(engine, loop, recorder, [own], profiler=FromNodes(tags), clock=clock)

    return sampler
