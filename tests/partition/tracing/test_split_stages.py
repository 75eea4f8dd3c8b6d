import copy
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from grus.model.errors import BadInput
from grus.partition.tracing.split_stages import Flow, PartitionStage, build, cut, flows, leaves, shared
from tests.partition.networks import NETWORKS, cuts, exported, gradients, operators

EXACT = 1e-12
CPU = torch.device("cpu")


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    parameters = model.named_parameters(remove_duplicate=False)
    return {f"model.{name}": one for name, one in (*parameters, *model.named_buffers())}


def run(stages: Sequence[PartitionStage], modules: Sequence[nn.Module], batch: dict[str, Tensor]) -> Tensor:
    """One after the other, each with what the one before has sent, as if it came over a wire."""
    received: list[Tensor] = []
    sent: list[tuple[Tensor, Tensor]] = []
    output: object = None
    for stage, module in zip(stages, modules, strict=True):
        output = module(*received, *(batch[leaf] for leaf in stage.leaves))
        if isinstance(output, tuple):
            assert all(one.is_contiguous() for one in output)
            received = [one.detach().requires_grad_(one.requires_grad) for one in output]
            sent += zip(output, received, strict=True)
    assert isinstance(output, Tensor)
    output.backward()
    for before, after in reversed(sent):
        if before.requires_grad and after.grad is not None:
            before.backward(after.grad, retain_graph=True)
    return output


CUTS = [
    ("residual", [3]),
    ("residual", [5]),
    ("residual", [2, 4, 7]),
    ("residual", [1, 6]),
    ("residual", [8, 9]),
    ("tied", [46]),
    ("tied", [20]),
    ("tied", [6, 30]),
    ("untied", [1, 2, 12, 27]),
    ("untied", [4, 38, 40, 47]),
    ("untied", [30]),
]


@pytest.mark.parametrize(("network", "places"), CUTS)
def test_loss_gradients_and_statistics_are_those_of_the_whole_model(network: str, places: list[int]) -> None:
    make, batches = NETWORKS[network]
    torch.manual_seed(1)
    whole, batch = make(), batches()
    parts = copy.deepcopy(whole)
    program = exported(copy.deepcopy(whole), batch)
    stages = cut(program, cuts(program, places))
    assert len(stages) == len(places) + 1
    modules = [build(stage, tensors_of(parts), CPU) for stage in stages]
    torch.manual_seed(2)
    expected = nn.functional.cross_entropy(whole(batch[0]).flatten(0, -2), batch[1].flatten())
    expected.backward()
    torch.manual_seed(2)
    found = run(stages, modules, dict(zip(leaves(program), tree_leaves(batch), strict=True)))
    assert abs(found.item() - expected.item()) <= EXACT
    wanted = dict(gradients(whole))
    seen = {name: grad for module in modules for name, grad in gradients(module)}
    seen |= {other: seen[name] for stage in stages for other, name in stage.tied}
    twice = sum(len(numbers) - 1 for numbers in shared(stages).values())
    assert len(list(whole.parameters())) + twice == sum(len(stage.parameters) for stage in stages)
    for name, gradient in wanted.items():
        assert (seen[f"model.{name}"] - gradient).abs().max() <= EXACT, name
    for (name, one), (_, other) in zip(whole.named_buffers(), parts.named_buffers(), strict=True):
        assert torch.allclose(one, other, rtol=0, atol=EXACT), name


def test_what_crosses_is_known_before_anything_runs() -> None:
    make, batches = NETWORKS["residual"]
    program = exported(make(), batches())
    stages = cut(program, cuts(program, [4, 11]))
    # The first picture is needed by both; the mean of the pictures is made of the batch, at the end.
    early = Flow((4, 6, 6, 6), torch.float64, requires_grad=True)
    assert flows(program, stages) == ((early,), (Flow((4, 5), torch.float64, requires_grad=True),))
    assert [stage.leaves for stage in stages] == [("batch_0",), (), ("batch_0", "batch_1")]


def test_data_must_not_flow_backwards() -> None:
    make, batches = NETWORKS["residual"]
    program = exported(make(), batches())
    stage_of = cuts(program, [4])
    stage_of["batch_norm"] = 1
    with pytest.raises(BadInput, match=r"relu.*reads batch_norm of stage 1"):
        cut(program, stage_of)


def test_a_weight_that_two_stages_read_is_in_both() -> None:
    make, batches = NETWORKS["tied"]
    program = exported(make(), batches())
    stages = cut(program, cuts(program, [6, 30]))
    (numbers,) = shared(stages).values()
    assert numbers == (0, 2)


class Twice(nn.Module):
    """One BatchNorm in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(6), nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.norm(self.norm(x).relu()))
        return result


def test_statistics_that_two_stages_would_change_are_named() -> None:
    program = exported(Twice(), (torch.randn(4, 6), torch.randint(0, 5, (4,))))
    stage_of = {name: int(name not in ("add_", "batch_norm")) for name in operators(program)}
    with pytest.raises(BadInput, match=r"running_mean.*is used by stages 0, 1"):
        cut(program, stage_of)


class Overwriting(nn.Module):
    """Changes a part of what is read as a whole afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, values: Tensor) -> Tensor:
        inner = self.first(values)
        inner[:, 0] = 0.0
        return self.second(inner)  # type: ignore[no-any-return] # modules give Any


def test_changes_of_a_part_stay_with_who_reads_the_whole() -> None:
    batch = torch.randn(3, 4), torch.randint(0, 4, (3,))
    program = exported(Overwriting(), batch)
    names = operators(program)
    with pytest.raises(BadInput, match="change each other in place"):
        cut(program, cuts(program, [names.index("linear_1") - 1]))
    assert len(cut(program, cuts(program, [names.index("linear_1") + 1]))) == 2
