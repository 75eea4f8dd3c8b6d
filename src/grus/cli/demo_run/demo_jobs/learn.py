"""A real training, in small, whose workers come, go and die while it runs: the five lines of `grus.train`.

After each step its first worker notes the step, the number of workers, the loss and the time.
"""

import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

import grus

ENOUGH = "enough"
"""File in the checkpoint folder that ends the run when it appears."""
NOTES = "losses"


def data() -> TensorDataset:
    chance = torch.Generator().manual_seed(0)
    x = torch.randn(4096, 64, generator=chance)
    return TensorDataset(x, (x @ torch.randn(64, 10, generator=chance)).argmax(1))


def main() -> int:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.9)
    folder = grus.checkpoint_path()
    run = grus.train(model, optimizer, data(), global_batch=128, micro_batch=32, epochs=1000)
    for x, y in run:
        loss = run.step(F.cross_entropy(run.model(x), y))
        if loss is None:
            continue
        if run.rank == 0:
            with (folder / NOTES).open("a") as notes:
                notes.write(f"{run.steps} {run.world} {loss:.4f} {time.time():.3f}\n")
        if run.mean(float((folder / ENOUGH).exists())):
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
