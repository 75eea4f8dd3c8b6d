"""Train a linear model with Accelerate on generated data."""

import os

import torch
from accelerate import Accelerator
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=not torch.cuda.is_available())
torch.manual_seed(0)
data = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=4))

for step, (x, y) in enumerate(loader, 1):
    optimizer.zero_grad()
    loss = mse_loss(model(x), y)
    accelerator.backward(loss)
    optimizer.step()
    accelerator.print(f"step {step}: loss {loss.item():.3f}")

os.makedirs("out", exist_ok=True)
accelerator.save(accelerator.unwrap_model(model).state_dict(), "out/accelerate.pt")
print(f"mode: {accelerator.distributed_type.value}")
print(f"process {accelerator.process_index} of {accelerator.num_processes}: {step} steps")
accelerator.end_training()
