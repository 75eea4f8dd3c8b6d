"""Arguments of `grus.train`, validated: all errors are reported at once, before anything starts."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import IterableDataset

from grus.elastic.data.adaptive_batch_size import BatchSizer
from grus.elastic.training_loop.strategy import CUT, chosen, followed, objections
from grus.elastic.training_state.state_dict import Stateful
from grus.model.distributed_options import SHARDED, Strategy, resizes
from grus.model.errors import BadInput, Mistake
from grus.model.texts.plural_words import counted

ONLY = "model"
"""The name of a model that is the only one."""
SAVE_EVERY = 300.0
HANG_AFTER = 30.0


@dataclass(slots=True, kw_only=True)
class Arguments:
    """One run. `models`, `optimizers` and `schedulers` have the same names."""

    models: dict[str, torch.nn.Module]
    optimizers: dict[str, torch.optim.Optimizer]
    schedulers: dict[str, Any]
    dataset: Any
    low: int
    high: int
    """Bounds of the global batch; equal if it is fixed."""
    micro: int
    epochs: int
    several: bool
    """True if whole steps are passed to the training loop, for several optimizers."""
    seed: int = 0
    scaler: Any = None
    clip_norm: float | None = None
    collate: Callable[[list[Any]], Any] | None = None
    num_workers: int = 0
    checkpoint: Path | None = None
    checkpoint_every: float = SAVE_EVERY
    hang_after: float = HANG_AFTER
    audit: Path | None = None
    scheduler_per: str = "step"
    exact: bool = True
    also: dict[str, Stateful] = field(default_factory=dict)
    backend: str | None = None
    strategies: tuple[Strategy, ...] = ()
    fixed: bool = False
    """True if another number of workers requires a restart, because each worker holds a part of the state."""
    placed: bool = False
    """True if the models are on their final devices already."""

    @property
    def sharded(self) -> bool:
        """True if no worker has all of the state; the worker group is then fixed for the run."""
        return bool(SHARDED & set(self.strategies))

    @property
    def cut(self) -> bool:
        """True if torch shards the model and sums its gradients."""
        return bool(CUT & set(self.strategies))

    @property
    def stream(self) -> bool:
        """True if the dataset has no length."""
        return _endless(self.dataset)

    @property
    def adaptive(self) -> bool:
        return self.low < self.high

    def sizer(self) -> BatchSizer | None:
        """Return the chooser of the global batch size; None if the size is fixed."""
        if not self.adaptive:
            return None
        # Scaling of the learning rate with the gain of a larger batch: Adam-like optimizers divide noise out.
        plain = all(isinstance(one, torch.optim.SGD) for one in self.optimizers.values())
        return BatchSizer(self.low, self.high, self.micro, power=1.0 if plain else 0.5)

    @property
    def parts(self) -> dict[str, Stateful]:
        """Everything with a state, by name."""
        kinds: dict[str, Mapping[str, Any]] = {
            "model": self.models,
            "optimizer": self.optimizers,
            "scheduler": self.schedulers,
            "also": self.also,
        }
        named: dict[str, Stateful] = {
            f"{kind} {name}": one for kind, group in kinds.items() for name, one in group.items()
        }
        return named if self.scaler is None else {**named, "scaler": self.scaler}


def check(
    model: torch.nn.Module | Mapping[str, torch.nn.Module],
    optimizer: torch.optim.Optimizer | Mapping[str, torch.optim.Optimizer],
    dataset: Any,
    *,
    global_batch: int | tuple[int, int],
    epochs: int,
    scheduler: Any,
    micro_batch: int | None,
    checkpoint: str | Path | None,
    checkpoint_every: float | None,
    audit: str | Path | None,
    scheduler_per: str,
    exact: bool,
    also: Mapping[str, Stateful] | None,
    strategy: str | None = None,
    **rest: Any,
) -> Arguments:
    """The arguments in one form; raises BadInput with all that is wrong."""
    several = isinstance(model, Mapping)
    models = _named(model)
    optimizers = _named(optimizer)
    schedulers = _named(scheduler) if scheduler is not None else {}
    low, high = global_batch if isinstance(global_batch, tuple) else (global_batch, global_batch)
    micro = micro_batch if micro_batch is not None else _usual_micro(low)
    mistakes = [
        *_about_models(models, optimizers, schedulers),
        *_about_batch(low, high, micro, adaptive=isinstance(global_batch, tuple)),
        *_about_data(dataset, low, exact=exact, several=several, audited=audit is not None),
    ]
    strategies, wrong_words = chosen(strategy)
    mistakes += wrong_words + objections(
        strategies,
        models,
        optimizers,
        several=several,
        adaptive=isinstance(global_batch, tuple),
        stream=_endless(dataset),
        also=bool(also),
        scaled=rest.get("scaler") is not None,
    )
    if epochs < 1:
        mistakes.append(Mistake("epochs", "must be at least 1", str(epochs)))
    if scheduler_per not in ("step", "epoch"):
        mistakes.append(Mistake("scheduler_per", 'must be "step" or "epoch"', repr(scheduler_per)))
    if several and isinstance(global_batch, tuple):
        mistakes.append(Mistake("global_batch", "must be one number where there are several optimizers"))
    if mistakes:
        raise BadInput(mistakes)
    return Arguments(
        models=models,
        optimizers=optimizers,
        schedulers=schedulers,
        dataset=dataset,
        low=low,
        high=high,
        micro=micro,
        epochs=epochs,
        several=several,
        checkpoint=checkpoint_folder(checkpoint),
        checkpoint_every=checkpoint_every or float(os.environ.get("GRUS_CHECKPOINT_EVERY") or SAVE_EVERY),
        audit=Path(audit) if audit is not None else None,
        scheduler_per=scheduler_per,
        exact=exact,
        also=dict(also or {}),
        strategies=followed(strategies),
        fixed=not resizes(strategies),
        **rest,
    )


def _named(given: Any) -> dict[str, Any]:
    return dict(given) if isinstance(given, Mapping) else {ONLY: given}


def _usual_micro(batch: int) -> int:
    """Return the largest micro-batch for the maximum number of workers, so that none is idle then."""
    workers = int(os.environ.get("GRUS_MAX_WORKERS") or os.environ.get("WORLD_SIZE") or 1)
    return max(1, batch // max(1, workers))


def checkpoint_folder(given: str | Path | None) -> Path | None:
    """Inside a Grus job there is always one: a pause must lose nothing. Each job has a folder of its own."""
    job = os.environ.get("GRUS_JOB")
    if job is None:
        return Path(given) if given is not None else None
    folder = Path(given or os.environ.get("GRUS_CHECKPOINT") or "checkpoints")
    with suppress(OSError):  # errors are reported when the job's own folder is made in it
        # Below the job's working folder missing folders are made; elsewhere a wrong path must be noticed.
        folder.mkdir(parents=folder.absolute().is_relative_to(Path.cwd()), exist_ok=True)
    return folder / job


def _about_models(
    models: Mapping[str, Any], optimizers: Mapping[str, Any], schedulers: Mapping[str, Any]
) -> list[Mistake]:
    found = [
        Mistake("model", "must be a torch.nn.Module", type(one).__name__)
        for one in models.values()
        if not isinstance(one, torch.nn.Module)
    ]
    found += [
        Mistake("optimizer", "must be a torch.optim.Optimizer", type(one).__name__)
        for one in optimizers.values()
        if not isinstance(one, torch.optim.Optimizer)
    ]
    found += [
        Mistake("scheduler", "needs an optimizer of the same name", name)
        for name in schedulers
        if name not in optimizers
    ]
    if not optimizers:
        found.append(Mistake("optimizer", "is needed: there must be at least one"))
    return found


def _about_batch(low: int, high: int, micro: int, *, adaptive: bool) -> list[Mistake]:
    found = []
    if low < 1:
        found.append(Mistake("global_batch", "must be at least 1", str(low)))
    if adaptive and not low < high:
        found.append(Mistake("global_batch", "(least, most) must grow", f"{low}, {high}"))
    elif adaptive and 1 <= micro <= low and -(-low // micro) * micro > high:
        rule = f"must have room for a whole number of micro-batches of {micro}"
        found.append(Mistake("global_batch", rule, f"{low}, {high}"))
    if not 1 <= micro <= max(1, low):
        found.append(Mistake("micro_batch", "must be from 1 to the (least) global batch", str(micro)))
    return found


def _about_data(dataset: Any, low: int, *, exact: bool, several: bool, audited: bool) -> list[Mistake]:
    kind = type(dataset).__name__
    if not _endless(dataset):
        if len(dataset) >= low:
            return []
        rule = f"has fewer samples than one step takes: global_batch is {low}"
        return [Mistake("dataset", rule, f"{counted(len(dataset), 'sample')}")]
    if exact:
        rule = "has no length, so that samples cannot be used exactly once; say exact=False for at least once"
        return [Mistake("dataset", rule, kind)]
    found = []
    if several:
        found.append(Mistake("dataset", "must have a length where there are several optimizers", kind))
    if audited:
        found.append(Mistake("audit", "needs a dataset with a length", kind))
    return found


def _endless(dataset: Any) -> bool:
    return isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__")
