import pytest

from grus.model.errors import BadInput
from grus.partition.graph import Op, OpGraph
from grus.partition.topology import Device, Link, Topology, alike


def test_a_cycle_is_refused_and_named() -> None:
    with pytest.raises(BadInput, match="a cycle before second"):
        OpGraph((Op("first", 1.0), Op("second", 1.0), Op("third", 1.0)), ((0, 1), (1, 2), (2, 1)))


def test_every_mistake_of_a_graph_is_listed_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        OpGraph((Op("slow", float("inf")), Op("odd", 1.0, output=5, saved=True)), ((0, 7), (0, 7)))
    assert len(caught.value.mistakes) == 5


def test_a_graph_without_operators_is_refused() -> None:
    with pytest.raises(BadInput, match="at least one operator"):
        OpGraph((), ())


def test_operators_come_after_their_inputs_whatever_their_numbers() -> None:
    graph = OpGraph(tuple(Op(str(n), 1.0) for n in range(3)), ((2, 0), (0, 1)))
    assert graph.topological == (2, 0, 1)


def test_devices_that_cannot_be_are_refused() -> None:
    with pytest.raises(BadInput) as caught:
        Topology((Device("a", -1, speed=0.0),), ((Link(-1.0),), ()))
    assert len(caught.value.mistakes) == 4


def test_raising_memory_leaves_larger_devices_alone() -> None:
    assert [one.memory for one in alike([5, 20], Link(1.0)).raised(10).devices] == [10, 20]
