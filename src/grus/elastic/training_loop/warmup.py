"""Warm-up of code that is slow the first time, run before any other worker waits for it.

The first backward pass starts threads. The first state that is packed, read and restored imports and compiles
much code. Each costs some 10 ms, in which a whole worker group would wait for one worker that joins. A model
of one weight is enough as a warm-up; the user's own objects and random numbers are left alone.
"""

import torch

from grus.elastic.training_state import state_dict


def rehearse(device: torch.device) -> None:
    """Rehearse a step and the transfer of a state from one worker to another, alone."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        model = torch.nn.Linear(1, 1)
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    with torch.enable_grad():
        model(torch.ones(1, 1, device=device, dtype=model.weight.dtype)).sum().backward()
    optimizer.step()
    parts: dict[str, state_dict.Stateful] = {"model": model, "optimizer": optimizer}
    state_dict.restore(parts, state_dict.copied(state_dict.capture(parts), device))
