"""Program of a job with a `train:` section: runs on each GPU, or once where a plan places operators on all.

    python3 -m grus.elastic.section '{"make": "train.py:make", "epochs": 3}'

The section names the user's functions. Grus provides the loop, the worker group that may grow, shrink and
lose workers, the checkpoints and the reports. In a job, the trained model is saved beside the checkpoints.
"""

import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    import torch
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "train: needs torch: pip install 'grus-gpu-sdk[torch]'", name="torch"
    ) from error
from torch import Tensor
from torch.distributed.tensor import DTensor

import grus
from grus.elastic.run import Run
from grus.estimation.training_definition import Training
from grus.estimation.training_factory import training_of
from grus.model.artifacts import output_variable
from grus.model.distributed_options import Strategy, parse
from grus.model.errors import BadInput, Mistake
from grus.model.texts.plural_words import counted
from grus.model.train_serve_spec import TrainSection, on_command_line
from grus.sdk import worker

if TYPE_CHECKING:
    from grus.partition.placement_plan_file import Split

RESULT = "model.pt"
"""The trained weights: the model's `state_dict`, on the CPU."""
OUTPUT = output_variable("model")
"""Path for the job's output `model`, if it has one."""
EXAMPLES = 2
"""Samples by which a model is exported."""
LINES = 20
"""Maximum number of lines per epoch."""


def main(words: Sequence[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        given = on_command_line(TrainSection, words)
        training = training_of(given, Path.cwd())
        strategy = os.environ.get("GRUS_STRATEGY") or given.strategy or ""
        if given.plan or Strategy.SPLIT in parse(strategy):
            split(training, given.plan)
            _say_left_out(given)
        else:
            train(training, strategy, exports=given.export)
    except BadInput as error:
        for mistake in error.mistakes:
            sys.stderr.write(f"error: {mistake}\n")
        return 2
    return 0


def split(training: Training, plan: str) -> None:
    """Train like `train`, with a part of the model on each GPU; by the plan of a file, if there is one."""
    # Not imported above: the code that places operators would take memory in all runs that are not split.
    try:
        from grus.elastic.split.pipeline_trainer import train_split
        from grus.partition.execution.placement_plan import Plan
        from grus.partition.placement_plan_file import read as read_plan
    except ModuleNotFoundError as error:
        rule = f"split needs {error.name}: pip install 'grus-gpu-sdk[split]'"
        raise BadInput([Mistake("train.strategy", rule)]) from error

    try:
        given = read_plan(Path(plan).read_bytes()) if plan else None
    except OSError as error:
        raise BadInput([Mistake("train.plan", f"cannot be read: {error.strerror}", plan)]) from None
    if given is not None and isinstance(given.plan, Plan):
        train(training, "", given)
    else:
        train_split(training, given)


def train(training: Training, strategy: str, plan: "Split | None" = None, *, exports: bool = False) -> None:
    """Train to the end, or to the next pause; then this
    worker exits by itself. A plan spreads the operators.
    """
    assert training.data is not None
    if exports and os.environ.get("RANK", "0") == "0" and not worker.resuming():
        _exported(training, None)  # report at the start what cannot be exported at the end
    torch.manual_seed(training.seed)
    model, data = training.model(), training.data()
    optimizer = training.optimizer
    forward: Callable[[Any], Tensor] = partial(training.loss, model)
    if plan is not None:
        from grus.elastic.split.model_parallel_executor import Spread

        spread = Spread(training, plan, model, len(data))
        model, optimizer, forward = spread.model, spread.optimizer, spread
        used = len(set(plan.places.values()))
        _say(f"the model's operators are spread over {counted(used, 'GPU')}; a batch goes through whole")
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
        on_epoch=None if training.validation is None else partial(_judge, training, model),
    )
    every = max(1, len(data) // training.size // LINES)
    for batch in run:
        loss = run.step(forward(batch.data))
        if loss is not None and run.rank == 0 and run.steps % every == 0:
            _say(f"step {run.steps}, epoch {run.epoch}, {counted(run.world, 'worker')}: loss {loss:.4f}")
    _keep(run, training if exports else None)


def _judge(training: Training, model: torch.nn.Module, run: Run) -> None:
    """Report the model's results on the validation data; the first worker reports."""
    from grus.elastic.training_loop.validation import figures

    assert training.validation is not None
    found = figures(run, model, training.loss, training.size, training.validation)
    run.report(**found)
    if run.rank == 0:
        _say(f"after epoch {run.epoch}: " + ", ".join(f"{name} {one:.4f}" for name, one in found.items()))


def _keep(run: Run, exported: Training | None) -> None:
    """Leave the trained weights where people find them; whole, or not at all.

    On all workers: where each has a part of the weights, all are needed to put them together.
    """
    places = _places(run)
    if not places:
        return
    weights = {name: _whole(tensor) for name, tensor in run.model.state_dict().items()}
    if run.rank:
        return
    program = None if exported is None else _exported(exported, weights)
    for place in places:
        fresh = place / f".new-{RESULT}"
        torch.save(weights, fresh)
        fresh.replace(place / RESULT)
        if program is not None:
            program(place)
    _say(f"done after {counted(run.steps, 'step')}; the trained model is in {places[0] / RESULT}")


def _places(run: Run) -> list[Path]:
    """Folders for the trained model: its checkpoints', and that of the job's output `model`."""
    output = os.environ.get(OUTPUT, "")
    found = [run.folder] if run.folder is not None else []
    return [*found, Path(output)] if output and os.path.isdir(output) else found


def _exported(training: Training, weights: dict[str, Tensor] | None) -> Callable[[Path], None]:
    """A model of these weights (or of none yet) as a program, to be saved in a folder. Raises BadInput."""
    from grus.elastic.training_loop import model_export  # takes seconds; few need it

    model = training.model()
    if weights is not None:
        model.load_state_dict(weights)
    batch = training.batch(EXAMPLES)
    samples = batch[0] if isinstance(batch, list | tuple) and len(batch) == 2 else batch
    found = model_export.program(model, samples)
    return lambda place: model_export.save_exported(found, samples, place / model_export.EXPORTED)


def _say_left_out(given: TrainSection) -> None:
    """Report the parts left out because the model was split to fit: those that need the whole model."""
    asked = (("validation", given.validation), ("export", given.export))
    if left := [name for name, there in asked if there]:
        _say(f"the model was split to fit: {' and '.join(left)} left out")


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).cpu()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
