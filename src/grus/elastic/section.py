"""What a job with a `train:` section runs: on each of its GPUs, or once where a plan places operators on all.

python3 -m grus.elastic.section '{"make": "train.py:make", "epochs": 3}'

The section names the user's functions; the loop, the team that may grow, shrink and lose workers, the
checkpoints and the reports are Grus's. In a job, the trained model is left beside the checkpoints.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

import grus
from grus.api.rules import read
from grus.api.train_in import TrainIn
from grus.elastic.run import Run
from grus.estimation.section import training_of
from grus.estimation.training import Training
from grus.model.errors import BadInput, Mistake
from grus.model.strategies import Strategy, parse

if TYPE_CHECKING:
    from grus.partition.plan_file import Split

RESULT = "model.pt"
"""The trained weights: the model's `state_dict`, on the CPU."""
LINES = 20
"""Of an epoch, at most."""


def main(words: Sequence[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        given = section(words)
        training = training_of(given, Path.cwd())
        strategy = os.environ.get("GRUS_STRATEGY") or given.strategy or ""
        if given.plan or Strategy.SPLIT in parse(strategy):
            split(training, given.plan)
        else:
            train(training, strategy)
    except BadInput as error:
        for mistake in error.mistakes:
            sys.stderr.write(f"error: {mistake}\n")
        return 2
    return 0


def section(words: Sequence[str]) -> TrainIn:
    """The section that a worker was started with. Raises BadInput."""
    if len(words) != 1:
        raise BadInput([Mistake("train", "is given as one argument, in JSON")])
    try:
        said = json.loads(words[0])
    except ValueError as error:
        raise BadInput([Mistake("train", f"is not valid JSON: {error}", words[0][:80])]) from None
    return read(TrainIn, said, whole="train")


def split(training: Training, plan: str) -> None:
    """As `train`, with a part of the model on each GPU; by the plan of a file, if there is one."""
    # Not above: what places operators would take memory from all that are not split.
    from grus.elastic.split_run import train_split
    from grus.partition.plan import Plan
    from grus.partition.plan_file import read as read_plan

    try:
        given = read_plan(Path(plan).read_bytes()) if plan else None
    except OSError as error:
        raise BadInput([Mistake("train.plan", f"cannot be read: {error.strerror}", plan)]) from None
    if given is not None and isinstance(given.plan, Plan):
        train(training, "", given)
    else:
        train_split(training, given)


def train(training: Training, strategy: str, plan: "Split | None" = None) -> None:
    """To the end, or to the next pause; then this worker ends by itself. A plan spreads the operators."""
    torch.manual_seed(training.seed)
    assert training.data is not None
    model, data = training.model(), training.data()
    optimizer = training.optimizer
    forward: Callable[[Any], Tensor] = partial(training.loss, model)
    if plan is not None:
        from grus.elastic.spread import Spread

        spread = Spread(training, plan, model, len(data))
        model, optimizer, forward = spread.model, spread.optimizer, spread
        used = len(set(plan.places.values()))
        _say(f"the model's operators are spread over {used} GPUs; a batch goes through whole")
    run = grus.train(
        model,
        optimizer(model.parameters()),
        data,
        global_batch=training.size,
        epochs=training.epochs,
        seed=training.seed,
        strategy=strategy,
        micro_batch=None if plan is None else training.size,
        placed=plan is not None,
    )
    every = max(1, len(data) // training.size // LINES)
    for batch in run:
        loss = run.step(forward(batch.data))
        if loss is not None and run.rank == 0 and run.steps % every == 0:
            _say(f"step {run.steps}, epoch {run.epoch}, {run.world} workers: loss {loss:.4f}")
    _keep(run)


def _keep(run: Run) -> None:
    """Leave the trained weights where people find them; whole, or not at all.

    On all workers: where each has a part of the weights, all are needed to put them together.
    """
    if run.folder is None:
        return
    weights = {name: _whole(tensor) for name, tensor in run.model.state_dict().items()}
    if run.rank:
        return
    target = run.folder / RESULT
    fresh = target.with_suffix(".new")
    torch.save(weights, fresh)
    fresh.replace(target)
    _say(f"done after {run.steps} steps; the trained model is in {target}")


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).cpu()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
