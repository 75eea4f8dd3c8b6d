"""The trained network as one program that takes pictures as they are: no other file is needed to serve it."""

import torch
from nets import trained
from torch import Tensor, nn

import grus


class Complete(nn.Module):
    """Scales pictures as the training did, and gives the chance of each class."""

    def __init__(self) -> None:
        super().__init__()
        moments = torch.load(grus.input("moments") / "moments.pt", weights_only=True)
        self.register_buffer("mean", moments["mean"])
        self.register_buffer("spread", moments["spread"])
        self.network = trained()

    def forward(self, pictures: Tensor) -> Tensor:
        chances: Tensor = self.network((pictures - self.mean) / self.spread).softmax(1)
        return chances


model = Complete().eval()
example = torch.zeros(2, *model.mean.shape)
program = torch.export.export(model, (example,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
torch.export.save(program, grus.output("model") / "model.pt2")
print("exported")
