import pytest

from grus.model.errors import BadInput
from grus.partition.graph import Op, OpGraph
from grus.partition.operators.backward_graph import mirrored
from tests.partition.builders import a_chain, a_diamond


def test_a_chain_goes_back_the_way_it_came_with_the_gradients_of_its_tensors() -> None:
    graph = mirrored(a_chain(1.0, 1.0, 1.0, output=7), [2.0, 2.0, 2.0])
    names = [graph.ops[number].name for number in graph.topological]
    assert names == ["op-0", "op-1", "op-2", "op-2.backward", "op-1.backward", "op-0.backward"]
    assert [op.output for op in graph.ops if op.backward] == [7, 7, 0]
    assert all(op.group == op.name.split(".")[0] for op in graph.ops)


def test_each_branch_receives_only_its_own_gradient() -> None:
    graph = mirrored(a_diamond(output=5), [1.0] * 4)
    joint = next(number for number, op in enumerate(graph.ops) if op.name == "op-3.backward")
    pieces = [graph.ops[number] for number in graph.consumers[joint]]
    assert graph.ops[joint].output == 0
    assert sorted(one.name for one in pieces) == ["op-3.backward.op-1", "op-3.backward.op-2"]
    assert [one.output for one in pieces] == [5, 5]
    assert all(one.seconds == 0.0 and one.group == "op-3" for one in pieces)


def test_what_passes_no_gradient_on_has_no_backward_operator() -> None:
    graph = mirrored(a_diamond(), [None, 1.0, None, 1.0])
    assert {op.name for op in graph.ops if op.backward} == {"op-3.backward", "op-1.backward"}


def test_kept_bytes_are_among_the_permanent_ones() -> None:
    with pytest.raises(BadInput, match="kept bytes"):
        OpGraph((Op("a", 1.0, permanent=3, kept=4),), ())
