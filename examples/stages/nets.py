"""A small network and its pictures, as functions that the job file names: no loop and no checkpoints here."""

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import grus

CLASSES, SIDE = 10, 12


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * (SIDE // 2) ** 2, 64),
        nn.ReLU(),
        nn.Linear(64, CLASSES),
    )


def scaled(pictures: Tensor) -> Tensor:
    """By the moments that an earlier stage has found."""
    moments = torch.load(grus.input("moments") / "moments.pt", weights_only=True)
    return (pictures - moments["mean"]) / moments["spread"]


def pictures(name: str = "seen") -> TensorDataset:
    found = torch.load(grus.input("data") / f"{name}.pt", weights_only=True)
    return TensorDataset(scaled(found["pictures"]), found["labels"])


def trained() -> nn.Module:
    """The network with the weights that the training has left."""
    model = network()
    model.load_state_dict(torch.load(grus.input("model") / "model.pt", weights_only=True))
    return model.eval()
