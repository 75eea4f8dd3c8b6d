"""Seeding torch in microseconds.

`torch.manual_seed` takes milliseconds in a process that does not use CUDA: it keeps the call for later, with
a printed stack of how it came about. Here chance is seeded for every micro-batch.
"""

import torch


def sow(seed: int) -> None:
    """Seed torch like `torch.manual_seed`, on the host and on the GPUs if they are in use."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
