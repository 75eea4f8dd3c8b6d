"""A small class-conditional GAN in the manner of BigGAN: two models, two optimizers, one step.

A step is handed out whole, and its batches are walked twice: once for the discriminator, once for the
generator. Only `run.step()` ends it; there workers come and go.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.data import TensorDataset

import grus

CLASSES, SIDE, NOISE = 4, 8, 32


def pictures(count: int, seed: int) -> TensorDataset:
    """Bars: which way they run and where they lie makes the class."""
    chance = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=chance)
    images = torch.full((count, 1, SIDE, SIDE), -1.0)
    for image, label in zip(images, labels.tolist(), strict=True):
        bar = slice(1, 3) if label % 2 else slice(5, 7)
        image[(0, bar) if label < 2 else (0, slice(None), bar)] = 1.0
    return TensorDataset(images + 0.1 * torch.randn(images.shape, generator=chance), labels)


class ConditionalNorm(nn.Module):
    """BatchNorm whose scale and shift depend on the class."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, affine=False)
        self.change = nn.Embedding(CLASSES, 2 * channels)
        nn.init.zeros_(self.change.weight)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        scale, shift = self.change(labels)[:, :, None, None].chunk(2, dim=1)
        return self.norm(x) * (1 + scale) + shift


class Generator(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.width = width
        self.begin = spectral_norm(nn.Linear(NOISE, width * 4))
        self.norms = nn.ModuleList([ConditionalNorm(width) for _ in range(3)])
        self.paint = nn.ModuleList([spectral_norm(nn.Conv2d(width, width, 3, padding=1)) for _ in range(2)])
        self.finish = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, noise: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.begin(noise).view(-1, self.width, 2, 2)
        for norm, convolution in zip(self.norms[:2], self.paint, strict=True):
            x = convolution(F.interpolate(F.relu(norm(x, labels)), scale_factor=2))
        return torch.tanh(self.finish(F.relu(self.norms[2](x, labels))))


class Discriminator(nn.Module):
    """One number a picture; the class takes part by projection (Miyato and Koyama, 2018)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.look = nn.Sequential(
            spectral_norm(nn.Conv2d(1, width, 3, stride=2, padding=1)),
            nn.LeakyReLU(0.2),
            spectral_norm(nn.Conv2d(width, width, 3, stride=2, padding=1)),
            nn.LeakyReLU(0.2),
        )
        self.judge = spectral_norm(nn.Linear(width, 1))
        self.expect = spectral_norm(nn.Embedding(CLASSES, width))

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        seen = self.look(images).sum((2, 3))
        return self.judge(seen).squeeze(1) + (seen * self.expect(labels)).sum(1)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--epochs", type=int, default=4)
    options.add_argument("--samples", type=int, default=2048)
    chosen = options.parse_args()

    torch.manual_seed(0)
    models = {"g": Generator(), "d": Discriminator()}
    optimizers = {
        name: torch.optim.Adam(model.parameters(), lr=2e-3 if name == "g" else 1e-3, betas=(0.0, 0.9))
        for name, model in models.items()
    }
    run = grus.train(
        models,
        optimizers,
        pictures(chosen.samples, seed=1),
        global_batch=64,
        micro_batch=16,
        epochs=chosen.epochs,
    )
    g, d = run.model["g"], run.model["d"]

    def imagined(labels: torch.Tensor) -> torch.Tensor:
        return g(torch.randn(len(labels), NOISE, device=run.device), labels)

    for step in run:
        for images, labels in step:
            with torch.no_grad():
                fakes = imagined(labels)
            real, fake = d(images, labels), d(fakes, labels)
            run.backward(F.relu(1 - real).mean() + F.relu(1 + fake).mean(), "d")
        run.update("d")
        for _, labels in step:
            run.backward(-d(imagined(labels), labels).mean(), "g")
        run.update("g")
        run.step()
        if run.rank == 0 and run.steps % 16 == 0:
            print(
                f"step {run.steps}, {run.world} workers: {likeness(g):.3f} of its bars are right", flush=True
            )


@torch.no_grad()
def likeness(g: nn.Module) -> float:
    """Part of the pixels that agree with the class's bar."""
    g.eval()
    device = next(g.parameters()).device
    images, labels = pictures(64, seed=3).tensors
    noise = torch.randn(len(labels), NOISE, generator=torch.Generator().manual_seed(4))
    drawn = g(noise.to(device), labels.to(device)).cpu()
    g.train()
    return ((drawn > 0) == (images > 0)).float().mean().item()


if __name__ == "__main__":
    main()
