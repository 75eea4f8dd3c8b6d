"""What is slow the first time, done once while nobody waits for it.

The first backward pass starts threads, the first state that is packed, read and restored imports and compiles
a good deal: some 10 ms each, in which a whole team would stand still for one worker that joins. A model of
one weight is enough to have it behind oneself; the user's own objects and random numbers are left alone.
"""

import torch

from grus.elastic import state


def rehearse(device: torch.device) -> None:
    """A step and the way of a state from one worker to another, alone."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        model = torch.nn.Linear(1, 1)
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    with torch.enable_grad():
        model(torch.ones(1, 1, device=device, dtype=model.weight.dtype)).sum().backward()
    optimizer.step()
    parts: dict[str, state.Stateful] = {"model": model, "optimizer": optimizer}
    state.restore(parts, state.copied(state.capture(parts), device))
