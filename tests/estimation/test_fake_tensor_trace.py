from collections.abc import Callable, Iterable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Adam, Optimizer

from benchmarks.memory_models import (
    Decoder,
    convnext,
    mnasnet,
    mobilenet_v2,
    mobilenet_v3_small,
    regnet,
    resnet,
)
from benchmarks.memory_truth import real_peak
from grus.estimation.allocation_trace import MemoryCategory, Trace
from grus.estimation.allocator import replay
from grus.estimation.fake_tensor_trace import trace
from grus.estimation.memory_breakdown import parts
from grus.estimation.training_definition import Training

MODELS: dict[str, Callable[[], nn.Module]] = {
    "convnext": lambda: convnext((32, 64, 128, 256), (1, 1, 2, 1), 0.2),
    "decoder": lambda: Decoder(128, 2, 500, 64),
    "mnasnet": mnasnet,
    "mobilenet_v2": mobilenet_v2,
    "mobilenet_v3_small": mobilenet_v3_small,
    "perceptron": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(3 * 48 * 48, 256), nn.ReLU(), nn.Linear(256, 1000)
    ),
    "regnet_x": lambda: regnet((32, 64), (1, 2), 16),
    "regnet_y": lambda: regnet((48, 104), (1, 2), 8, 0.25),
    "resnet": lambda: resnet((1, 1, 1, 1)),
}


def sgd(parameters: Iterable[nn.Parameter]) -> Optimizer:
    return SGD(parameters, lr=0.01)


def adam(parameters: Iterable[nn.Parameter]) -> Optimizer:
    return Adam(parameters, lr=0.001)


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return functional.cross_entropy(model(batch[0]).flatten(0, -2), batch[1])


def pictures(count: int) -> tuple[Tensor, Tensor]:
    return torch.randn(count, 3, 48, 48), torch.randint(0, 1000, (count,))


def sentences(count: int) -> tuple[Tensor, Tensor]:
    return torch.randint(0, 500, (count, 64)), torch.randint(0, 500, (count * 64,))


def a_training(
    model: Callable[[], nn.Module],
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] = sgd,
    of: Callable[[nn.Module, tuple[Tensor, Tensor]], Tensor] = loss,
) -> Training:
    return Training(model, optimizer, pictures, of, size=12)


@pytest.mark.parametrize("optimizer", [sgd, adam])
@pytest.mark.parametrize("name", MODELS)
def test_the_traced_peak_is_what_a_real_training_allocates(
    name: str, optimizer: Callable[[Iterable[nn.Parameter]], Optimizer]
) -> None:
    batch = sentences if name == "decoder" else pictures
    training = Training(MODELS[name], optimizer, batch, loss, size=8)
    assert trace(training).peak == pytest.approx(real_peak(training).without_scratch, rel=0.01)


def small() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 48 * 48, 64), nn.Linear(64, 1000))


def weight_bytes(model: nn.Module) -> int:
    return sum(p.numel() * p.element_size() for p in model.parameters())


def born(found: Trace, kind: MemoryCategory) -> int:
    return sum(e.size for e in found.events if e.size > 0 and found.kinds[e.piece] == kind)


def test_weights_gradients_and_state_are_told_apart() -> None:
    need = weight_bytes(small())
    found = trace(a_training(small, adam))
    assert born(found, MemoryCategory.WEIGHTS) == need
    assert born(found, MemoryCategory.GRADIENTS) == 2 * need  # in each of two steps
    shown = parts(found, replay(found.events))
    assert shown.optimizer >= 2 * need
    assert min(shown.weights, shown.gradients) >= need


def test_shared_weights_count_once() -> None:
    def tied() -> nn.Module:
        model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 48 * 48, 64), nn.Linear(64, 64), nn.Linear(64, 64))
        model[3].weight = model[2].weight
        return model

    assert born(trace(a_training(tied)), MemoryCategory.WEIGHTS) == weight_bytes(tied())


def test_nothing_but_the_training_itself_is_alive_after_the_last_step() -> None:
    found = trace(a_training(small))
    left = sum(event.size for event in found.events)
    assert left == 2 * weight_bytes(small())  # weights and their gradients


def test_a_model_far_larger_than_this_machine_is_traced() -> None:
    def huge() -> nn.Module:
        with torch.device("meta"):
            return nn.Sequential(nn.Flatten(), nn.Linear(3 * 48 * 48, 1 << 24), nn.Linear(1 << 24, 1000))

    assert trace(a_training(huge)).peak > 10**12


def test_a_training_that_looks_at_its_numbers_is_traced_along_one_path() -> None:
    def looking(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        found = loss(model, batch)
        return found * 2 if found.item() > 0.5 and bool(found > 0) else found

    assert trace(a_training(small, of=looking)).peak > 0


def test_a_larger_batch_needs_more_activations_only() -> None:
    few, many, most = (trace(a_training(small), size) for size in (4, 8, 12))
    assert born(few, MemoryCategory.ACTIVATIONS) < born(many, MemoryCategory.ACTIVATIONS)
    assert 2 * born(many, MemoryCategory.ACTIVATIONS) == born(few, MemoryCategory.ACTIVATIONS) + born(
        most, MemoryCategory.ACTIVATIONS
    )
    assert born(many, MemoryCategory.WEIGHTS) == born(few, MemoryCategory.WEIGHTS)
    assert born(many, MemoryCategory.GRADIENTS) == born(few, MemoryCategory.GRADIENTS)


def test_an_error_of_the_users_function_comes_out_unchanged() -> None:
    def broken(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return loss(model, (batch[0][:, :1], batch[1]))

    with pytest.raises(RuntimeError, match="must have same reduction dim"):
        trace(a_training(small, of=broken))


def test_the_work_of_one_step_is_counted_forward_and_backward() -> None:
    found = trace(a_training(small))
    products = (3 * 48 * 48 * 64 + 64 * 1000) * 12
    # The weights' gradients of both layers, and the gradient of what the first of them hands on.
    assert sum(one.flops for one in found.works) == 2 * (2 * products + 64 * 1000 * 12)
    assert len(found.works) < found.operators
