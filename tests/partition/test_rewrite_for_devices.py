"""A split model computes what the whole one does, wherever its operators run."""

import copy
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim import Adam
from torch.utils._pytree import tree_map

from grus.estimation.meta_tensors import built
from grus.estimation.training_definition import Training
from grus.model.errors import BadInput
from grus.partition.capture_profile import Captured, capture
from grus.partition.execution.placement_plan import Plan
from grus.partition.portfolio_planner import place
from grus.partition.rewrite_for_devices import Split, realize
from grus.partition.topology import Link, alike
from tests.partition.trainings import GPU, TRAININGS, of_rows

CPUS = [torch.device("cpu")] * 3


def same(one: Any, two: Any) -> None:
    torch.testing.assert_close(one, two, rtol=0, atol=1e-12)


def doubled(batch: Any) -> Any:
    def wide(value: Any) -> Any:
        return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value

    return tree_map(wide, batch)


def in_double(training: Training) -> Training:
    return Training(
        lambda: training.model().double(),
        training.optimizer,
        lambda size: doubled(training.batch(size)),
        training.loss,
        training.size,
    )


class Written(nn.Module):
    """Writes into its batch."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        x[:, 0] = 0.5
        result: Tensor = self.body(x * 2) + x.sum()
        return result


class Twice(nn.Module):
    """One weight under two names; one parameter that nobody reads; a buffer that is not saved."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.unused = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(2, 2)
        self.two.weight = self.one.weight
        self.register_buffer("scale", torch.full((8,), 2.0), persistent=False)
        self.last = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.two(torch.relu(self.one(x)) * self.get_buffer("scale")))
        return result


ALL = TRAININGS | {"written": of_rows(Written), "twice": of_rows(Twice)}


@cache
def captured(name: str) -> Captured:
    return capture(in_double(ALL[name]), 4, GPU)


def anywhere(found: Captured, seed: int, devices: int = 3) -> list[int]:
    """A random device for each group."""
    chance, homes = random.Random(seed), dict[str, int]()
    return [homes.setdefault(op.group or op.name, chance.randrange(devices)) for op in found.forward.ops]


def trained(module: nn.Module, forward: Any, batches: Sequence[Any]) -> list[Tensor]:
    """The losses and last gradients of a few steps with one seed."""
    optimizer = Adam(module.parameters(), lr=0.01)
    torch.manual_seed(7)
    seen = []
    for batch in batches:
        optimizer.zero_grad()
        loss = forward(doubled(copy.deepcopy(batch)))
        loss.backward()
        optimizer.step()
        seen.append(loss.detach())
    return [*seen, *(one.grad for one in module.parameters() if one.grad is not None)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ALL)
def test_losses_gradients_weights_and_statistics_equal_those_of_the_whole_model(name: str, seed: int) -> None:
    training = in_double(ALL[name])
    whole = training.model()
    split = realize(captured(name), copy.deepcopy(whole), anywhere(captured(name), seed), CPUS)
    torch.manual_seed(seed)
    batches = [training.batch(4) for _ in range(3)]
    one = trained(whole, lambda batch: training.loss(whole, batch), batches)
    two = trained(split, split, batches)
    same(two, one)
    same(dict(split.model.state_dict()), dict(whole.state_dict()))


def test_the_answer_of_the_placers_runs() -> None:
    found = captured("branches")
    plan = place(found.graph, alike([70_000] * 3, Link(1e-12)))
    assert isinstance(plan, Plan)
    assert len(set(plan.device_of)) > 1
    training = in_double(ALL["branches"])
    model, batch = training.model(), training.batch(4)
    split = realize(found, copy.deepcopy(model), plan.device_of, CPUS)
    same(split(batch), training.loss(model, batch))


@pytest.mark.parametrize("name", ["tied", "awkward", "recurrent", "twice"])
@pytest.mark.parametrize("seed", range(3))
def test_every_operator_finds_all_of_its_inputs_on_its_own_device(name: str, seed: int) -> None:
    """On tensors without data devices exist that this machine lacks, and mixing them is an error."""
    devices = [torch.device("cuda", number) for number in range(2)]
    placed = anywhere(captured(name), seed, 2)
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    model = built(in_double(ALL[name]).model, fake)
    with fake, torch.no_grad():
        split = realize(captured(name), model, placed, devices)
        loss = split(doubled(ALL[name].batch(4)))
    assert loss.device == devices[placed[-1]]


def copies(split: Split) -> list[tuple[fx.Node, torch.device]]:
    nodes = (node for node in split.body.graph.nodes if "_to_copy" in node.name)
    return [(node.all_input_nodes[0], node.kwargs["device"]) for node in nodes]


def test_a_tensor_goes_to_a_device_once() -> None:
    found = captured("branches")
    placed = [0 if nodes[-1] == "relu_" else 1 for nodes in found.nodes]  # what the first block made
    assert sum(one == 0 for one in placed) == 1
    devices = [torch.device("cpu"), torch.device("cpu", 0)]
    split = realize(found, in_double(ALL["branches"]).model(), placed, devices)
    assert [(node.name, device) for node, device in copies(split)] == [
        ("conv2d", devices[0]),
        ("relu_", devices[1]),
    ]


def test_nothing_is_copied_on_one_device() -> None:
    found = captured("tied")
    split = realize(found, in_double(ALL["tied"]).model(), [0] * len(found.nodes), CPUS)
    assert not copies(split)


def test_a_group_that_is_torn_apart_is_refused() -> None:
    found = captured("tied")
    placed = [int("embedding" in nodes) for nodes in found.nodes]
    with pytest.raises(BadInput, match="must be on the device of embedding: they share weights or memory"):
        realize(found, ALL["tied"].model(), placed, CPUS)


def test_a_batch_of_another_shape_is_refused() -> None:
    found = captured("recurrent")
    split: Split = realize(found, in_double(ALL["recurrent"]).model(), [0] * len(found.nodes), CPUS)
    with pytest.raises(
        ValueError, match=r"like the one that was captured, .*\(4, 5, 8\).*this is .*\(3, 5, 8\)"
    ):
        split(doubled(ALL["recurrent"].batch(3)))


def test_the_example_of_the_documentation_is_split_and_trains() -> None:
    page = (Path(__file__).parents[2] / "docs" / "capture.md").read_text(encoding="utf-8")
    made: dict[str, Any] = {}
    exec(page.split("```python")[1].split("```")[0], made)
    assert set(made["plan"].device_of) == {0, 1}
    assert all(one.grad is not None for one in made["split"].parameters())
