"""A script for Horovod's elastic mode that knows nothing of Grus: a line is learned from points on it."""
# mypy: ignore-errors
# A script of a user: whichever `horovod` the job finds is its own business.

import argparse

import horovod.torch as hvd
import torch

options = argparse.ArgumentParser()
options.add_argument("--epochs", type=int, default=1)
args = options.parse_args()

hvd.init()
torch.manual_seed(0)
x = torch.linspace(-1, 1, 64).reshape(-1, 1)
y = 3 * x + 1
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


@hvd.elastic.run
def train(state: object) -> None:
    for state.epoch in range(state.epoch, args.epochs):  # noqa: B020 - Horovod's idiom
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if hvd.rank() == 0:
            print(f"epoch {state.epoch} of {hvd.size()} workers: {loss.item():.4f}", flush=True)
        state.commit()


train(hvd.elastic.TorchState(model=model, optimizer=optimizer, epoch=0))
