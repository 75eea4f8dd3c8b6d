"""A training written for Horovod's elastic mode, as far as the test that started it allows."""

import argparse
import hashlib
import json
import logging
import threading
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import grus.elastic.adapters.horovod as hvd

SAMPLES, BATCH, EPOCHS, LR = 96, 4, 4, 0.01


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--folder", type=Path, required=True)
    options.add_argument("--name", required=True)
    options.add_argument("--backend")
    chosen = options.parse_args()
    logging.basicConfig()
    torch.set_num_threads(1)
    hvd.init()
    torch.manual_seed(0)
    x = torch.randn(SAMPLES, 8, generator=torch.Generator().manual_seed(1))
    data = TensorDataset(x, x.sum(1, keepdim=True))
    sampler = hvd.elastic.ElasticSampler(data)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR * hvd.size(), momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    losses = (chosen.folder / f"losses-{chosen.name}").open("a")

    @hvd.elastic.run
    def train(state: hvd.elastic.TorchState) -> None:
        for state.epoch in range(state.epoch, EPOCHS):  # noqa: B020 - Horovod's idiom
            for number, (inputs, wanted) in enumerate(DataLoader(data, BATCH, sampler=sampler)):
                wait_for_leave(chosen.folder / "limit", state.batch)
                optimizer.zero_grad()
                loss = F.mse_loss(model(inputs), wanted)
                loss.backward()
                optimizer.step()
                scheduler.step()
                state.batch += 1
                sampler.record_batch(number, BATCH)
                mean = hvd.allreduce(loss.detach(), name="loss").item()
                losses.write(f"{state.batch} {mean!r}\n")
                losses.flush()
                state.commit()
            sampler.set_epoch(state.epoch + 1)

    def new_team() -> None:
        resets.append(hvd.size())
        for group in optimizer.param_groups:
            group["lr"] = LR * hvd.size()

    resets: list[int] = []
    state = hvd.elastic.TorchState(
        model=model, optimizer=optimizer, scheduler=scheduler, sampler=sampler, epoch=0, batch=0
    )
    state.register_reset_callbacks([new_team])
    train(state)
    content = b"".join(one.detach().numpy().tobytes() for one in model.parameters())
    ended = {
        "batch": state.batch,
        "hash": hashlib.sha256(content).hexdigest(),
        "lr": optimizer.param_groups[0]["lr"],
        "resets": resets,
        "size": hvd.size(),
    }
    (chosen.folder / f"ended-{chosen.name}").write_text(json.dumps(ended))


def wait_for_leave(limit: Path, step: int) -> None:
    pause = threading.Event()
    while step >= int(limit.read_text()):
        pause.wait(0.002)


if __name__ == "__main__":
    main()
