from dataclasses import replace

import pytest

from grus.partition.execution.simulate_step import ranks, simulate
from grus.partition.graph import Op, OpGraph
from grus.partition.topology import Device, Link, Topology, alike
from tests.partition.builders import SLOW, a_chain, a_diamond, two


def test_a_chain_on_one_device_takes_the_sum() -> None:
    plan = simulate(a_chain(1.0, 2.0, 3.0), two(), (0, 0, 0), (0, 1, 2))
    assert plan.seconds == 6.0
    assert plan.transfers == ()


def test_a_cut_edge_costs_its_transfer() -> None:
    plan = simulate(a_chain(1.0, 2.0, output=5), two(), (0, 1), (0, 1))
    assert plan.start == (0.0, 6.0)
    assert plan.seconds == 8.0


def test_branches_on_two_devices_overlap() -> None:
    alone = simulate(a_diamond(), two(), (0, 0, 0, 0), (0, 1, 2, 3))
    apart = simulate(a_diamond(), two(), (0, 0, 1, 0), (0, 1, 2, 3))
    assert (alone.seconds, apart.seconds) == (16.0, 14.0)


def test_a_tensor_with_two_readers_on_a_device_is_sent_once() -> None:
    plan = simulate(a_diamond(output=3), two(), (0, 1, 1, 1), (0, 1, 2, 3))
    assert [(one.producer, one.target) for one in plan.transfers] == [(0, 1)]
    assert plan.seconds == 4.0 + 3.0 + 12.0


def test_a_device_sends_one_tensor_at_a_time() -> None:
    graph = OpGraph(tuple(Op(str(n), 1.0, output=4) for n in range(3)), ((0, 1), (0, 2)))
    plan = simulate(graph, alike([9, 9, 9], SLOW), (0, 1, 2), (0, 1, 2))
    assert [(one.start, one.end) for one in plan.transfers] == [(1.0, 5.0), (5.0, 9.0)]


def test_a_device_receives_one_tensor_at_a_time() -> None:
    graph = OpGraph(tuple(Op(str(n), 1.0, output=4) for n in range(3)), ((0, 2), (1, 2)))
    plan = simulate(graph, alike([9, 9, 9], SLOW), (0, 1, 2), (0, 1, 2))
    assert plan.start[2] == 9.0


def test_of_what_is_ready_the_lowest_rank_goes_first() -> None:
    graph = OpGraph((Op("a", 1.0), Op("b", 1.0)), ())
    assert simulate(graph, two(), (0, 0), (1, 0)).order[0] == (1, 0)
    assert ranks((1, 0)) == [1, 0]


def test_speed_and_link_are_those_of_the_devices() -> None:
    links = ((Link(0.0), Link(2.0, 0.5)), (Link(9.0), Link(0.0)))
    topology = Topology((Device("fast", 9, 2.0), Device("slow", 9, 0.5)), links)
    assert simulate(a_chain(1.0, 1.0), topology, (0, 1), (0, 1)).seconds == 0.5 + 2.5 + 2.0


@pytest.mark.parametrize(("saved", "peak"), [(False, 30 + 5 + 7), (True, 30 + 5)])
def test_outputs_stay_until_read_unless_they_count_as_permanent(saved: bool, peak: int) -> None:
    op = Op("op", 1.0, permanent=10, temporary=5, output=7, saved=saved)
    graph = OpGraph((op, replace(op, output=0), replace(op, output=0)), ((0, 1),))
    assert simulate(graph, two(), (0, 0, 0), (0, 1, 2)).peaks == (peak, 0)


def test_a_copy_takes_memory_from_the_start_of_its_transfer() -> None:
    graph = OpGraph((Op("a", 1.0, output=7), Op("b", 1.0, permanent=2)), ((0, 1),))
    assert simulate(graph, two(), (0, 1), (0, 1)).peaks == (7, 9)


def test_what_nobody_reads_stays_to_the_end() -> None:
    graph = OpGraph((Op("result", 1.0, output=7), Op("later", 1.0, temporary=3)), ())
    assert simulate(graph, two(), (0, 0), (0, 1)).peaks == (10, 0)
