"""Quality metrics of a model, by the names of `api.train_names.METRICS`: means over a batch's samples."""

import torch
from torch import Tensor


def accuracy(output: Tensor, target: Tensor) -> Tensor:
    """Return the part of samples whose largest output is
    that of their class; of one output, its side of 0.
    """
    if output.dim() > 1 and output.shape[1] > 1:
        return (output.argmax(1) == target).float().mean()
    return ((output > 0).reshape(-1) == (target > 0.5).reshape(-1)).float().mean()


def top5(output: Tensor, target: Tensor) -> Tensor:
    """Return the part of the samples whose class is among the five largest outputs."""
    among = output.topk(min(5, output.shape[1]), 1).indices
    return (among == target.unsqueeze(1)).any(1).float().mean()


def mae(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).abs().mean()


def mse(output: Tensor, target: Tensor) -> Tensor:
    return torch.square(output - target).mean()
