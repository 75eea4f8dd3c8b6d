import copy
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from grus.partition.stages import Stage, build, cut, leaves
from tests.partition.networks import NETWORKS, cuts, exported, gradients

EXACT = 1e-12
CPU = torch.device("cpu")


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    parameters = model.named_parameters(remove_duplicate=False)
    return {f"model.{name}": one for name, one in (*parameters, *model.named_buffers())}


def run(stages: Sequence[Stage], modules: Sequence[nn.Module], batch: dict[str, Tensor]) -> Tensor:
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
    assert len(list(whole.parameters())) == sum(len(stage.parameters) for stage in stages)
    for name, gradient in wanted.items():
        assert (seen[f"model.{name}"] - gradient).abs().max() <= EXACT, name
    for (name, one), (_, other) in zip(whole.named_buffers(), parts.named_buffers(), strict=True):
        assert torch.allclose(one, other, rtol=0, atol=EXACT), name
