"""A script written for Horovod's elastic mode: only the import was changed.

Nothing is lost when workers come, go or die: at most what was done since the last `state.commit()` is redone.
"""

import argparse

import torch
import torch.nn.functional as F
from images import network, pictures
from torch.utils.data import DataLoader

import grus.elastic.adapters.horovod as hvd

options = argparse.ArgumentParser()
options.add_argument("--epochs", type=int, default=4)
options.add_argument("--samples", type=int, default=4096)
options.add_argument("--batch", type=int, default=32, help="of one worker")
args = options.parse_args()

hvd.init()
torch.manual_seed(0)
if torch.cuda.is_available():
    torch.cuda.set_device(hvd.local_rank())
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

LR = 0.005
data = pictures(args.samples, seed=1)
sampler = hvd.elastic.ElasticSampler(data)
loader = DataLoader(data, args.batch, sampler=sampler)
model = network().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=LR * hvd.size(), momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


@hvd.elastic.run
def train(state: hvd.elastic.TorchState) -> None:
    for state.epoch in range(state.epoch, args.epochs):  # noqa: B020 - Horovod's own idiom
        model.train()
        loss = torch.zeros(())
        for number, (images, labels) in enumerate(loader):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            sampler.record_batch(number, args.batch)
            state.batch += 1
            state.commit()
        mean = hvd.allreduce(loss.detach(), name="loss").item()
        if hvd.rank() == 0:
            print(f"epoch {state.epoch}, {hvd.size()} workers: loss {mean:.4f}", flush=True)
        sampler.set_epoch(state.epoch + 1)


def new_team() -> None:
    """The batch of all workers together has changed: so does the learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = LR * hvd.size()


state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0, batch=0)
state.register_reset_callbacks([new_team])
train(state)
