"""Child-process side of `grus estimate`: traces the user's training and estimates it for types of GPUs.

Answers are JSON values. Needs torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grus.estimation.estimate_subprocess import Tell
from grus.estimation.gpus import GpuKind
from grus.estimation.memory_estimator import Biggest, Estimate, biggest
from grus.estimation.meta_tensors import untouched
from grus.estimation.script_loader import load
from grus.estimation.strategy_costs import Strategist
from grus.estimation.strategy_costs import estimate as estimated
from grus.estimation.training_definition import Training
from grus.estimation.training_factory import training_of
from grus.model.distributed_options import Strategy, parse, spell, together
from grus.model.errors import BadInput
from grus.model.train_serve_spec import TrainSection
from grus.model.train_serve_spec import section as section_of

How = tuple[Strategy, ...]


@dataclass(frozen=True, slots=True)
class TrainingEstimate:
    """About one training."""

    parameters: int
    estimates: tuple[Estimate, ...]
    """Estimates for each type of GPU in the order given, with each of the strategies."""
    biggest: tuple[Biggest, ...]
    """The same for the biggest batch; empty if not requested."""


def estimate(
    tell: Tell,
    target: str,
    section: Mapping[str, Any] | None,
    gpus: Sequence[Mapping[str, object]],
    size: int | None,
    strategy: str,
    workers: int,
    compare: bool,
    search: bool,
) -> TrainingEstimate:
    """Estimate the training that `target` names in this folder, with so many workers and this `strategy`.

    `section`: the `train` of a job file instead, with its own strategy if no other is given. `compare`: with
    all the strategies that are worth it. `search`: the biggest batch of each, too.
    """
    tell(f"running {target}")
    given = None if section is None else section_of(TrainSection, section)
    with untouched():
        training = load(target, Path.cwd(), size) if given is None else training_of(given, Path.cwd())
    if size is not None:
        training = replace(training, size=size)
    if given is not None:
        strategy = strategy or given.strategy or ""
    kinds = [GpuKind(**gpu) for gpu in gpus]  # type: ignore[arg-type]  # it was one when it was sent
    ways = together(workers) if compare else [parse(strategy)]
    asking = _EstimateQuery(training, workers, tell)
    both = [(kind, how) for kind in kinds for how in ways]
    found = tuple(asking.at(training.size, kind, how) for kind, how in both)
    searched = tuple(asking.biggest(kind, how) for kind, how in both) if search else ()
    return TrainingEstimate(asking.parameters, found, searched)


class _EstimateQuery:
    """About one training; what several answers have in common is traced once."""

    def __init__(self, training: Training, workers: int, tell: Tell) -> None:
        self._training = training
        self._workers = workers
        self._tell = tell
        self._known: dict[tuple[int, bool], Strategist] = {}
        self._told: set[tuple[int, bool, How]] = set()

    @property
    def parameters(self) -> int:
        """Return the number of trainable parameters."""
        return next(iter(self._known.values())).parameters

    def at(self, size: int, gpu: GpuKind, how: How) -> Estimate:
        if (size, gpu.virtual, how) not in self._told:
            self._told.add((size, gpu.virtual, how))
            self._tell(f"tracing a batch of {size}, {spell(how)}")
        return estimated(self._strategist(size, gpu), how, self._workers)

    def biggest(self, gpu: GpuKind, how: How) -> Biggest:
        def upper(size: int) -> int | None:
            try:
                found = self.at(size, gpu, how)
            except (BadInput, RuntimeError, ValueError):  # some models cannot take one sample, or very many
                if size == self._training.size:
                    raise
                return None
            return found.upper if found.fits else max(found.upper, gpu.memory + 1)

        return biggest(upper, gpu.memory, self._training.size)

    def _strategist(self, size: int, gpu: GpuKind) -> Strategist:
        key = (size, gpu.virtual)
        if key not in self._known:
            self._known[key] = Strategist(self._training, gpu, size)
        return self._known[key].on(gpu)
