"""Types of GPU go where they make the most difference; nobody is kept from one."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grus.model.cluster import Device, Node
from grus.model.identifiers import DeviceId, NodeId
from grus.scheduling.outlook import Outlook
from grus.scheduling.types import Want, assignment, preferences
from tests.scheduling.builders import a_job
from tests.scheduling.world import World

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
    _, found = assignment([Want(1, {BIG: 3.0, SMALL: 1.0})], {BIG: 4, SMALL: 4})
    assert found == pytest.approx({BIG: 0.0, SMALL: 0.0})


def test_a_scarce_type_costs_what_it_is_worth_to_the_next() -> None:
    wants = [Want(1, {BIG: 3.0, SMALL: 1.0}), Want(1, {BIG: 2.0, SMALL: 1.0})]
    assert assignment(wants, {BIG: 1, SMALL: 1})[1][BIG] >= 1.0 - 1e-9


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 5.0), st.floats(0.1, 5.0)), min_size=2, max_size=6))
def test_priced_preferences_are_never_worse_than_the_fastest_for_all(
    speeds: list[tuple[float, float]],
) -> None:
    """Jobs choose in their order; the sum of their speeds with prices is at least that of greed."""
    supply = {BIG: len(speeds) // 2, SMALL: len(speeds) - len(speeds) // 2}
    wants = [Want(1, {BIG: big, SMALL: small}) for big, small in speeds]
    greedy = [tuple(sorted(want.speeds, key=lambda kind: -want.speeds[kind])) for want in wants]
    assert total(wants, preferences(wants, supply), supply) >= total(wants, greedy, supply) - 1e-6


def total(wants: list[Want], orders: list[tuple[int, ...]], supply: dict[int, int]) -> float:
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
