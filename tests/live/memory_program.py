"""A small training on the CPU that takes about as many megabytes as its argument says, for its weights, their
gradients and the optimizer's state, beside what torch takes."""

import sys

import torch


def main() -> None:
    side = int((int(sys.argv[1]) * 1e6 / 4 / 4) ** 0.5)
    model = torch.nn.Linear(side, side, bias=False)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, side)).square().mean().backward()
        optimizer.step()
        print(f"step {step}", flush=True)


if __name__ == "__main__":
    main()
