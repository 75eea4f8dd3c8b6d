"""Where a gang goes: fewest nodes, one NVLink island, the right type, and only where it may."""

from dataclasses import replace
from typing import Any

import pytest

from grus.model.identifiers import DeviceId, NodeId
from grus.model.jobs import Job, Phase
from grus.model.nodes import Device, Node
from tests.scheduler.builders import a_job, a_pool, a_queue, a_role
from tests.scheduler.world import World, jobs_of


def islands_of(world: World, name: str) -> set[tuple[str, int]]:
    where = {d.id: (node.id, d.island) for node in world.nodes for d in node.devices}
    return {where[device] for seat in world[name].seats for device in seat.devices}


def types_of(world: World, name: str) -> set[str]:
    held = world.devices_of(name)
    return {d.type for node in world.nodes for d in node.devices if d.id in held}


def test_a_gang_takes_the_fewest_nodes() -> None:
    world = World("3x4").run(a_job("small"), a_job("gang", gpus=4), a_job("wide", gpus=7))
    assert len(world.nodes_of("gang")) == 1
    assert len(world.nodes_of("wide")) == 2


def test_a_gang_takes_one_nvlink_island_if_it_can() -> None:
    world = World(a_pool("1x8", island=4)).run(a_job("small"), a_job("gang", gpus=4))
    assert len(islands_of(world, "gang")) == 1


def test_small_jobs_fill_up_a_node_before_they_open_another() -> None:
    world = World("2x4").run(*[a_job(f"s{i}") for i in range(4)])
    assert len({node for name in world.running() for node in world.nodes_of(name)}) == 1
    world.run(a_job("gang", gpus=4, one_node=True))
    assert world.size("gang") == 4


def test_one_process_has_all_its_gpus_on_one_node() -> None:
    world = World("2x2").run(a_job("x"), a_job("once", gpus=2, one_node=True))
    assert len(world.nodes_of("once")) == 1


def test_a_rigid_once_larger_than_what_any_node_has_free_waits() -> None:
    """Two nodes with one GPU free each, both held by never-preempted work: nothing can be moved."""
    world = World("2x2").run(
        a_job("d1", type="dev", node_selector={}, avoid_nodes=["n2"]),
        a_job("d2", type="dev", avoid_nodes=["n1"]),
        a_job("once", gpus=2, one_node=True),
    )
    assert world.running() == {"d1", "d2"}


def test_a_replica_of_two_gpus_has_both_on_one_node() -> None:
    world = World("2x3").run(a_job("gang", roles=[a_role("worker", 2, 2)]))
    assert all(len(seat.devices) == 2 for seat in world["gang"].seats)
    assert len(world["gang"].seats) == 2


@pytest.mark.parametrize(("kind", "expected"), [("dev", "RTX3060"), ("train", "A100")])
def test_dev_prefers_the_smallest_type_and_train_the_fastest(kind: str, expected: str) -> None:
    world = World("1x2:A100+1x2:RTX3060").run(a_job("x", type=kind))
    assert types_of(world, "x") == {expected}


def test_dev_takes_the_smallest_type_in_which_its_slice_fits() -> None:
    world = World("1x1:A100+1x1:V100+1x1:RTX3060").run(a_job("x", type="dev", gpus="20GB"))
    assert types_of(world, "x") == {"V100"}


def test_a_request_by_type_gets_that_type_or_waits() -> None:
    world = World("1x1:A100+1x3:T4").run(a_job("x", gpus="A100:1"), a_job("y", gpus="A100:1"))
    assert world.running() == {"x"}
    assert world.devices_of("x") == {"n1-0"}


def test_a_node_selector_is_binding() -> None:
    pool = a_pool("2x1", labels={"n2": {"disk": "nvme"}})
    world = World(pool).run(*[a_job(f"x{i}", node_selector={"disk": "nvme"}) for i in range(2)])
    assert world.running() == {"x0"}
    assert world.nodes_of("x0") == {"n2"}


def test_avoided_nodes_are_avoided() -> None:
    world = World("2x1").run(*[a_job(f"x{i}", avoid_nodes=["n1"]) for i in range(2)])
    assert world.running() == {"x0"}
    assert world.nodes_of("x0") == {"n2"}


def test_preferred_labels_are_a_wish_not_a_rule() -> None:
    pool = a_pool("2x1", labels={"n2": {"disk": "nvme"}})
    world = World(pool).run(*[a_job(f"x{i}", prefer={"disk": "nvme"}) for i in range(2)])
    assert world.nodes_of("x0") == {"n2"}
    assert world.nodes_of("x1") == {"n1"}


def test_nodes_of_a_queue_are_for_its_branch_only() -> None:
    world = World("2x2", a_queue("A", quota=2, nodes=["n1"]), a_queue("B", quota=2))
    world.submit(*jobs_of("B", 4)).settle().advance(3600)
    assert world.held("B") == 2
    world.run(*jobs_of("A", 2))
    assert world.held("A") == 2
    assert {node for name in world.running("A") for node in world.nodes_of(name)} == {"n1"}


def test_what_runs_stays_where_it_runs() -> None:
    world = World("2x4").run(*[a_job(f"s{i}") for i in range(6)])
    places = {name: world.devices_of(name) for name in world.running()}
    world.finish("s0").settle().run(a_job("gang", gpus=3)).advance(120)
    assert all(world.devices_of(name) == places[name] for name in places if name != "s0")


def fragmented(quota: float) -> World:
    """Two nodes of two GPUs, one job on each, and a job that needs both GPUs of one node."""
    world = World("2x2", a_queue("A", quota=quota), a_queue("B", quota=4 - quota))
    world.run(*jobs_of("A", 4)).advance(120)
    by_node = {node: min(n for n in world.running() if world.nodes_of(n) == {node}) for node in ("n1", "n2")}
    world.finish(by_node["n1"]).finish(by_node["n2"]).settle()
    return world.run(a_job("once", queue="A", gpus=2, one_node=True)).advance(120)


def test_the_pool_is_defragmented_for_a_queue_within_quota_if_that_provably_helps() -> None:
    world = fragmented(quota=4)
    assert world["once"].phase is Phase.RUNNING
    assert len(world.running()) == 3
    assert len(world.pauses()) == 1


def test_the_pool_is_not_defragmented_for_a_queue_over_quota() -> None:
    world = fragmented(quota=2)
    assert world["once"].phase is Phase.PENDING
    assert world.pauses() == []


def test_host_cpu_and_memory_of_a_node_are_kept() -> None:
    from dataclasses import replace

    pool = tuple(replace(node, cpu=4000) for node in a_pool("1x4"))
    roles = [a_role("worker", 1, 1, cpu=3000)]
    world = World(pool).run(a_job("x", roles=roles), a_job("y", roles=roles), a_job("z"))
    assert world.running() == {"x", "z"}


# ----------------------------------------------------------------------------------------- slow links


def racked(pool: str, *racks: str) -> tuple[Node, ...]:
    """The nodes of a pool, each in the rack of the same number."""
    return tuple(
        replace(node, labels=(("rack", rack),)) for node, rack in zip(a_pool(pool), racks, strict=True)
    )


def test_a_gang_that_would_cross_a_slow_link_is_placed_elsewhere() -> None:
    """One GPU is free in each of three nodes; the first two, n1 and n2, are far apart."""
    world = World(racked("3x4", "east", "west", "east"))
    world.run(*(a_job(f"single{n}", gpus=3, one_node=True) for n in range(3)))
    assert world.run(a_job("gang", gpus=2)).nodes_of("gang") == {"n1", "n3"}


def test_a_gang_takes_slower_gpus_that_are_near_before_fast_ones_that_are_far_apart() -> None:
    fast = [Node(NodeId(f"f{n}"), (a_device(f"f{n}", 1.5),), labels=(("rack", str(n)),)) for n in range(2)]
    slow = [Node(NodeId(f"s{n}"), (a_device(f"s{n}", 1.0),), labels=(("rack", "s"),)) for n in range(2)]
    world = World([*fast, *slow]).run(a_job("gang", gpus=2))
    assert world.nodes_of("gang") == {"s0", "s1"}


def test_a_gang_crosses_when_even_half_its_speed_is_more() -> None:
    fast = [Node(NodeId(f"f{n}"), (a_device(f"f{n}", 3.0),), labels=(("rack", str(n)),)) for n in range(2)]
    slow = [Node(NodeId(f"s{n}"), (a_device(f"s{n}", 1.0),), labels=(("rack", "s"),)) for n in range(2)]
    world = World([*fast, *slow]).run(a_job("gang", gpus=2))
    assert world.nodes_of("gang") == {"f0", "f1"}


def test_a_job_grows_across_a_slow_link_only_when_that_pays() -> None:
    world = World(racked("2x4", "east", "west")).run(a_job("wide", gpus="1..6"))
    assert (world.size("wide"), world.nodes_of("wide")) == (4, {"n1"}), "six at half speed are three"


def a_device(node: str, speed: float) -> Device:
    return Device(id=DeviceId(f"{node}-0"), type=f"speed-{speed}", memory=16 << 30, speed=speed)


def near(name: str, *nodes: str, **asked: Any) -> Job:
    return replace(a_job(name, **asked), near=tuple(map(NodeId, nodes)))


def test_a_job_goes_where_its_data_is_if_there_is_room() -> None:
    for node in ("n1", "n2", "n3"):
        world = World("3x2").run(near("stage", node))
        assert world.nodes_of("stage") == {node}


def test_a_job_does_not_wait_for_the_node_that_has_its_data() -> None:
    world = World("2x1").run(a_job("holder", avoid_nodes=["n2"]), near("stage", "n1"))
    assert world.nodes_of("stage") == {"n2"}


def test_a_faster_gpu_is_worth_more_than_data_that_is_there() -> None:
    world = World("1x1:T4+1x1:A100").run(near("stage", "n1"))
    assert types_of(world, "stage") == {"A100"}


def test_what_the_user_prefers_comes_before_where_the_data_is() -> None:
    pool = a_pool("2x1", labels={"n2": {"disk": "fast"}})
    world = World(pool).run(near("stage", "n1", prefer={"disk": "fast"}))
    assert world.nodes_of("stage") == {"n2"}


def test_a_node_that_is_gone_is_no_place_to_be_near_to() -> None:
    assert World("1x1").run(near("stage", "n9")).nodes_of("stage") == {"n1"}
