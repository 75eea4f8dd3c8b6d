"""Make pictures and put them aside: some to learn from, some never to be seen by the training."""

import torch

import grus

CLASSES, SIDE = 10, 12
chance = torch.Generator().manual_seed(0)
patterns = torch.randn(CLASSES, 1, SIDE, SIDE, generator=chance)
light = 5 + 3 * torch.rand(1, SIDE, SIDE, generator=chance)  # unevenly lit, as pictures are


def pictures(count: int) -> dict[str, torch.Tensor]:
    """Each class is a pattern of its own, under noise."""
    labels = torch.randint(CLASSES, (count,), generator=chance)
    noise = torch.randn(count, 1, SIDE, SIDE, generator=chance)
    return {"pictures": (patterns[labels] + noise) * light + light, "labels": labels}


folder = grus.output("data")
for name, count in (("seen", 2048), ("unseen", 1024)):
    torch.save(pictures(count), folder / f"{name}.pt")
    print(f"{name}: {count} pictures of {SIDE} x {SIDE}")
