"""Watching: what is measured reaches the recorder and the profiler, and what is recognised can be read."""

import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from grus.controlplane.monitoring.profiler_warmup import recalled
from grus.controlplane.monitoring.telemetry_collector import DetectedWorkloads, Watching, holding, pause
from grus.controlplane.monitoring.worker_source import OwnSamples
from grus.model.identifiers import NodeId, QueueName, WorkerId
from grus.model.interfaces import Usage
from grus.model.jobs import Launch
from grus.telemetry.samples import Batch, LostMeasure, Measure, Subject
from grus.telemetry.tsdb import POOL, Recorder, of_queue
from tests.controlplane.plane import Plane


@dataclass
class Scene:
    """A plane that is watched by hand; `use` is what the engine measures."""

    plane: Plane
    recorder: Recorder
    use: dict[WorkerId, Usage] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.plane.engine.usage = lambda: tuple(self.use.values())  # type: ignore[method-assign]  # measured by hand
        self.own = OwnSamples(
            self.plane.engine,
            lambda: holding(self.plane.loop),
            nodes=lambda: self.plane.loop.picture.nodes,
            pretended=True,
        )
        self.watching = Watching(self.plane.engine, self.plane.loop, self.recorder, [self.own])

    def works(self, worker: WorkerId, seconds: float, cores: float, memory: int = 1 << 30) -> None:
        """Let it work, and measure afterwards."""
        before = self.use.get(worker)
        self.plane.engine.now += seconds
        spent = (before.cpu_seconds if before else 0.0) + seconds * cores
        self.use[worker] = Usage(
            worker=worker, at=self.plane.now, cpu_seconds=spent, memory=memory, gpu_memory=memory
        )
        self.watching.take(self.own.sample(self.plane.now))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(Plane(pool="1x4"), Recorder(tmp_path / "telemetry.db"))


def test_a_pretended_gpu_is_as_busy_as_the_worker_bound_to_it(scene: Scene) -> None:
    job = scene.plane.submit(gpus=2, launch=Launch.ONCE)
    worker = scene.plane.engine.find(job)
    scene.works(worker, 1.0, cores=1.0)
    scene.works(worker, 1.0, cores=1.0)
    newest = scene.watching.newest(scene.plane.now)
    own = newest[Subject(NodeId("n1"), job=job, worker=worker)]
    assert own.values[Measure.CPU] == pytest.approx(1.0)
    assert own.values[Measure.UTILISATION] == pytest.approx(0.5)
    held = {device for seat in scene.plane.job(job).seats for device in seat.devices}
    for device in held:
        values = newest[Subject(NodeId("n1"), device)].values
        assert values[Measure.UTILISATION] == pytest.approx(0.5)
        assert values[Measure.MEMORY] == (1 << 30) / 2
    free = [one for one in newest if one.device is not None and one.device not in held]
    assert len(free) == 2
    assert all(newest[one].values[Measure.UTILISATION] == 0.0 for one in free)


def test_what_was_told_is_recorded(scene: Scene) -> None:
    job = scene.plane.submit()
    worker = scene.plane.engine.find(job)
    since = scene.plane.now
    for _ in range(4):
        scene.works(worker, 1.0, cores=0.25)
    found = scene.recorder.read(
        Subject(NodeId("n1"), job=job, worker=worker), Measure.CPU, since, scene.plane.now + 1, 1.0
    )
    assert list(found.values[2:]) == pytest.approx([0.25, 0.25, 0.25])
    assert found.step == 1.0


def test_the_first_look_at_a_worker_says_nothing_of_its_speed(scene: Scene) -> None:
    worker = scene.plane.engine.find(scene.plane.submit())
    scene.works(worker, 1.0, cores=1.0)
    [own] = [one for one in scene.watching.newest(scene.plane.now).values() if one.subject.worker]
    assert set(own.values) == {Measure.HOST_MEMORY, Measure.MEMORY}


def test_a_sample_that_is_not_followed_by_another_is_not_called_current_for_long(scene: Scene) -> None:
    worker = scene.plane.engine.find(scene.plane.submit())
    scene.works(worker, 1.0, cores=1.0)
    assert scene.watching.newest(scene.plane.now)
    assert not scene.watching.newest(scene.plane.now + 60.0)


def test_tags_go_with_the_job(scene: Scene) -> None:
    job = scene.plane.submit()
    worker = scene.plane.engine.find(job)
    heard: list[DetectedWorkloads] = []
    scene.watching.subscribe(lambda found, now: heard.append(found))
    scene.works(worker, 1.0, cores=1.0)
    scene.watching.look(scene.plane.now)
    assert job in scene.watching.jobs(scene.plane.now)
    assert any(one.worker == worker for one in scene.watching.tags(scene.plane.now))
    scene.plane.engine.exit(job)
    scene.plane.settle()
    scene.watching.look(scene.plane.now)
    assert not scene.watching.jobs(scene.plane.now)
    assert not [one for one in scene.watching.tags(scene.plane.now) if one.job == job]
    assert [job in found.jobs for found in heard] == [True, False]


def test_what_queues_and_the_pool_hold_and_want_is_recorded(scene: Scene) -> None:
    job = scene.plane.submit(gpus=3, launch=Launch.ONCE)
    scene.plane.submit(gpus=2)
    for _ in range(2):
        scene.works(scene.plane.engine.find(job), 1.0, cores=3.0)
    now = scene.plane.now
    scene.watching.count(now)

    def counted(subject: Subject, measure: Measure) -> float:
        return float(scene.recorder.read(subject, measure, now, now + 1, 60.0).values[-1])

    default = of_queue(QueueName("default"))
    assert counted(default, Measure.HELD) == counted(POOL, Measure.HELD) == 3.0
    assert counted(default, Measure.DEMAND) == counted(POOL, Measure.DEMAND) == 5.0
    assert counted(POOL, Measure.CAPACITY) == 4.0
    assert counted(POOL, Measure.UTILISATION) == pytest.approx(0.75)


def test_a_server_that_begins_recalls_what_the_one_before_has_recorded(scene: Scene) -> None:
    earlier = scene.plane.submit("earlier")
    for _ in range(20):
        scene.works(scene.plane.engine.find(earlier), 1.0, cores=0.1)
    scene.plane.engine.exit(earlier)
    scene.use.clear()
    job = scene.plane.submit()
    worker = scene.plane.engine.find(job)
    for _ in range(40):
        scene.works(worker, 1.0, cores=1.0)
    again = Watching(scene.plane.engine, scene.plane.loop, scene.recorder, [scene.own])
    again.recall(scene.plane.now)
    again.look(scene.plane.now)
    tag = again.jobs(scene.plane.now)[job]
    assert tag.utilisation == pytest.approx(1.0, abs=0.05), "nothing of the job before on the same GPU"
    found = recalled(scene.recorder, holding(scene.plane.loop), scene.plane.now)
    assert {one.subject.worker for one in found.samples} == {worker, None}
    moments = [one.at for one in found.samples]
    assert moments == sorted(moments)
    assert min(moments) >= (scene.plane.job(job).started_at or 0.0)


class Broken:
    """A source that has lost a GPU."""

    shortest = 0.01

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.closed = False

    def sample(self, now: float) -> Batch:
        self.asked.set()
        return Batch(lost=(LostMeasure("gpu-1", "fell off the bus", now),))

    def close(self) -> None:
        self.closed = True


def test_what_a_source_has_lost_is_told_and_closing_ends_all_threads(tmp_path: Path) -> None:
    source, plane = Broken(), Plane()
    before = threading.active_count()
    watching = Watching(plane.engine, plane.loop, Recorder(tmp_path / "telemetry.db"), [source])
    watching.start()
    assert source.asked.wait(300)
    while not watching.lost:
        assert threading.active_count() > before
    watching.close()
    assert [one.what for one in watching.lost] == ["gpu-1"]
    assert source.closed
    assert threading.active_count() == before


@pytest.mark.parametrize(("now", "every", "rest", "seconds"), [(10.0, 1.0, 0.0, 0.5), (10.6, 1.0, 0.0, 0.9)])
def test_rounds_fall_into_the_middle_of_a_step(now: float, every: float, rest: float, seconds: float) -> None:
    assert pause(now, every, rest) == pytest.approx(seconds)


def test_a_round_that_took_long_is_followed_by_a_rest() -> None:
    assert pause(10.0, 1.0, 2.2) == pytest.approx(2.5)
