"""`grus.train` in a process of its own making: what a loop sees, what it is refused, and how it ends."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.utils.data import IterableDataset, TensorDataset

import grus
from grus.elastic.data.batch import Batch
from grus.elastic.run import Run
from grus.model.errors import BadInput


def parts(samples: int = 32) -> tuple[torch.nn.Module, torch.optim.Optimizer, TensorDataset]:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    data = torch.randn(samples, 4)
    return model, torch.optim.SGD(model.parameters(), 0.1), TensorDataset(data, data.sum(1, keepdim=True))


def loss_of(run: Run, batch: Batch) -> torch.Tensor:
    loss: torch.Tensor = ((run.model(batch.x) - batch.y) ** 2).mean()
    return loss


class Counting(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    """Twenty samples without a length."""

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for number in range(20):
            yield torch.full((4,), number / 20), torch.zeros(1)


def test_micro_batches_do_not_change_what_is_learned() -> None:
    """Four micro-batches of a step give the same weights as the step in one piece."""
    found = []
    for micro in (16, 4, 3):
        model, optimizer, data = parts()
        run = grus.train(model, optimizer, data, global_batch=16, micro_batch=micro, epochs=3)
        for batch in run:
            run.step(loss_of(run, batch))
        assert run.steps == 6
        found.append(model.weight.detach().clone())  # type: ignore[operator]  # a Parameter
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(found[0], found[2], rtol=1e-5, atol=1e-7)


def test_every_sample_is_used_once_an_epoch_whatever_the_sizes() -> None:
    model, optimizer, data = parts(samples=29)
    used: list[float] = []
    run = grus.train(model, optimizer, data, global_batch=12, micro_batch=5, epochs=2)
    for batch in run:
        used += batch.x[:, 0].tolist()
        run.step(loss_of(run, batch))
    every = sorted(data.tensors[0][:, 0].tolist())
    assert sorted(used[:29]) == every
    assert sorted(used[29:]) == every


def test_a_stream_is_read_to_its_end_in_every_epoch() -> None:
    model, optimizer, _ = parts()
    ends: list[int] = []
    run = grus.train(
        model,
        optimizer,
        Counting(),
        global_batch=8,
        micro_batch=4,
        epochs=2,
        exact=False,
        on_epoch=lambda run: ends.append(run.steps),
    )
    used = 0
    for batch in run:
        used += len(batch)
        run.step(loss_of(run, batch))
    assert (used, ends) == (40, [3, 6])


def test_a_mean_loss_is_given_when_a_step_is_done_and_only_then() -> None:
    model, optimizer, data = parts()
    run = grus.train(model, optimizer, data, global_batch=16, micro_batch=4, epochs=1)
    given = [run.step(loss_of(run, batch)) for batch in run]
    assert [one is not None for one in given] == [False, False, False, True] * 2
    assert all(math.isfinite(one) for one in given if one is not None)


def test_a_batch_that_was_not_learned_from_is_a_mistake() -> None:
    model, optimizer, data = parts()
    run = grus.train(model, optimizer, data, global_batch=16, epochs=1)
    with pytest.raises(RuntimeError, match="once for every batch"):
        for _ in run:
            pass


def test_an_evaluation_leaves_every_module_as_it_was() -> None:
    model, optimizer, data = parts()
    both = torch.nn.Sequential(model, torch.nn.Dropout())
    both[1].eval()
    run = grus.train(both, optimizer, data, global_batch=16, epochs=1)
    for batch in run:
        with run.evaluate():
            assert not both.training
            assert not both(batch.x).requires_grad
        assert (both.training, both[0].training, both[1].training) == (True, True, False)
        run.step(loss_of(run, batch))


def test_all_mistakes_are_named_at_once() -> None:
    model, optimizer, data = parts()
    with pytest.raises(BadInput) as caught:
        grus.train(model, optimizer, data, global_batch=64, micro_batch=0, epochs=0, scheduler_per="day")
    assert [one.field for one in caught.value.mistakes] == [
        "micro_batch",
        "dataset",
        "epochs",
        "scheduler_per",
    ]
    with pytest.raises(BadInput, match="exact=False"):
        grus.train(model, optimizer, Counting(), global_batch=4, epochs=1)


def test_a_run_goes_on_from_its_checkpoint_with_the_same_losses(tmp_path: Path) -> None:
    """Stopped after an epoch and begun again, a run gives the losses of one that was never stopped."""

    def losses(epochs: int, folder: Path | None) -> list[float]:
        model, optimizer, data = parts()
        rate = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        run = grus.train(
            model, optimizer, data, global_batch=8, epochs=epochs, scheduler=rate, checkpoint=folder
        )
        return [float(found) for batch in run if (found := run.step(loss_of(run, batch))) is not None]

    undisturbed = losses(3, None)
    first = losses(1, tmp_path / "kept")
    assert first + losses(3, tmp_path / "kept") == undisturbed
