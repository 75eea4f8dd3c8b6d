"""Compute device of a worker."""

import os

import torch


def own_device() -> torch.device:
    """The GPU of this worker among those that it sees, from now on torch's own choice too; else the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK") or 0))
    torch.cuda.set_device(device)
    return device
