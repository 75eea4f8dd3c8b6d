"""What the pictures are like: the mean and the spread of every pixel, by which the others scale them."""

import torch

import grus

seen = torch.load(grus.input("data") / "seen.pt", weights_only=True)["pictures"]
moments = {"mean": seen.mean(0), "spread": seen.std(0)}
torch.save(moments, grus.output("moments") / "moments.pt")
print(f"mean {moments['mean'].mean():.2f}, spread {moments['spread'].mean():.2f}")
