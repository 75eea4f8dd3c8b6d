"""A real training with torch: a small convolution net on the images of the folder `data`, epoch by epoch.

    python train.py EPOCHS

With several workers (RANK, WORLD_SIZE) each has its part of every batch and gradients are averaged over gloo.
After each epoch it evaluates on images held back, saves, and says how far it is.
"""

import os
import sys

import numpy as np
import torch
from torch import distributed, nn

import grus

BATCH = 64
HELD_BACK = 0.1


def main(epochs: int) -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    rank, workers = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if workers > 1:
        distributed.init_process_group("gloo")
    images = torch.from_numpy(np.load("data/images.npy"))
    labels = torch.from_numpy(np.load("data/labels.npy"))
    first = int(len(images) * HELD_BACK)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * 6 * 6, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    steps = (len(images) - first) // BATCH
    for epoch in range(epochs):
        order = torch.randperm(len(images) - first, generator=torch.Generator().manual_seed(epoch)) + first
        for step in range(steps):
            mine = order[step * BATCH : (step + 1) * BATCH][rank::workers]
            loss = nn.functional.cross_entropy(net(images[mine]), labels[mine])
            optimizer.zero_grad()
            loss.backward()
            if workers > 1:
                for parameter in net.parameters():
                    if parameter.grad is not None:
                        distributed.all_reduce(parameter.grad)
                        parameter.grad /= workers
            optimizer.step()
            grus.report(step=epoch * steps + step + 1, total=epochs * steps, batch=BATCH, epoch=epoch)
        with torch.no_grad():
            right = (net(images[:first]).argmax(1) == labels[:first]).float().mean()
        if rank == 0:
            torch.save(net.state_dict(), "model.pt")
        grus.report(accuracy=float(right))


if __name__ == "__main__":
    main(int(sys.argv[1]))
