"""Training program of each self-test worker: a small network, step by step, up to the allowed step.

It waits before every step until the conductor allows it, so that events happen at known steps on a machine of
any speed. The losses and a hash of the final parameters are written to files, for the conductor to compare.
"""

import argparse
import hashlib
import json
import threading
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

from grus.elastic.train import train

SAMPLES, BATCH, MICRO, EPOCHS = 512, 64, 8, 30
STEPS = SAMPLES // BATCH * EPOCHS
LOOK = 0.002


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--folder", type=Path, required=True)
    options.add_argument("--name", required=True)
    options.add_argument("--backend")
    options.add_argument("--hang-after", type=float, default=1.0)
    chosen = options.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    run = train(
        model,
        optimizer,
        _data(),
        global_batch=BATCH,
        micro_batch=MICRO,
        epochs=EPOCHS,
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS),
        checkpoint=chosen.folder / "checkpoint",
        audit=chosen.folder / "audit",
        hang_after=chosen.hang_after,
        backend=chosen.backend,
    )
    with (chosen.folder / f"losses-{chosen.name}").open("a") as losses:
        for x, y in run:
            _wait_for_leave(chosen.folder / "limit", run.steps)
            loss = run.step(F.cross_entropy(run.model(x), y))
            if loss is not None:
                losses.write(f"{run.steps} {loss!r}\n")
                losses.flush()
    ended = {"steps": run.steps, "hash": _hash(model)}
    (chosen.folder / f"ended-{chosen.name}").write_text(json.dumps(ended))


def _wait_for_leave(limit: Path, step: int) -> None:
    pause = threading.Event()
    while step >= int(limit.read_text()):
        pause.wait(LOOK)


def _data() -> TensorDataset:
    chance = torch.Generator().manual_seed(1)
    x = torch.randn(SAMPLES, 32, generator=chance)
    y = (x @ torch.randn(32, 4, generator=chance) + torch.randn(SAMPLES, 4, generator=chance)).argmax(1)
    return TensorDataset(x, y)


def _hash(model: nn.Module) -> str:
    """Return the hash of the parameters, which have the same bits on all workers.

    Running statistics are left out: they differ between workers.
    """
    content = b"".join(one.detach().cpu().numpy().tobytes() for one in model.parameters())
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    main()
