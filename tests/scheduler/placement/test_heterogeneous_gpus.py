"""Types of GPU go where they make the most difference; nobody is kept from one."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grus.model.identifiers import DeviceId, JobId, NodeId
from grus.model.nodes import Device, Node
from grus.scheduler.elasticity.throughput_outlook import Outlook
from grus.scheduler.explain import Explanation, explain
from grus.scheduler.placement.feasibility import never_fits
from grus.scheduler.placement.heterogeneous_gpus import TypeDemand, assignment, preferences
from tests.scheduler.builders import a_job, a_queue, a_role
from tests.scheduler.world import World

BIG, SMALL = 0, 1


def a_node(name: str, kind: str, speed: float, gpus: int = 1) -> Node:
    devices = (
        Device(id=DeviceId(f"{name}-{n}"), type=kind, memory=16 << 30, speed=speed) for n in range(gpus)
    )
    return Node(NodeId(name), tuple(devices))


POOL = (a_node("big", "A100", 3.0), a_node("small", "T4", 1.0))


def on(world: World, name: str) -> str:
    return next(iter(world.nodes_of(name)))


def by_type(big: float, small: float) -> Outlook:
    return Outlook((), (), types=(("A100", big), ("T4", small)))


def test_the_fast_gpu_goes_to_the_job_that_is_much_faster_on_it() -> None:
    world = World(POOL).submit(a_job("first"), a_job("second"))
    world.expect("first", by_type(1.1, 1.0)).expect("second", by_type(3.0, 1.0)).settle()
    assert (on(world, "first"), on(world, "second")) == ("small", "big")


def test_without_measurements_the_first_in_line_takes_the_fastest() -> None:
    world = World(POOL).submit(a_job("first"), a_job("second")).settle()
    assert (on(world, "first"), on(world, "second")) == ("big", "small")


def test_a_job_alone_takes_what_is_fastest_for_it() -> None:
    world = World(POOL).submit(a_job("odd")).expect("odd", by_type(1.0, 2.0)).settle()
    assert on(world, "odd") == "small"


def test_a_job_starts_on_the_other_type_rather_than_wait() -> None:
    world = World(POOL[:1]).submit(a_job("odd")).expect("odd", by_type(1.0, 2.0)).settle()
    assert on(world, "odd") == "big"


def test_a_type_that_is_plenty_has_no_price() -> None:
    _, found = assignment([TypeDemand(1, {BIG: 3.0, SMALL: 1.0})], {BIG: 4, SMALL: 4})
    assert found == pytest.approx({BIG: 0.0, SMALL: 0.0})


def test_a_scarce_type_costs_what_it_is_worth_to_the_next() -> None:
    wants = [TypeDemand(1, {BIG: 3.0, SMALL: 1.0}), TypeDemand(1, {BIG: 2.0, SMALL: 1.0})]
    assert assignment(wants, {BIG: 1, SMALL: 1})[1][BIG] >= 1.0 - 1e-9


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 5.0), st.floats(0.1, 5.0)), min_size=2, max_size=6))
def test_priced_preferences_are_never_worse_than_the_fastest_for_all(
    speeds: list[tuple[float, float]],
) -> None:
    """Jobs choose in their order; the sum of their speeds with prices is at least that of greed."""
    supply = {BIG: len(speeds) // 2, SMALL: len(speeds) - len(speeds) // 2}
    wants = [TypeDemand(1, {BIG: big, SMALL: small}) for big, small in speeds]
    greedy = [tuple(sorted(want.speeds, key=lambda kind: -want.speeds[kind])) for want in wants]
    assert total(wants, preferences(wants, supply), supply) >= total(wants, greedy, supply) - 1e-6


def total(wants: list[TypeDemand], orders: list[tuple[int, ...]], supply: dict[int, int]) -> float:
    left = dict(supply)
    found = 0.0
    for want, order in zip(wants, orders, strict=True):
        kind = next(kind for kind in order if left[kind])
        left[kind] -= 1
        found += want.speeds[kind]
    return found


def test_dev_jobs_keep_to_the_smallest_type() -> None:
    world = World(POOL).submit(replace(a_job("notebook", type="dev"), submitted_at=0.0))
    world.expect("notebook", by_type(9.0, 1.0)).settle()
    assert on(world, "notebook") == "small"


UNLIKE = "1x2:A100+1x3:T4"


def types_of(world: World, name: str) -> set[str]:
    kinds = {device.id: device.type for node in world.nodes for device in node.devices}
    return {kinds[DeviceId(device)] for device in world.devices_of(name)}


def why_not(world: World, name: str) -> Explanation:
    return explain(world.snapshot, JobId(name), world.now)


def test_a_gang_has_gpus_of_one_type_or_waits() -> None:
    world = World("1x3:A100+1x3:T4").run(a_job("one", gpus="T4:1"), a_job("two", gpus="A100:1"))
    world.run(a_job("gang", gpus=3))
    assert world.waiting() == {"gang"}
    why = why_not(world, "gang")
    assert why.code == "different types"
    assert why.sentence == "needs 3 GPUs of one type; free are 2 A100, 2 T4"
    world.finish("one").settle()
    assert types_of(world, "gang") == {"T4"}


def test_a_gang_that_one_type_can_hold_says_that_it_needs_one_type() -> None:
    world = World(UNLIKE).run(a_job("one", gpus="T4:1"), a_job("gang", gpus=3))
    assert why_not(world, "gang").sentence.startswith("needs 3 GPUs of one type; 2 that it may use are free")


def test_a_gang_that_may_be_mixed_spans_types_when_no_single_one_has_room() -> None:
    world = World(UNLIKE).run(a_job("gang", gpus=5, mixed=True))
    assert types_of(world, "gang") == {"A100", "T4"}
    world = World(UNLIKE).run(a_job("gang", gpus=3, mixed=True))
    assert types_of(world, "gang") == {"T4"}


@pytest.mark.parametrize(("mixed", "size"), [(False, 3), (True, 5)])
def test_an_elastic_job_grows_on_the_type_that_it_has(mixed: bool, size: int) -> None:
    world = World(UNLIKE).run(a_job("big", gpus="A100:2"), a_job("wide", gpus="2..5", mixed=mixed))
    assert types_of(world, "wide") == {"T4"}
    world.finish("big").settle().advance(3600)
    assert world.size("wide") == size


def test_roles_of_one_gang_are_on_one_type_unless_they_name_another() -> None:
    roles = (a_role("worker", 2, 1), a_role("server", 1, 1))
    assert types_of(World(UNLIKE).run(a_job("gang", roles=roles)), "gang") == {"T4"}
    named = (a_role("worker", 2, 1, types=("A100",)), a_role("server", 1, 1, types=("T4",)))
    assert types_of(World(UNLIKE).run(a_job("gang", roles=named)), "gang") == {"A100", "T4"}


def test_slices_of_one_gang_are_on_one_type() -> None:
    roles = (a_role("worker", 5, 0.5),)
    assert types_of(World(UNLIKE).run(a_job("gang", roles=roles)), "gang") == {"T4"}


def test_replicas_of_a_served_model_may_be_on_unlike_types() -> None:
    world = World(UNLIKE).run(a_job("model", gpus=5, type="serve"))
    assert types_of(world, "model") == {"A100", "T4"}


def test_a_gang_that_no_type_can_hold_is_refused_with_the_way_out() -> None:
    world = World(UNLIKE)
    why = never_fits(world.snapshot, a_job("gang", gpus=4).spec)
    assert "needs 4 GPUs of one type, and the pool has 2 A100, 3 T4" in why
    assert "the nearest request that fits is gpu: 3" in why
    assert never_fits(world.snapshot, a_job("gang", gpus=4, mixed=True).spec) == ""


def test_a_gang_inside_quota_takes_back_gpus_of_one_type_and_no_others() -> None:
    queues = (a_queue("A", quota=4), a_queue("B"))
    world = World("2x2:A100+2x2:T4", *queues)
    world.run(*(a_job(f"b{n}", queue="B") for n in range(8)))
    world.run(a_job("gang", queue="A", gpus=4))
    assert "gang" in world.running()
    assert len(types_of(world, "gang")) == 1
    assert len(world.pauses()) == 4


def test_the_change_that_starts_a_gang_may_be_to_mix_types() -> None:
    roles = (a_role("worker", 3, 1), a_role("launcher", 1, 0))
    world = World(UNLIKE).run(a_job("one", gpus="T4:1", type="dev"), a_job("gang", roles=roles))
    found = why_not(world, "gang")
    assert found.fix is not None
    assert found.fix.request is not None
    assert found.fix.request.mixed
    assert "resources.mixed: true" in found.change


def test_a_reservation_holds_gpus_of_the_type_that_the_gang_can_have() -> None:
    """Four T4s are busy until known ends, three A100s are free: they are not kept for a gang of four."""
    world = World("1x3:A100+1x4:T4").run(*(a_job(f"t{n}", gpus="T4:1", max_runtime=3600) for n in range(4)))
    world.run(a_job("gang", gpus=4)).advance(601)
    assert world.waiting() == {"gang"}
    world.run(*(a_job(f"s{n}", gpus="A100:1") for n in range(3)))
    assert {"s0", "s1", "s2"} <= world.running()
