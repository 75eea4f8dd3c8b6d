"""A worker of a split training, small enough for a test: `python split_program.py network folder`.

While the file named by GATE exists, no worker completes more steps than the number in it.
"""

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer

from grus.elastic.split import pipeline_trainer
from grus.estimation.training_definition import Training
from tests.partition.networks import NETWORKS, loss

SAMPLES, BATCH, EPOCHS, SEED = 56, 16, 2, 3


class Samples(torch.utils.data.Dataset[Any]):
    def __init__(self, network: str) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(11)
            self._all = NETWORKS[network][1](SAMPLES)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, number: int) -> tuple[Tensor, ...]:
        return tuple(one[number] for one in self._all)


def adam(parameters: Any) -> Optimizer:
    """Matrices and vectors differ, as people like to have it."""
    listed = list(parameters)
    groups = [
        {"params": [one for one in listed if one.dim() > 1], "weight_decay": 0.1},
        {"params": [one for one in listed if one.dim() <= 1], "weight_decay": 0.0},
    ]
    return Adam(groups, lr=0.01)


def training(network: str) -> Training:
    make, batches = NETWORKS[network]

    def batch(count: int) -> Any:
        return tuple(torch.empty_like(one) for one in batches(count))

    data = Samples(network)
    return Training(make, adam, batch, loss, BATCH, lambda: data, EPOCHS, SEED)


def wait_at(gate: Path) -> None:
    """Hold every step before it is complete, while the gate says so."""
    usual = pipeline_trainer._PipelineRun._settled

    def settled(run: pipeline_trainer._PipelineRun, loss: float | None) -> tuple[float, bool, bool]:
        with suppress(FileNotFoundError):
            while run.at.step > int(gate.read_text()):
                time.sleep(0.002)
        return usual(run, loss)

    setattr(pipeline_trainer._PipelineRun, "_settled", settled)  # noqa: B010 - a method, replaced on purpose


if __name__ == "__main__":
    wait_at(Path(os.environ["GATE"]))
    pipeline_trainer.train_split(training(sys.argv[1]), checkpoint=Path(sys.argv[2]))
