"""Programs that the checks run as jobs: they allocate GPU memory and train. Needs torch; run by file name.

    python gpu_memory.py allocate MEGABYTES    exit code 0 if the memory was given
    python gpu_memory.py train                 a few steps; prints the peak in bytes as JSON
    python gpu_memory.py limits NAME ...       prints these variables of its environment as JSON

`make` is the same training for `grus estimate`.
"""

import json
import os
import sys
from typing import Any

STEPS = 5
BATCH, WIDTH = 64, 2048


def make() -> tuple[Any, Any, Any, Any]:
    """Model, optimizer, batch and loss of a small training."""
    import torch
    from torch import nn

    model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())))
    optimizer = torch.optim.Adam(model.parameters())
    batch = (torch.randn(BATCH, WIDTH), torch.randn(BATCH, WIDTH))
    return model, optimizer, batch, nn.functional.mse_loss


def allocate(megabytes: int) -> int:
    """Take so much memory of the first GPU."""
    import torch

    taken = torch.ones(megabytes * 1_000_000, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    return 0 if int(taken[-1]) == 1 else 1


def train() -> int:
    """Train on the first GPU; print the most memory that torch has reserved on it."""
    import torch

    model, _, (x, y), loss = make()
    model, x, y = model.cuda(), x.cuda(), y.cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
    torch.cuda.synchronize()
    return tell({"peak": torch.cuda.max_memory_reserved()})


def limits(*names: str) -> int:
    return tell({name: os.environ.get(name, "") for name in names})


def tell(found: dict[str, Any]) -> int:
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


def main(verb: str, *words: str) -> int:
    if verb == "allocate":
        return allocate(int(words[0]))
    return limits(*words) if verb == "limits" else train()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
