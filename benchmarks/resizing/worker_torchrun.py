"""A worker under torchrun, as torch's own examples of elastic training are written.

Snapshots are written by rank 0 every few steps; whoever starts continues from the last one.
"""

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from benchmarks.resizing import workload
from benchmarks.resizing.steps import FOLDER, StepLog

EVERY = 10
"""Steps between two snapshots: half a second of work at most is done again."""


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    snapshot = Path(os.environ[FOLDER]) / "snapshot.pt"
    model = workload.tiny()
    optimizer = workload.adam(model)
    step = load(snapshot, model, optimizer)
    parallel = DistributedDataParallel(model)
    data = workload.examples()
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(data)
    loader = DataLoader(data, batch_size=workload.BATCH, sampler=sampler, drop_last=True)
    log, world = StepLog(), dist.get_world_size()
    while True:
        sampler.set_epoch(step)
        for inputs, targets in loader:
            log.begin()
            optimizer.zero_grad()
            loss = workload.loss(parallel(inputs), targets)
            workload.compute()
            loss.backward()
            optimizer.step()
            step += 1
            log.done(step, world)
            if dist.get_rank() == 0 and step % EVERY == 0:
                save(snapshot, model, optimizer, step)


def load(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Take up the last snapshot; the step it was written at (0: there is none)."""
    if not path.exists():
        return 0
    found = torch.load(path, weights_only=True)
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    step: int = found["step"]
    return step


def save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    draft = path.with_suffix(".draft")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, draft)
    draft.replace(path)


if __name__ == "__main__":
    main()
