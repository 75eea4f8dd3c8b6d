"""A small elastic training of which one rank is slow: the others wait for it in every step."""

import os
import time

import torch

import grus

SLOW = "1"
"""The rank."""
SECONDS = {True: 0.2, False: 0.04}
"""Of a micro-batch."""


def main() -> None:
    torch.set_num_threads(1)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    samples = torch.utils.data.TensorDataset(torch.randn(3000, 8), torch.randn(3000, 1))
    seconds = SECONDS[os.environ.get("RANK") == SLOW]
    run = grus.train(model, optimizer, samples, global_batch=24, micro_batch=8, epochs=1000)
    for inputs, targets in run:
        time.sleep(seconds)  # where a real one computes
        run.step(torch.nn.functional.mse_loss(model(inputs), targets))


if __name__ == "__main__":
    main()
