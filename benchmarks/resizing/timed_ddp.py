"""Plain DDP on the wide model, in turns: what an undisturbed step costs without any elasticity."""

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from benchmarks.resizing import wide
from benchmarks.resizing.turns import Turn


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    parallel = DistributedDataParallel(wide.model())
    optimizer = wide.adam(parallel)
    data = wide.Examples()
    sampler: DistributedSampler[tuple[torch.Tensor, torch.Tensor]] = DistributedSampler(data)
    turn = Turn()
    turn.step()
    for inputs, targets in DataLoader(data, batch_size=wide.BATCH, sampler=sampler):
        optimizer.zero_grad()
        loss = cross_entropy(parallel(inputs), targets)
        loss.backward()
        optimizer.step()
        turn.step()


if __name__ == "__main__":
    main()
