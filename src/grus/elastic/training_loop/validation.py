"""Validation of a training with a `train:` section: evaluates data outside the training set after each epoch.

The samples are divided among the workers, all of which do equally many passes (where each holds a part of the
model, a pass needs them all), and their results are combined.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_map
from torch.utils.data import default_collate

from grus.elastic.run import Run
from grus.estimation.training_definition import Loss, Validation

LOSS = "validation_loss"
"""Name of the reported loss, beside the metric under its own name."""


def figures(run: Run, model: nn.Module, loss: Loss, batch: int, by: Validation) -> dict[str, float]:
    """The mean loss and metric over the data. On all workers alike, between two steps."""
    data = by.data()
    totals: dict[str, float] = {}
    weight = 0.0
    with run.evaluate(), _outputs(model) as last:
        for numbers in mine(len(data), run.rank, run.world, batch):
            samples = default_collate([data[number] for number in numbers or (0,)])
            here = tree_map(lambda one: one.to(run.device) if isinstance(one, Tensor) else one, samples)
            found = {LOSS: float(loss(model, here))}
            if by.metric is not None:
                found[by.name] = float(by.metric(last(), here[1]))
            for name, value in found.items():
                totals[name] = totals.get(name, 0.0) + value * len(numbers)
            weight += len(numbers)
    names = (LOSS, by.name) if by.metric is not None else (LOSS,)
    means = {name: totals.get(name, 0.0) / weight if weight else 0.0 for name in names}
    return {name: run.mean(means[name], weight) for name in names}


def mine(samples: int, rank: int, world: int, batch: int) -> list[range]:
    """The samples of each pass of this worker; an empty one where it only keeps the others company."""
    rounds = -(-samples // (world * batch))
    starts = [(number * world + rank) * batch for number in range(rounds)]
    return [range(min(start, samples), min(start + batch, samples)) for start in starts]


@contextmanager
def _outputs(model: nn.Module) -> Iterator[Callable[[], Any]]:
    """Yield a function that returns the model's last output, which the loss alone does not show."""
    last: list[Any] = [None]

    def kept(module: nn.Module, given: Any, found: Any) -> None:  # noqa: ARG001 - torch's shape
        last[0] = found

    hook = model.register_forward_hook(kept)
    try:
        yield lambda: last[0]
    finally:
        hook.remove()
