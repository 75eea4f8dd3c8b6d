"""The tiles of the pool: what a change touches is told, and nothing else."""

from dataclasses import replace

import pytest

from grus.dashboard.live_state.gpu_tiles import Tiles
from grus.model.activity_labels import Tag, WorkloadKind
from grus.model.identifiers import DeviceId, NodeId
from grus.model.jobs import Job, Phase, Seat
from grus.model.nodes import Drain, Health
from grus.model.resources import GPU
from grus.telemetry.samples import Fault, Measure, Sample, Subject
from tests.scheduler.builders import a_job, a_pool, with_device

POOL = a_pool("2x4")


def on(name: str, *devices: str, share: int = GPU, version: int = 1, phase: Phase = Phase.RUNNING) -> Job:
    """A job that holds these GPUs."""
    seats = tuple(
        Seat("worker", index, NodeId(device.partition("-")[0]), (DeviceId(device),), share)
        for index, device in enumerate(devices)
    )
    return replace(a_job(name), phase=phase, seats=seats, version=version)


@pytest.fixture
def tiles() -> Tiles:
    made = Tiles()
    made.take_nodes(POOL)
    return made


def changed(tiles: Tiles, since: int) -> set[str]:
    return {tile.device.id for tile in tiles.since(since).tiles}


def holders(tiles: Tiles, device: str) -> list[str]:
    return [one.job for tile in tiles.tiles if tile.device.id == device for one in tile.holders]


def test_a_job_changes_the_tiles_that_it_takes_and_leaves(tiles: Tiles) -> None:
    tiles.take_job(on("a", "n1-0", "n1-1"))
    before = tiles.version
    tiles.take_job(on("a", "n1-1", "n2-0", version=2))
    assert changed(tiles, before) == {"n1-0", "n2-0"}
    assert (holders(tiles, "n1-0"), holders(tiles, "n1-1"), holders(tiles, "n2-0")) == ([], ["a"], ["a"])
    assert {(node.id, node.held) for node in tiles.since(before).nodes} == {("n1", GPU), ("n2", GPU)}


def test_a_job_that_has_ended_leaves_all_its_tiles(tiles: Tiles) -> None:
    tiles.take_job(on("a", "n1-0"))
    tiles.take_job(on("a", "n1-0", version=2, phase=Phase.SUCCEEDED))
    assert tiles.sums().held == 0
    assert tiles.sums().jobs == 0


def test_a_job_without_gpus_is_none_of_those_that_hold_some(tiles: Tiles) -> None:
    tiles.take_job(replace(on("a"), seats=(Seat("worker", 0, NodeId("n1"), (), 0),)))
    assert tiles.sums().jobs == 0


def test_what_comes_late_changes_nothing(tiles: Tiles) -> None:
    tiles.take_job(on("a", "n1-0", version=3))
    before = tiles.version
    tiles.take_job(on("a", "n1-1", version=2))
    assert changed(tiles, before) == set()
    assert tiles.version == before


def test_slices_of_two_jobs_are_on_one_tile(tiles: Tiles) -> None:
    tiles.take_job(on("a", "n1-0", share=GPU // 2))
    tiles.take_job(on("b", "n1-0", share=GPU // 4))
    assert holders(tiles, "n1-0") == ["a", "b"]
    assert tiles.node(0).held == GPU * 3 // 4
    tiles.take_job(on("a", version=2, phase=Phase.STOPPED))
    assert holders(tiles, "n1-0") == ["b"]


def test_who_looks_late_is_told_everything_since_then_and_once(tiles: Tiles) -> None:
    begun = tiles.version
    for version, device in enumerate(("n1-0", "n1-1", "n1-0"), 1):
        tiles.take_job(on("a", device, version=version))
    assert changed(tiles, begun) == {"n1-0", "n1-1"}
    assert tiles.since(tiles.version).tiles == []


def test_a_job_that_the_loop_no_longer_holds_is_taken_off(tiles: Tiles) -> None:
    tiles.take_job(on("gone", "n1-0"))
    tiles.keep_jobs([on("there", "n1-1")])
    assert (holders(tiles, "n1-0"), holders(tiles, "n1-1")) == ([], ["there"])


def test_use_that_stays_the_same_is_no_news(tiles: Tiles) -> None:
    gpu, other = (Subject(NodeId("n1"), DeviceId(f"n1-{number}")) for number in (0, 1))

    def told(subject: Subject, use: float) -> Sample:
        return Sample(subject, 1.0, {Measure.UTILISATION: use, Measure.MEMORY: 8e9})

    tiles.take_use({gpu: told(gpu, 0.5), other: told(other, 0.2)})
    before = tiles.version
    tiles.take_use({gpu: told(gpu, 0.501), other: told(other, 0.7)})
    assert tiles.since(before).use == [1]
    assert (tiles.use(0).busy, tiles.use(1).busy, tiles.use(2).busy) == (50, 70, None)
    assert tiles.use(0).memory == 8_000_000_000


def test_of_what_is_no_longer_measured_nothing_is_said(tiles: Tiles) -> None:
    gpu = Subject(NodeId("n1"), DeviceId("n1-0"))
    tiles.take_use({gpu: Sample(gpu, 1.0, {Measure.UTILISATION: 0.5})})
    tiles.take_use({})
    assert tiles.use(0).busy is None


def test_instances_of_a_partitioned_gpu_are_told_in_their_order(tiles: Tiles) -> None:
    parts = [Subject(NodeId("n1"), DeviceId("n1-0"), instance) for instance in ("2", "1")]
    tiles.take_use({one: Sample(one, 1.0, {Measure.UTILISATION: int(one.instance) / 10}) for one in parts})
    assert tiles.use(0).instances == (("1", 10), ("2", 20))


def test_kind_fault_and_health_are_changes_of_their_tile(tiles: Tiles) -> None:
    before = tiles.version
    tag = Tag(kind=WorkloadKind.TRAINING, at=0.0, expires=99.0, hung_since=5.0)
    gpu = Subject(NodeId("n1"), DeviceId("n1-1"))
    tiles.take_tags({"gpu/n1-0": tag}, {gpu: Fault(gpu, 1.0, 79)})
    tiles.take_nodes(with_device(POOL, "n1-2", health=Health.DIRTY))
    assert changed(tiles, before) == {"n1-0", "n1-1", "n1-2"}
    assert tiles.tiles[0].kind == "training"
    assert tiles.tiles[0].hung
    assert tiles.tiles[1].fault == 79
    assert tiles.sums().usable == 7 * GPU


def test_a_cordon_changes_the_node_and_no_tile(tiles: Tiles) -> None:
    before = tiles.version
    tiles.take_nodes((replace(POOL[0], cordoned=True), POOL[1]))
    assert changed(tiles, before) == set()
    assert [(node.id, node.closed) for node in tiles.since(before).nodes] == [("n1", "cordoned")]
    tiles.take_nodes((replace(POOL[0], cordoned=True, drain=Drain(message="new disks")), POOL[1]))
    drained = tiles.since(before).nodes[0]
    assert (drained.closed, drained.drain_message) == ("draining", "new disks")


def test_other_gpus_are_another_layout_and_jobs_stay_where_they_are(tiles: Tiles) -> None:
    tiles.take_job(on("a", "n2-3"))
    before = tiles.layout
    tiles.take_nodes(POOL[1:])
    assert tiles.layout == before + 1
    assert holders(tiles, "n2-3") == ["a"]
    assert [tile.place for tile in tiles.tiles] == [0, 1, 2, 3]
    tiles.take_nodes(POOL)
    assert holders(tiles, "n2-3") == ["a"]


def test_mean_utilisation_is_that_of_what_is_held(tiles: Tiles) -> None:
    subjects = [Subject(NodeId("n1"), DeviceId(f"n1-{number}")) for number in range(3)]
    tiles.take_job(on("a", "n1-0", "n1-1"))
    tiles.take_use({one: Sample(one, 1.0, {Measure.UTILISATION: 0.4}) for one in subjects[:1]})
    assert tiles.sums().busy == 40.0
