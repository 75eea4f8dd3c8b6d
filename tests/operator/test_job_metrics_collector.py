"""On a cluster too, jobs leave what they took, and their nodes' tags are kept while they are true."""

from dataclasses import replace
from pathlib import Path

from grus.controlplane.application_wiring import ControlPlane
from grus.controlplane.monitoring.telemetry_collector import holding
from grus.controlplane.monitoring.worker_source import OwnSamples
from grus.model.activity_labels import Tag, WorkloadKind, of_job
from grus.model.identifiers import JobId, WorkerId
from grus.model.interfaces import PROFILES, Usage
from grus.operator.job_metrics_collector import EVERY, from_nodes
from grus.telemetry.samples import Measure
from grus.telemetry.tsdb import Recorder
from tests.controlplane.plane import Plane


class Cluster:
    """A control plane in virtual time whose workers are pods."""

    def __init__(self, folder: Path) -> None:
        self.plane = plane = Plane(pool="1x4:A100")
        self.tags: dict[JobId, Tag] = {}
        self.recorder = Recorder(folder / "telemetry.db", clock=lambda: plane.now)
        self.parts = ControlPlane(
            plane.store,
            plane.engine,
            replace(plane.settings, containers=True),
            from_nodes(plane.engine, self.recorder, lambda _: self.tags, lambda: plane.now),
            forecasts=False,
            clock=lambda: plane.now,
        )
        plane.close()
        plane.loop, plane.services = self.parts.loop, self.parts.services
        plane.loop.open()
        self.parts.profiling.open()
        self._samples = OwnSamples(plane.engine, lambda: holding(plane.loop), shortest=EVERY)

    def look(self) -> None:
        self.plane.after(EVERY)
        self.parts.sampler.take(self._samples.sample(self.plane.now), EVERY)
        self.parts.sampler.look(self.plane.now)
        self.parts.profiling.step(self.plane.now)

    def close(self) -> None:
        self.plane.close()
        self.recorder.close()


def test_a_job_in_pods_leaves_its_figures_and_its_tag_goes_with_it(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    plane = cluster.plane
    id_ = plane.submit("resnet")
    worker = WorkerId(plane.engine.find(id_))
    cluster.tags = {id_: Tag(kind=WorkloadKind.TRAINING, at=plane.now, expires=plane.now + 1e6)}

    def usage() -> tuple[Usage, ...]:
        now = plane.now
        return (Usage(worker=worker, at=now, cpu_seconds=now, memory=7, gpu_utilisation=0.6, gpu_memory=9),)

    plane.engine.usage = usage  # type: ignore[method-assign]  # what a node's agent would tell
    cluster.parts.profiling.step(plane.now)
    for _ in range(4):
        cluster.look()
    assert plane.store.tags()[of_job(id_)].kind is WorkloadKind.TRAINING
    [own] = [one for one in cluster.recorder.subjects() if one.worker == worker]
    recorded = cluster.recorder.read(own, Measure.MEMORY, plane.now, plane.now + 1, 1.0)
    assert recorded.values.tolist() == [9.0]
    plane.engine.exit(id_, 0)
    plane.settle()
    cluster.tags = {}
    plane.engine.usage = tuple  # type: ignore[method-assign]  # nothing runs
    for _ in range(2):
        cluster.look()
    assert plane.store.tags() == {}
    [profile] = plane.store.find(PROFILES)
    assert (profile.peak_memory, profile.host_memory, profile.kind) == (9, 7, WorkloadKind.TRAINING)
    assert profile.duration == 4 * EVERY
    cluster.close()


def test_jobs_of_one_image_and_bundle_are_the_same_work_and_those_of_another_are_not(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    one, two = (cluster.plane.job(cluster.plane.submit(name)) for name in "ab")
    cluster.parts.profiling.step(cluster.plane.now)
    assert cluster.parts.profiles.settled(one.id) == cluster.parts.profiles.settled(two.id)
    other = replace(one, id=JobId("other"), spec=replace(one.spec, image="other:2"))
    assert cluster.parts.profiles.fingerprint(other) != cluster.parts.profiles.fingerprint(one)
    assert cluster.parts.profiles.settled(one.id) is not None
    cluster.close()
