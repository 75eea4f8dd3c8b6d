"""On a cluster too, jobs leave what they took, and their nodes' tags are kept while they are true."""

from dataclasses import replace
from pathlib import Path

from grus.controlplane.fingerprint.profile_cache import Profiles
from grus.model.identifiers import JobId, WorkerId
from grus.model.ports import Usage
from grus.model.tags import Tag, WorkloadKind, of_job
from grus.operator.job_usage import EVERY, Learning
from grus.telemetry.samples import Measure
from tests.controlplane.plane import Plane


class Cluster:
    """A control plane in virtual time whose workers are pods."""

    def __init__(self, folder: Path) -> None:
        self.plane = Plane(pool="1x4:A100")
        self.profiles = Profiles(self.plane.store)
        self.tags: dict[JobId, Tag] = {}
        self.learning = Learning(
            self.plane.store,
            self.plane.engine,
            self.plane.loop,
            self.profiles,
            lambda _: self.tags,
            file=folder / "telemetry.db",
            clock=lambda: self.plane.now,
        )

    def look(self) -> None:
        self.plane.after(EVERY)
        self.learning.look(self.plane.now)
        self.learning.profiling.step(self.plane.now)


def test_a_job_in_pods_leaves_its_figures_and_its_tag_goes_with_it(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    plane = cluster.plane
    cluster.learning.profiling.open()
    id_ = plane.submit("resnet")
    worker = WorkerId(plane.engine.find(id_))
    cluster.tags = {id_: Tag(kind=WorkloadKind.TRAINING, at=plane.now, expires=plane.now + 1e6)}

    def usage() -> tuple[Usage, ...]:
        now = plane.now
        return (Usage(worker=worker, at=now, cpu_seconds=now, memory=7, gpu_utilisation=0.6, gpu_memory=9),)

    plane.engine.usage = usage  # type: ignore[method-assign]  # what a node's agent would tell
    cluster.learning.profiling.step(plane.now)
    for _ in range(4):
        cluster.look()
    assert plane.store.tags()[of_job(id_)].kind is WorkloadKind.TRAINING
    [own] = [one for one in cluster.learning.watching.recorder.subjects() if one.worker == worker]
    recorded = cluster.learning.watching.recorder.read(own, Measure.MEMORY, plane.now, plane.now + 1, 1.0)
    assert recorded.values.tolist() == [9.0]
    plane.engine.exit(id_, 0)
    plane.settle()
    cluster.tags = {}
    plane.engine.usage = tuple  # type: ignore[method-assign]  # nothing runs
    for _ in range(2):
        cluster.look()
    assert plane.store.tags() == {}
    [profile] = plane.store.profiles()
    assert (profile.peak_memory, profile.host_memory, profile.kind) == (9, 7, WorkloadKind.TRAINING)
    assert profile.duration == 4 * EVERY
    plane.close()


def test_jobs_of_one_image_and_bundle_are_the_same_work_and_those_of_another_are_not(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.learning.profiling.open()
    one, two = (cluster.plane.job(cluster.plane.submit(name)) for name in "ab")
    cluster.learning.profiling.step(cluster.plane.now)
    assert cluster.profiles.settled(one.id) == cluster.profiles.settled(two.id)
    other = replace(one, id=JobId("other"), spec=replace(one.spec, image="other:2"))
    assert cluster.profiles.fingerprint(other) != cluster.profiles.fingerprint(one)
    assert cluster.profiles.settled(one.id) is not None
    cluster.plane.close()
