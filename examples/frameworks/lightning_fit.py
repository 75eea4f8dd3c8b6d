"""Train a linear model with Lightning on generated data: `python lightning_fit.py DEVICES`."""

import sys

import lightning
import torch
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset


class Linear(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        x, y = batch
        return mse_loss(self.layer(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    data = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
    trainer = lightning.Trainer(
        devices=int(sys.argv[1]),
        max_epochs=1,
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
    )
    trainer.fit(Linear(), DataLoader(data, batch_size=4))
    trainer.save_checkpoint("out/lightning.ckpt")
    print(f"process {trainer.global_rank} of {trainer.world_size}: {trainer.global_step} steps")
