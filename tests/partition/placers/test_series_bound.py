"""The bound of a series: never above what a placement takes, above the longest path where it should be."""

from itertools import product

import pytest
from hypothesis import given

from grus.partition.execution.simulate_step import ranks, simulate
from grus.partition.graph import Op, OpGraph
from grus.partition.operators.backward_graph import mirrored
from grus.partition.placers.lower_bounds import heads, step_bound, tails
from grus.partition.placers.series_bound import series_bound
from grus.partition.topology import Link, Topology, alike
from tests.partition.builders import a_chain, a_diamond, models, pools
from tests.properties.profiles import profile


def bound(graph: OpGraph, topology: Topology) -> float:
    fastest = topology.fastest
    return series_bound(graph, topology, heads(graph, fastest), tails(graph, fastest))


@profile(150)
@given(models(most=6), pools())
def test_no_placement_in_any_order_takes_less(graph: OpGraph, topology: Topology) -> None:
    least = bound(graph, topology)
    for device_of in product(range(len(topology.devices)), repeat=len(graph.ops)):
        for order in (graph.topological, tuple(range(len(graph.ops)))):
            assert simulate(graph, topology, device_of, ranks(order)).seconds >= least * (1 - 1e-9)


@profile(40)
@given(models(most=4), pools())
def test_no_placement_of_a_training_takes_less(graph: OpGraph, topology: Topology) -> None:
    training = mirrored(graph, [2.0] * len(graph.ops))
    least = bound(training, topology)
    devices = range(min(2, len(topology.devices)))
    for device_of in product(devices, repeat=min(8, len(training.ops))):
        places = [*device_of, *[device_of[-1]] * (len(training.ops) - len(device_of))]
        plan = simulate(training, topology, places, ranks(training.topological))
        assert plan.seconds >= least * (1 - 1e-9)


@pytest.mark.parametrize(("output", "least"), [(0, 12.0), (1, 13.0), (3, 15.0), (50, 16.0)])
def test_branches_are_spread_in_the_bound_only_as_far_as_links_allow(output: int, least: float) -> None:
    """Two of 4 s: one stays where the fork is, the other goes where the join is, if sending is quick."""
    assert bound(a_diamond(output), alike([1000] * 2, Link(1.0))) == pytest.approx(least)


def test_a_branch_may_be_left_in_the_middle_where_its_tensor_is_small() -> None:
    ops = [Op(f"op-{n}", 4.0, 1, 0, 100) for n in range(6)]
    ops[1] = Op("small", 4.0, 1, 0, 0)
    graph = OpGraph(tuple(ops), ((0, 1), (1, 2), (2, 5), (0, 3), (3, 4), (4, 5)))
    topology = alike([1000] * 2, Link(1.0))
    plan = simulate(graph, topology, (0, 0, 1, 0, 0, 0), ranks(graph.topological))
    assert bound(graph, topology) <= plan.seconds
    assert bound(graph, topology) >= 4.0 + 8.0 + 4.0


def test_a_chain_takes_as_long_as_its_operators() -> None:
    assert bound(a_chain(1.0, 2.0, 3.0), alike([10] * 2, Link(1.0))) == pytest.approx(6.0)


def test_one_device_needs_no_series() -> None:
    assert bound(a_diamond(), alike([10], Link(1.0))) == 0.0
    assert step_bound(a_diamond(), alike([10], Link(1.0))) == 16.0
