"""What cannot be captured is refused: the reason, the line of the user's code, what is still possible."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from grus.estimation.training_definition import Training
from grus.model.errors import BadInput
from grus.partition.capture_profile import CannotCapture, capture
from tests.partition.trainings import GPU, of_pairs, of_rows, rows, sgd


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(8, 10)
        self.register_buffer("mean", torch.zeros(10))
        self.steps = 0

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.body(x)
        return result


class Choosing(Plain):
    def forward(self, x: Tensor) -> Tensor:
        known = super().forward(x)
        return known * 2 if known.sum() > 0 else known


class Checking(Plain):
    def forward(self, x: Tensor) -> Tensor:
        known = super().forward(x)
        assert not known.isnan().any()
        return known


class Counting(Plain):
    def forward(self, x: Tensor) -> Tensor:
        known = super().forward(x)
        return known * int(known.sum().item())


class Scaling(Plain):
    def forward(self, x: Tensor) -> Tensor:
        known = super().forward(x)
        return known * known.max().item()


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


class Penalised(Plain):
    def forward(self, x: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        known = super().forward(x)
        (slope,) = torch.autograd.grad(known.sum(), x, create_graph=True)
        return torch.add(known, slope.norm())


class Replacing(Plain):
    def forward(self, x: Tensor) -> Tensor:
        known = super().forward(x)
        self.mean: Tensor = 0.9 * self.get_buffer("mean") + 0.1 * known.detach().mean(0)
        return known - self.mean


class Warming(Plain):
    def forward(self, x: Tensor) -> Tensor:
        self.steps += 1
        return super().forward(x) * min(1.0, self.steps / 100)


class Dropping(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (random.random() < 0.9)


class Jittering(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * np.random.rand()


class Again(Plain):
    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = checkpoint(super().forward, x.requires_grad_(), use_reentrant=True)
        return result


REASONS: list[tuple[type[nn.Module], str]] = [
    (Choosing, "its path depends on numbers"),
    (Checking, "its path depends on numbers"),
    (Counting, "its path depends on numbers"),
    (Scaling, "it takes a number out of a tensor"),
    (Picking, "the size of a tensor depends on numbers"),
    (Away, "it cannot be exported"),
    (Broken, "KeyError: 'no such layer'"),
    (Custom, "it has a backward function of its own, Doubled"),
    (Hooked, "it puts a hook on a tensor"),
    (Penalised, "it takes gradients itself"),
    (Replacing, "it replaces (instead of copy_ into it) its buffer mean"),
    (Warming, "it changes its attribute steps"),
    (Dropping, "it draws random numbers that are not torch's"),
    (Jittering, "it draws random numbers that are not torch's"),
    (Again, "CheckpointFunction (say use_reentrant=False)"),
]


@pytest.mark.parametrize(("model", "reason"), REASONS)
def test_a_refusal_gives_the_reason_and_what_is_still_possible(
    model: type[nn.Module], reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CannotCapture) as refused:
        capture(of_rows(model), 4, GPU)
    said = str(refused.value)
    assert reason in said
    assert "`grus estimate` can still tell its memory" in said
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("model", [Choosing, Checking, Counting, Scaling, Picking, Away, Broken])
def test_a_refusal_names_the_line_of_the_users_code(model: type[nn.Module]) -> None:
    with pytest.raises(CannotCapture, match=r"test_capture_refused\.py, line \d+, in forward: "):
        capture(of_rows(model), 4, GPU)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own compiler, when it is imported
def test_a_compiled_model_is_refused() -> None:
    with pytest.raises(CannotCapture, match="name the model itself"):
        capture(a_training(model=lambda: torch.compile(Plain())), 4, GPU)


def broken(*given: object) -> Any:
    raise ZeroDivisionError("by me")


def a_training(**other: Any) -> Training:
    parts: dict[str, Any] = {"model": Plain, "optimizer": sgd, "batch": rows, "loss": of_pairs, "size": 4}
    return Training(**(parts | other))


@pytest.mark.parametrize("part", ["model", "optimizer", "batch"])
def test_what_a_function_of_the_user_raises_is_said_of_that_function(part: str) -> None:
    with pytest.raises(BadInput, match=rf"{part}: raised ZeroDivisionError: by me\n .*, in broken"):
        capture(a_training(**{part: broken}), 4, GPU)


LOSSES: list[tuple[Callable[[nn.Module, Any], Any], str]] = [
    (
        lambda model, batch: model(batch[0]),
        r"must be one tensor with one number \(found a tensor of \(4, 10\)\)",
    ),
    (lambda model, batch: {"loss": of_pairs(model, batch)}, r"must be one tensor .* \(found dict\)"),
    (lambda model, batch: (of_pairs(model, batch), batch[0]), r"must be one tensor .* \(found tuple\)"),
    (lambda model, batch: 0.5, r"must be one tensor .* \(found float\)"),
    (lambda model, batch: of_pairs(model, batch).detach(), "must have a gradient"),
]


@pytest.mark.parametrize(("loss", "rule"), LOSSES)
def test_a_loss_is_one_number_with_a_gradient(loss: Callable[[nn.Module, Any], Any], rule: str) -> None:
    with pytest.raises(BadInput, match=f"^loss: {rule}"):
        capture(a_training(loss=loss), 4, GPU)


def test_a_batch_holds_tensors_and_numbers() -> None:
    def arrays(size: int) -> Any:
        return {"x": np.zeros((size, 8))}

    with pytest.raises(BadInput, match=r"batch: must hold tensors and numbers, .* \(found ndarray\)"):
        capture(a_training(batch=arrays), 4, GPU)


@pytest.mark.parametrize("size", [0, -3])
def test_a_batch_has_a_sample_at_least(size: int) -> None:
    with pytest.raises(BadInput, match="batch: must have at least one sample"):
        capture(a_training(), size, GPU)


def test_an_absurd_batch_is_captured_like_any_other_and_fits_nowhere() -> None:
    assert sum(op.permanent for op in capture(a_training(), 10**12, GPU).graph.ops) > 10**13


def test_a_model_that_recomputes_its_activations_is_captured_as_if_it_did_not() -> None:
    class Kept(Plain):
        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = checkpoint(super().forward, x, use_reentrant=False)
            return result

    assert capture(of_rows(Kept), 4, GPU).forward == capture(of_rows(Plain), 4, GPU).forward
