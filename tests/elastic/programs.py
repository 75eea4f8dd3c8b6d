"""Training programs as users write them, small. Each takes its numbers and a gate to pass before every step.

They are written without a thought for who trains with them: that is what is tested.
"""

import ctypes
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import grus
from grus.elastic.data.batch import Batch
from grus.elastic.run import Run

if TYPE_CHECKING:
    from tests.elastic.trainee import Task

Gate = Callable[[Run], None]
Program = Callable[["Task", Gate], None]
FEATURES = 12
CLASSES = 5
NOISE = 6


def images(task: "Task") -> TensorDataset:
    """Points with a class each, by a rule that can be learnt."""
    chance = torch.Generator().manual_seed(7)
    points = torch.randn(task.samples, FEATURES, generator=chance)
    rule = torch.randn(FEATURES, CLASSES, generator=chance)
    return TensorDataset(points, (points @ rule).argmax(1))


def perceptron(width: int = 32) -> nn.Sequential:
    return nn.Sequential(nn.Linear(FEATURES, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, CLASSES))


def started(task: "Task", model: Any, optimizer: Any, dataset: Dataset[Any], **options: Any) -> Run:
    return grus.train(
        model,
        optimizer,
        dataset,
        global_batch=task.batch,
        micro_batch=task.micro,
        epochs=task.epochs,
        hang_after=task.hang_after,
        **{**options, **task.options},
    )


def learn(run: Run, gate: Gate, loss: Callable[[Any, Any], torch.Tensor]) -> None:
    for batch in run:
        gate(run)
        run.step(loss(run.model(batch.x), batch.y))


def classifier(task: "Task", gate: Gate) -> None:
    """Dropout, Adam with momentum of two kinds, a learning rate that follows a cosine."""
    model = perceptron(task.width)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 400)
    run = started(task, model, optimizer, images(task), scheduler=schedule)
    learn(run, gate, nn.functional.cross_entropy)


def gan(task: "Task", gate: Gate) -> None:
    """Two models, two optimizers, two schedules; the critic learns twice a step, and has dropout."""
    run, generator, critic = _rivals(task)
    for step in run:
        gate(run)
        for _ in range(2):
            for batch in step:
                run.backward(_doubt(batch, generator, critic), "d")
            run.update("d")
        for batch in step:
            run.backward(_trick(batch, generator, critic), "g")
        run.update("g")
        run.step()


def mixed_gan(task: "Task", gate: Gate) -> None:
    """The same with a gradient scaler, whose scale changes every few steps."""
    task.options["scaler"] = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=3)
    gan(task, gate)


def hasty_gan(task: "Task", gate: Gate) -> None:
    """Both gradients are computed before either is used: each model's loss is its own."""
    run, generator, critic = _rivals(task)
    for step in run:
        gate(run)
        for batch in step:
            run.backward(_believe(critic(batch.x), batch.y[:, None] / CLASSES), "d")
            run.backward(generator(torch.randn(len(batch), NOISE)).square().mean(), "g")
        run.update("d")
        run.update("g")
        run.step()


def _rivals(task: "Task") -> tuple[Run, nn.Module, nn.Module]:
    generator = nn.Sequential(nn.Linear(NOISE, 24), nn.ReLU(), nn.Linear(24, FEATURES))
    critic = nn.Sequential(nn.Linear(FEATURES, 24), nn.LeakyReLU(), nn.Dropout(0.2), nn.Linear(24, 1))
    optimizers = {
        "g": torch.optim.Adam(generator.parameters(), 1e-3, betas=(0.5, 0.9)),
        "d": torch.optim.Adam(critic.parameters(), 2e-3, betas=(0.5, 0.9)),
    }
    schedules = {name: torch.optim.lr_scheduler.ExponentialLR(one, 0.999) for name, one in optimizers.items()}
    run = started(task, {"g": generator, "d": critic}, optimizers, images(task), scheduler=schedules)
    return run, generator, critic


def _doubt(batch: Batch, generator: nn.Module, critic: nn.Module) -> torch.Tensor:
    """The critic's loss."""
    fake = generator(torch.randn(len(batch), NOISE)).detach()
    real, made = critic(batch.x), critic(fake)
    return _believe(real, torch.ones_like(real)) + _believe(made, torch.zeros_like(made))


def _trick(batch: Batch, generator: nn.Module, critic: nn.Module) -> torch.Tensor:
    """The generator's."""
    made = critic(generator(torch.randn(len(batch), NOISE)))
    return _believe(made, torch.ones_like(made))


def _believe(said: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    return nn.functional.binary_cross_entropy_with_logits(said, truth)


class Tied(nn.Module):
    """What reads and what writes letters is one matrix, which has gradients from both."""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.Embedding(CLASSES, 8)
        self.write = nn.Linear(8, CLASSES, bias=False)
        self.write.weight = self.read.weight
        self.register_buffer("scale", torch.full((1,), 0.7))

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        said: torch.Tensor = self.write(self.read(letters)) * self.scale
        return said


def tied(task: "Task", gate: Gate) -> None:
    model = Tied()
    letters = images(task).tensors[1]
    data = TensorDataset(letters, letters.roll(1))
    run = started(task, model, torch.optim.AdamW(model.parameters(), 1e-2), data)
    learn(run, gate, nn.functional.cross_entropy)


class Sparse(nn.Module):
    """One layer is never used, another only for some micro-batches: some workers have no gradient of it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(FEATURES, CLASSES)
        self.never = nn.Linear(3, 3)
        self.sometimes = nn.Linear(FEATURES, CLASSES)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.body(points)
        return out + self.sometimes(points) if points[0, 0] > 0.4 else out


def sparse(task: "Task", gate: Gate) -> None:
    """Adam with decay: a gradient of zeros in place of none would move the layer that is never used."""
    model = Sparse()
    before = model.never.weight.detach().clone()
    run = started(task, model, torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=0.1), images(task))
    learn(run, gate, nn.functional.cross_entropy)
    assert torch.equal(before, model.never.weight)


def normed(task: "Task", gate: Gate) -> None:
    """BatchNorm; an evaluation with its own numbers at the end of each epoch; a schedule by epochs."""
    model = nn.Sequential(nn.Linear(FEATURES, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, CLASSES))
    data = images(task)
    seen = Path(task.folder) / "evaluated"
    seen.mkdir(exist_ok=True)

    def look(run: Run) -> None:
        with run.evaluate():
            points, classes = data.tensors[0][run.rank :: run.world], data.tensors[1][run.rank :: run.world]
            right = (run.model(points).argmax(1) == classes).double().mean()
            accuracy = run.mean(float(right), len(points))
        with (seen / str(os.getpid())).open("a") as file:
            file.write(f"{run.epoch} {run._group.number} {accuracy!r}\n")

    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    run = started(task, model, optimizer, data, scheduler=schedule, scheduler_per="epoch", on_epoch=look)
    learn(run, gate, nn.functional.cross_entropy)


def mixed(task: "Task", gate: Gate) -> None:
    """Half precision with a scaler that overflows at first, and gradients cut to a norm."""
    model = perceptron()
    run = started(
        task,
        model,
        torch.optim.AdamW(model.parameters(), 3e-3),
        images(task),
        scaler=torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=4),
        clip_norm=0.5,
    )
    for batch in run:
        gate(run)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(run.model(batch.x), batch.y)
        run.step(loss)


class Shaken(Dataset[Any]):
    """Samples with noise of their own, made by the processes that load them."""

    def __init__(self, task: "Task") -> None:
        self._data = images(task)

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        point, kind = self._data[number]
        return point + 0.1 * torch.randn(FEATURES), kind


def loaded(task: "Task", gate: Gate) -> None:
    """Two loader processes for each worker."""
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    learn(started(task, model, optimizer, Shaken(task), num_workers=2), gate, nn.functional.cross_entropy)


def compiled(task: "Task", gate: Gate) -> None:
    """A compiled model; every compilation is counted."""
    counts = Path(task.folder) / "compilations"
    counts.mkdir(exist_ok=True)
    mine = counts / str(os.getpid())

    def count(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Callable[..., Any]:
        mine.write_text(str(int(mine.read_text()) + 1 if mine.exists() else 1))
        return graph.forward

    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    run = started(task, torch.compile(model, backend=count), optimizer, images(task))
    learn(run, gate, nn.functional.cross_entropy)


class Weighty(nn.Module):
    """Twelve blocks of 2 MB each: what a training takes for its weights stands out from the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)) for _ in range(12)
        )

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            points = points + 0.1 * block(points)
        return points


def weighty(task: "Task", gate: Gate) -> None:
    """Writes down how much real memory its steps took at most, beyond what there was without a model.

    And how many bytes it sent in a step, as Linux counts them.
    """
    import torch.distributed.fsdp  # here: what it takes itself is no part of the training

    ctypes.CDLL(None).mallopt(-3, 1 << 16)  # M_MMAP_THRESHOLD: what is given back is given back to Linux
    before = memory("VmRSS")
    model = Weighty()
    chance = torch.Generator().manual_seed(7)
    points = torch.randn(task.samples, 512, generator=chance)
    run = started(task, model, torch.optim.Adam(model.parameters(), 1e-4), TensorDataset(points, points))
    taken = sent = 0
    for batch in run:
        gate(run)
        run.step((run.model(batch.x) - batch.y).square().mean())
        if run.steps == 1:
            Path("/proc/self/clear_refs").write_text("5")  # the most is counted anew: by then all is there
            sent = written()
        elif run.steps > 1:
            taken = max(taken, memory("VmHWM") - before)
    sent = (written() - sent) // (run.steps - 1)
    found = Path(task.folder) / "memory"
    found.mkdir(exist_ok=True)
    (found / str(os.getpid())).write_text(json.dumps({"peak": taken, "sent": sent}))


def written() -> int:
    """Bytes that this process has written so far, to whomever."""
    return int(Path("/proc/self/io").read_text().split("wchar:")[1].split()[0])


def memory(line: str) -> int:
    """Bytes of real memory of this process, as Linux tells: now (VmRSS) or at most (VmHWM)."""
    told = Path("/proc/self/status").read_text()
    return int(told.split(f"{line}:")[1].split()[0]) << 10


ALL: dict[str, Program] = {
    one.__name__: one
    for one in (classifier, gan, mixed_gan, hasty_gan, tied, sparse, normed, mixed, loaded, compiled, weighty)
}
