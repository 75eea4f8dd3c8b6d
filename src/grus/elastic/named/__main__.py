"""Train by name, on one worker or on many that come and go.

python -m grus.elastic.named --model resnet50 --data train.tfrecord --loss crossentropy --optimizer adam
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import gettempdir
from typing import TypeVar

import torch
from torch import nn

import grus
from grus.elastic.named.models import model
from grus.elastic.named.records import dataset
from grus.model.errors import BadInput, Mistake
from grus.model.texts.plural_words import counted

T = TypeVar("T")
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

OPTIMIZERS: dict[str, tuple[type[torch.optim.Optimizer], float]] = {
    "adam": (torch.optim.Adam, 1e-3),
    "adamw": (torch.optim.AdamW, 1e-3),
    "adagrad": (torch.optim.Adagrad, 1e-2),
    "rmsprop": (torch.optim.RMSprop, 1e-3),
    "sgd": (torch.optim.SGD, 1e-2),
}
"""Optimizers with their usual learning rates."""


def squared(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean squared error against one for the right class and zero for the others."""
    right = nn.functional.one_hot(labels, output.shape[1]).to(output.dtype)
    return nn.functional.mse_loss(output, right)


LOSSES: dict[str, Loss] = {
    "crossentropy": nn.functional.cross_entropy,
    "mse": squared,
    "meansquarederror": squared,
}


def main() -> int:
    chosen = _arguments()
    try:
        _train(chosen)
    except BadInput as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


def _arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m grus.elastic.named")
    options.add_argument("--model", required=True)
    options.add_argument("--data", default="")
    options.add_argument("--loss", default="crossentropy")
    options.add_argument("--optimizer", default="adam")
    options.add_argument("--epochs", type=int, default=1)
    options.add_argument("--batch", type=int, default=32, help="samples of a step, on all workers together")
    return options.parse_args()


def _train(chosen: argparse.Namespace) -> None:
    torch.manual_seed(0)
    loss = _named("loss", chosen.loss, LOSSES)
    kind, rate = _named("optimizer", chosen.optimizer, OPTIMIZERS)
    data = dataset(chosen.data)
    pictures, labels = data.tensors
    network = model(chosen.model, channels=pictures.shape[1], classes=int(labels.max()) + 1)
    optimizer = kind(network.parameters(), lr=rate)  # type: ignore[call-arg]  # every one of them takes it
    batch = min(chosen.batch, len(data))
    run = grus.train(
        network, optimizer, data, global_batch=batch, epochs=chosen.epochs, checkpoint=_checkpoint()
    )
    for given, wanted in run:
        mean = run.step(loss(run.model(given), wanted))
        if mean is not None and run.rank == 0:
            sys.stdout.write(
                f"step {run.steps}, epoch {run.epoch}, {counted(run.world, 'worker')}: "
                f"{chosen.loss} {mean:.4f}\n"
            )
            sys.stdout.flush()


def _checkpoint() -> Path | None:
    """Return a temporary folder in an image whose current folder is not writable; None otherwise.

    None means the job's own folder or the usual one.
    """
    if os.environ.get("GRUS_CHECKPOINT") or os.access(".", os.W_OK):
        return None
    return Path(gettempdir(), "grus-checkpoints")


def _named(field: str, name: str, known: dict[str, T]) -> T:
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    if plain not in known:
        raise BadInput([Mistake(field, f"must be one of {', '.join(known)}", name)])
    return known[plain]


if __name__ == "__main__":
    sys.exit(main())
