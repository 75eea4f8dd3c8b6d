"""Trainings that ask for their numbers are traced all the same."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import LBFGS, SGD, Optimizer, SparseAdam

from grus.estimation.allocation_trace import Trace
from grus.estimation.fake_tensor_trace import trace
from grus.estimation.training_definition import Training
from grus.model.errors import BadInput


def traced(loss: Callable[[nn.Module, Tensor], Any], optimizer: Callable[[Any], Optimizer] = SGD) -> Trace:
    training = Training(lambda: nn.Linear(16, 8), optimizer, lambda n: torch.zeros(n, 16), loss, size=4)
    return trace(training)


@pytest.mark.parametrize(
    "broken",
    [
        lambda x: torch.isnan(x).any(),
        lambda x: torch.isinf(x).sum() > 0,
        lambda x: not torch.isfinite(x).all(),
        lambda x: torch.isnan(x.mean()) or torch.isinf(x.mean()),
        lambda x: torch.isnan(x).any().item(),
        lambda x: not (~torch.isnan(x)).all(),
    ],
)
def test_nothing_is_broken(broken: Callable[[Tensor], bool]) -> None:
    def loss(model: nn.Module, batch: Tensor) -> Tensor:
        found: Tensor = model(batch)
        if broken(found):
            raise ArithmeticError("the loss is not a number")
        return found.mean()

    assert traced(loss).peak > 0


def test_other_questions_are_answered_with_yes() -> None:
    asked: list[object] = []

    def loss(model: nn.Module, batch: Tensor) -> Tensor:
        found: Tensor = model(batch)
        asked.append((bool(found.sum() > 3), found.mean().item(), int(found.argmax())))
        return found.mean()

    traced(loss)
    assert asked == [(True, 1.0, 1)] * 2


def test_a_loop_that_waits_for_a_no_ends() -> None:
    def loss(model: nn.Module, batch: Tensor) -> Tensor:
        found: Tensor = model(batch)
        while found.norm() > 1:
            found = found / 2
        return found.mean()

    assert traced(loss).peak > 0


def test_a_loop_that_waits_for_a_yes_is_told() -> None:
    def loss(model: nn.Module, batch: Tensor) -> Tensor:
        found: Tensor = model(batch)
        while not torch.isnan(found).any():
            found = found / 2
        return found.mean()

    with pytest.raises(BadInput, match="is there a loop that waits for them"):
        traced(loss)


@pytest.mark.parametrize(
    "choose",
    [
        lambda x: x[x > 0],
        lambda x: torch.masked_select(x, x > 0),
        lambda x: x[torch.nonzero(x > 0)[:, 0]],
        lambda x: x[:, (x > 0).any(0)],
        lambda x: torch.where(x > 0, x, -x),
        lambda x: x[x.argmax(1) % 4] + x.long().unique().numel(),
    ],
)
def test_what_a_mask_chooses_is_everything(choose: Callable[[Tensor], Tensor]) -> None:
    shapes = []

    def loss(model: nn.Module, batch: Tensor) -> Tensor:
        chosen = choose(model(batch))
        shapes.append(chosen.numel())
        return chosen.mean()

    traced(loss)
    assert min(shapes) >= 4 * 8


def test_an_optimizer_that_looks_at_the_loss_again_is_given_it() -> None:
    assert traced(lambda model, batch: model(batch).mean(), LBFGS).peak > 0


def test_sparse_gradients_are_traced() -> None:
    def loss(model: nn.Module, batch: Tensor) -> Tensor:
        found: Tensor = model(batch)
        return found.pow(2).mean()

    training = Training(
        lambda: nn.Embedding(100, 8, sparse=True),
        lambda parameters: SparseAdam(list(parameters)),
        lambda n: torch.zeros(n, 3, dtype=torch.int64),
        loss,
        size=4,
    )
    assert trace(training).peak > 0
