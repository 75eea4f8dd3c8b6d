"""The training of `tools/figures.py`: its computation is waiting, as long as a pretend GPU would compute.

The exchange between its workers, and everything that Grus does with them, is real.
"""

import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

import grus

EXAMPLE = 0.02
"""Seconds that an example takes."""
BATCH, MICRO = 64, 8
ENOUGH = "enough"
"""File in the checkpoint folder that ends the run when it appears."""


def data() -> TensorDataset:
    chance = torch.Generator().manual_seed(0)
    x = torch.randn(4096, 32, generator=chance)
    return TensorDataset(x, (x @ torch.randn(32, 10, generator=chance)).argmax(1))


def main() -> int:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    run = grus.train(model, optimizer, data(), global_batch=BATCH, micro_batch=MICRO, epochs=1000)
    for x, y in run:
        time.sleep(EXAMPLE * len(x))
        if run.step(F.cross_entropy(run.model(x), y)) is None:
            continue
        if run.mean(float((grus.checkpoint_path() / ENOUGH).exists())):
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
