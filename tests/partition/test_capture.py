"""What is captured of a training: operators, what they hold, what must stay together; and what is refused."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from grus.estimation.tracing import trace
from grus.model.errors import BadInput
from grus.partition.capture import CannotCapture, Captured, capture
from grus.partition.graph import Op
from grus.partition.schedule import ranks, simulate
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


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.body(x)
        return result


class Choosing(Plain):
    def forward(self, x: Tensor) -> Tensor:
        known = super().forward(x)
        return known * 2 if known.sum() > 0 else known


class Counting(Plain):
    def forward(self, x: Tensor) -> Tensor:
        known = super().forward(x)
        return known * int(known.sum().item())


class Picking(Plain):
    def forward(self, x: Tensor) -> Tensor:
        known = super().forward(x)
        return known + known[known > 0].sum()


class Away(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(super().forward(x).detach().numpy())


class Broken(Plain):
    def forward(self, x: Tensor) -> Tensor:
        raise KeyError("no such layer")


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x * 1.0

    @staticmethod
    def backward(ctx: object, *gradients: Tensor) -> Tensor:
        return gradients[0] * 2


class Custom(Plain):
    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = Doubled.apply(super().forward(x))  # type: ignore[no-untyped-call] # torch's
        return result


class Hooked(Plain):
    def forward(self, x: Tensor) -> Tensor:
        known = super().forward(x)
        known.register_hook(lambda gradient: gradient * 2)
        return known


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Choosing, "its path depends on numbers"),
        (Counting, "its path depends on numbers"),
        (Picking, "the size of a tensor depends on numbers"),
        (Away, "it cannot be exported"),
        (Broken, "KeyError: 'no such layer'"),
        (Custom, "Doubled has a backward function of its own"),
        (Hooked, "a hook on a tensor"),
    ],
)
def test_what_cannot_be_captured_is_refused_with_the_reason_and_what_is_possible(
    model: type[nn.Module], reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CannotCapture) as refused:
        capture(of_rows(model), 4, GPU)
    said = str(refused.value)
    assert reason in said
    assert "`grus estimate` can still tell its memory" in said
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("model", [Choosing, Counting, Picking, Away, Broken])
def test_a_refusal_names_the_line_of_the_users_code(model: type[nn.Module]) -> None:
    with pytest.raises(CannotCapture, match=r"test_capture\.py, line \d+, in forward: "):
        capture(of_rows(model), 4, GPU)


def test_a_loss_of_many_numbers_or_without_a_gradient_is_a_mistake() -> None:
    with pytest.raises(BadInput, match=r"loss: must be one tensor with one number \(found \(4, 10\)\)"):
        capture(of_rows(Plain, lambda model, batch: model(batch[0])), 4, GPU)
    with pytest.raises(BadInput, match="loss: must have a gradient"):
        capture(of_rows(Plain, lambda model, batch: model(batch[0]).detach().sum()), 4, GPU)


def test_a_model_that_recomputes_its_activations_is_captured_as_if_it_did_not() -> None:
    class Again(Plain):
        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = checkpoint(super().forward, x, use_reentrant=False)
            return result

    assert capture(of_rows(Again), 4, GPU).forward == capture(of_rows(Plain), 4, GPU).forward


def test_what_lives_inside_an_operator_lives_again_in_its_backward_pass() -> None:
    found = captured("tied")
    (back,) = (op for op in found.graph.ops if op.name == "cross_entropy_loss.backward")
    assert back.temporary >= 4 * 8 * 40 * 4  # the gradient of the logarithms: sentences, words, table, bytes
