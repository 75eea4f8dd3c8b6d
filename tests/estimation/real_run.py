"""A training that is really run: prints its estimate on a virtual GPU, or the most memory that it took."""

import json
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.memory_models import Decoder
from grus.estimation.fake_tensor_trace import trace
from grus.estimation.gpus import virtual
from grus.estimation.memory_estimator import estimated
from grus.estimation.training_definition import Training


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return nn.functional.cross_entropy(model(batch[0]).flatten(0, -2), batch[1])


def words(count: int) -> tuple[Tensor, Tensor]:
    return torch.randint(0, 2000, (count, 64)), torch.randint(0, 2000, (count * 64,))


def pictures(count: int) -> tuple[Tensor, Tensor]:
    return torch.randn(count, 3, 64, 64), torch.randint(0, 10, (count,))


def convolutions() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()]
    layers += [nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 10))


def deep() -> nn.Module:
    pairs = [nn.Sequential(nn.Linear(64, 4096), nn.ReLU(), nn.Linear(4096, 64)) for _ in range(12)]
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 64), *pairs, nn.Linear(64, 10))


TRAININGS = {
    "decoder": Training(lambda: Decoder(256, 3, 2000, 64), torch.optim.Adam, words, loss, size=8),
    "convolutions": Training(convolutions, torch.optim.SGD, pictures, loss, size=32),
    "deep": Training(deep, torch.optim.Adam, pictures, loss, size=256),
}


def taken(training: Training) -> int:
    """Bytes that this process held at most, with three steps of the training."""
    model = training.model()
    optimizer = training.optimizer(model.parameters())
    for _ in range(3):
        batch = training.batch(training.size)
        optimizer.zero_grad()
        training.loss(model, batch).backward()
        optimizer.step()
    # Not getrusage: that begins with what the process was before it became this program.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def main() -> None:
    torch.set_num_threads(1)
    real, name = sys.argv[1:]
    training = TRAININGS[name]
    if real == "real":
        print(json.dumps(taken(training)))
        return
    found = estimated(trace(training, on_a_gpu=False), virtual(10**10), training.size)
    print(json.dumps([found.estimate, found.upper]))


if __name__ == "__main__":
    main()
