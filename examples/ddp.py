"""An ordinary script for torchrun with torch's DistributedDataParallel: resized by saving and starting again.

On SIGTERM all workers stop after the same step, the first one saves, and all exit with 0. The next start may
have another number of workers.
"""

import argparse
import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from images import network, pictures
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

FOLDER = Path(os.environ.get("GRUS_CHECKPOINT", "out/ddp"))
SAVED = FOLDER / f"{os.environ.get('GRUS_JOB', 'by-hand')}.pt"
asked_to_end = [False]


def save(state: dict[str, object]) -> None:
    """Whole or not at all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    draft = SAVED.with_suffix(".draft")
    torch.save(state, draft)
    draft.replace(SAVED)


def somebody_was_asked() -> bool:
    flag = torch.tensor(float(asked_to_end[0]))
    dist.all_reduce(flag)
    return bool(flag > 0)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--epochs", type=int, default=4)
    options.add_argument("--samples", type=int, default=4096)
    chosen = options.parse_args()

    signal.signal(signal.SIGTERM, lambda *_: asked_to_end.__setitem__(0, True))
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    first = 0
    if os.environ.get("GRUS_RESUME") == "1" and SAVED.exists():
        state = torch.load(SAVED, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"]
    print(f"worker {rank} of {world}: from epoch {first} on", flush=True)

    data = pictures(chosen.samples, seed=1)
    sampler: DistributedSampler[object] = DistributedSampler(data)
    parallel = DistributedDataParallel(model)
    for epoch in range(first, chosen.epochs):
        sampler.set_epoch(epoch)
        for images, labels in DataLoader(data, 128 // world, sampler=sampler):
            if somebody_was_asked():
                if rank == 0:
                    save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch})
                print(f"worker {rank}: epoch {epoch} will be done again, leaving", flush=True)
                return
            optimizer.zero_grad()
            loss = F.cross_entropy(parallel(images), labels)
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
    if dist.is_initialized():
        dist.destroy_process_group()
