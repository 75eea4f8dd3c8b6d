"""Training programs as users write them, small. Each takes its numbers and a gate to pass before every step.

They are written without a thought for who trains with them: that is what is tested.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import grus
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
    generator = nn.Sequential(nn.Linear(NOISE, 24), nn.ReLU(), nn.Linear(24, FEATURES))
    critic = nn.Sequential(nn.Linear(FEATURES, 24), nn.LeakyReLU(), nn.Dropout(0.2), nn.Linear(24, 1))
    optimizers = {
        "g": torch.optim.Adam(generator.parameters(), 1e-3, betas=(0.5, 0.9)),
        "d": torch.optim.Adam(critic.parameters(), 2e-3, betas=(0.5, 0.9)),
    }
    schedules = {name: torch.optim.lr_scheduler.ExponentialLR(one, 0.999) for name, one in optimizers.items()}
    run = started(task, {"g": generator, "d": critic}, optimizers, images(task), scheduler=schedules)
    believe = nn.functional.binary_cross_entropy_with_logits
    for step in run:
        gate(run)
        for _ in range(2):
            for batch in step:
                fake = generator(torch.randn(len(batch), NOISE)).detach()
                real, made = critic(batch.x), critic(fake)
                run.backward(
                    believe(real, torch.ones_like(real)) + believe(made, torch.zeros_like(made)), "d"
                )
            run.update("d")
        for batch in step:
            made = critic(generator(torch.randn(len(batch), NOISE)))
            run.backward(believe(made, torch.ones_like(made)), "g")
        run.update("g")
        run.step()


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


ALL: dict[str, Program] = {"classifier": classifier, "gan": gan, "compiled": compiled}
