"""What is captured of a training: operators, what they hold, what must stay together; and what is refused."""

import pytest
import torch
from torch import nn

from grus.estimation.fake_tensor_trace import trace
from grus.partition.capture_profile import Captured, capture
from grus.partition.execution.simulate_step import ranks, simulate
from grus.partition.graph import Op
from grus.partition.topology import alike
from tests.partition.builders import SLOW
from tests.partition.trainings import GPU, TRAININGS, of_rows


def captured(name: str) -> Captured:
    return capture(TRAININGS[name], 4, GPU)


def op_of(found: Captured, node: str) -> Op:
    (number,) = (number for number, nodes in enumerate(found.nodes) if node in nodes)
    return found.graph.ops[number]


@pytest.mark.parametrize("name", TRAININGS)
def test_every_node_that_computes_belongs_to_one_operator(name: str) -> None:
    found = captured(name)
    nodes = [node for node in found.program.graph.nodes if node.op == "call_function"]
    names = [node.name for node in nodes if not node.name.startswith("_assert")]
    assert sorted(node for nodes in found.nodes for node in nodes) == sorted(names)


@pytest.mark.parametrize("name", TRAININGS)
def test_forward_operators_come_first_and_the_backward_pass_follows_the_loss(name: str) -> None:
    found = captured(name)
    count = len(found.nodes)
    assert found.graph.ops[:count] == tuple(
        op if op.group else next(one for one in found.graph.ops[:count] if one.name == op.name)
        for op in found.forward.ops
    )
    assert all(op.backward for op in found.graph.ops[count:])
    (loss,) = (one for one, two in found.graph.edges if one < count <= two)
    assert "cross_entropy" in found.graph.ops[loss].name


@pytest.mark.parametrize("name", TRAININGS)
def test_weights_with_gradients_and_state_are_held_for_the_whole_step(name: str) -> None:
    model = TRAININGS[name].model()
    trained = sum(one.numel() * 4 for one in model.parameters())
    counters = 4 * len(list(model.parameters()))  # Adam counts its steps
    rest = sum(one.numel() * one.element_size() for one in model.buffers())
    rest += {"awkward": 8 * 4 + 4}.get(name, 0)  # its constants
    held = sum(op.permanent - op.kept for op in captured(name).graph.ops)
    assert held == 4 * trained + counters + rest


@pytest.mark.parametrize("name", ["branches", "tied"])
def test_a_step_on_one_device_takes_a_little_more_than_its_trace(name: str) -> None:
    """Gradients count from the start and what is kept to the end, so that any order fits."""
    found = captured(name)
    whole = simulate(
        found.graph, alike([10**9], SLOW), [0] * len(found.graph.ops), ranks(found.graph.topological)
    )
    peak = trace(TRAININGS[name]).peak
    assert peak <= whole.peaks[0] <= 1.3 * peak


def test_tied_weights_share_a_group_and_are_held_once() -> None:
    found = captured("tied")
    table = op_of(found, "embedding")
    users = [op for op in found.forward.ops if op.group == table.group]
    assert table.group
    assert len(users) == 2
    assert sum(op.permanent >= 4 * 40 * 16 * 4 for op in users) == 1


def test_a_constant_read_in_many_places_ties_nothing_together() -> None:
    found = captured("tied")
    assert op_of(found, "masked_fill").group != op_of(found, "embedding").group


def test_a_change_in_place_stays_with_what_it_changes() -> None:
    found = captured("branches")
    assert op_of(found, "relu_") is op_of(found, "batch_norm")
    shortcut = op_of(found, "add__1")  # it reads two operators, so it is one of its own
    assert shortcut.group == op_of(found, "max_pool2d").group == "max_pool2d"


def test_a_larger_batch_needs_more_of_what_is_kept_and_nothing_else() -> None:
    few, many = (capture(TRAININGS["branches"], size, GPU) for size in (4, 8))
    for one, two in zip(few.graph.ops, many.graph.ops, strict=True):
        assert one.permanent - one.kept == two.permanent - two.kept
        assert one.kept <= two.kept


def test_a_model_far_larger_than_this_machine_is_captured() -> None:
    def huge() -> nn.Module:
        with torch.device("meta"):
            return nn.Sequential(nn.Linear(8, 1 << 24), nn.Linear(1 << 24, 10))

    assert sum(op.permanent for op in capture(of_rows(huge), 4, GPU).graph.ops) > 2**30


def test_what_lives_inside_an_operator_lives_again_in_its_backward_pass() -> None:
    found = captured("tied")
    (back,) = (op for op in found.graph.ops if op.name == "cross_entropy_loss.backward")
    assert back.temporary >= 4 * 8 * 40 * 4  # the gradient of the logarithms: sentences, words, table, bytes


def test_weights_may_be_held_apart_by_everybody_who_reads_them() -> None:
    found = captured("tied")
    table = 4 * 40 * 16 * 4 + 4  # numbers, gradients and two of state; and the count of Adam's steps
    tied = {op.name: op for op in found.graph.ops}
    (other,) = (op for op in found.apart.ops if op.permanent - tied[op.name].permanent == table)
    assert other.group not in {"", "embedding"}
    assert tied[other.name].group == "embedding"
    assert found.apart.edges == found.graph.edges


@pytest.mark.parametrize("name", ["branches", "recurrent"])
def test_without_tied_weights_nothing_can_be_held_apart(name: str) -> None:
    found = captured(name)
    assert found.apart == found.graph
