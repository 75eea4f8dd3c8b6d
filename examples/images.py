"""Classify images: a small convolutional network with BatchNorm and dropout, on pictures made here.

Runs by itself, under torchrun, and in a Grus job of any size that may change while it runs.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

import grus

CLASSES, SIDE = 10, 16


def pictures(count: int, seed: int) -> TensorDataset:
    """Each class is a pattern of its own; a picture is that pattern, moved a little, under noise."""
    patterns = torch.randn(CLASSES, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    chance = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=chance)
    moves = torch.randint(-2, 3, (count, 2), generator=chance).tolist()
    moved = [patterns[c].roll(move, dims=(1, 2)) for c, move in zip(labels.tolist(), moves, strict=True)]
    return TensorDataset(torch.stack(moved) + torch.randn(count, 1, SIDE, SIDE, generator=chance), labels)


def network() -> nn.Module:
    def block(inputs: int, outputs: int) -> list[nn.Module]:
        convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        return [convolution, nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]

    head = [nn.Flatten(), nn.Dropout(0.2), nn.Linear(32 * (SIDE // 4) ** 2, CLASSES)]
    return nn.Sequential(*block(1, 16), *block(16, 32), *head)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--epochs", type=int, default=6)
    options.add_argument("--samples", type=int, default=4096)
    options.add_argument("--batch", type=int, default=128)
    options.add_argument("--largest-batch", type=int, help="let Grus choose a batch up to this one")
    chosen = options.parse_args()

    torch.manual_seed(0)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, chosen.epochs)
    batch = (chosen.batch, chosen.largest_batch) if chosen.largest_batch else chosen.batch
    run = grus.train(
        model,
        optimizer,
        pictures(chosen.samples, seed=1),
        global_batch=batch,
        micro_batch=32,
        epochs=chosen.epochs,
        scheduler=scheduler,
        scheduler_per="epoch",
    )
    for images, labels in run:
        loss = run.step(F.cross_entropy(run.model(images), labels))
        if loss is not None and run.rank == 0 and run.steps % 16 == 0:
            print(f"step {run.steps}, epoch {run.epoch}, {run.world} workers: loss {loss:.4f}", flush=True)

    loss, accuracy = evaluate(run)
    run.report(accuracy=accuracy)
    if run.rank == 0:
        print(f"on pictures never seen: loss {loss:.4f}, accuracy {accuracy:.3f}", flush=True)


def evaluate(run: grus.Run) -> tuple[float, float]:
    with run.evaluate():
        images, labels = (one.to(run.device) for one in pictures(1024, seed=2).tensors)
        output = run.model(images)
        return F.cross_entropy(output, labels).item(), (output.argmax(1) == labels).float().mean().item()


if __name__ == "__main__":
    main()
