"""Training of a `train:` section: finds the user's functions and puts them together. Needs torch.

It runs the user's code in this process: right for a worker, and for a child process that estimates.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.optim import Optimizer
from torch.utils.data import default_collate

from grus.api.optimizer_names import METRICS, OPTIMIZERS, loss_name
from grus.estimation import metrics
from grus.estimation.script_loader import function, load
from grus.estimation.training_definition import Training, Validation, criterion, of_example
from grus.estimation.user_code_errors import blamed
from grus.model.errors import BadInput, Mistake
from grus.model.train_serve_spec import USUAL_BATCH, TrainSection, metric_name

EXAMPLES = 2
"""Samples that are looked at to know what a batch looks like."""


def training_of(section: TrainSection, folder: Path) -> Training:
    """Return the training that the section describes;
    `folder` is the job's. Raises BadInput with all errors.
    """
    found = _FunctionLookup(folder)
    data = found.function("data", section.data)
    validation = _validation(section, found)
    if section.make is not None:
        training = found.made(section.make, section.batch)
    else:
        training = _of_parts(section, found, data)
    if training is not None and data is None and training.data is None:
        rule = "is needed to train: name it in the section, or let make give it with the key data"
        found.mistakes.append(Mistake("train.data", rule))
    if found.mistakes or training is None:
        raise BadInput(found.mistakes) from found.raised
    return replace(
        training,
        data=training.data if data is None else _dataset(data, section.data or ""),
        size=section.batch or training.size,
        epochs=section.epochs or training.epochs,
        seed=training.seed if section.seed is None else section.seed,
        validation=validation,
    )


class _FunctionLookup:
    """The functions that a section names; what is wrong with them is gathered."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.mistakes: list[Mistake] = []
        self.raised: BaseException | None = None
        """Exception of the user's code, if it raised one: the errors may not occur on another machine."""

    def function(self, field: str, target: str | None) -> Callable[..., Any] | None:
        if target is None:
            return None
        try:
            return function(target, self._folder)
        except BadInput as error:
            self._note(field, target, error)
            return None

    def made(self, target: str, size: int | None) -> Training | None:
        try:
            return load(target, self._folder, size)
        except BadInput as error:
            self._note("make", target, error)
            return None

    def _note(self, field: str, target: str, error: BadInput) -> None:
        self.mistakes += [Mistake(f"train.{field}", _told(one, target), target) for one in error.mistakes]
        self.raised = self.raised or error.__cause__


def _told(mistake: Mistake, target: str) -> str:
    """Return the error's text without the words that are shown beside it anyway."""
    field = mistake.field.removeprefix(target).removeprefix(":").strip()
    return f"{field} {mistake.rule}" if field and field != "function" else mistake.rule


def _of_parts(
    section: TrainSection, found: _FunctionLookup, data: Callable[[], Any] | None
) -> Training | None:
    model = found.function("model", section.model)
    loss = _loss(section.loss or "", found)
    optimizer = _optimizer(section.optimizer or "", found)
    if model is None or data is None or loss is None or optimizer is None:
        return None
    return Training(
        _checked(model, "model", section.model or "", nn.Module),
        optimizer,
        _examples(_dataset(data, section.data or ""), section.data or ""),
        criterion(loss),
        size=USUAL_BATCH,
    )


def _validation(section: TrainSection, found: _FunctionLookup) -> Validation | None:
    if section.validation is None:
        return None
    data = found.function("validation", section.validation)
    metric, name = None, metric_name(section.metric or "")
    if section.metric is not None:
        metric = (
            getattr(metrics, name) if section.metric in METRICS else found.function("metric", section.metric)
        )
    if data is None:
        return None
    return Validation(_dataset(data, section.validation, "validation"), metric, name)


def _loss(name: str, found: _FunctionLookup) -> Callable[[Any, Any], Tensor] | None:
    known = loss_name(name)
    if known is None:
        return found.function("loss", name)
    named: Callable[[Any, Any], Tensor] = getattr(nn.functional, known)
    return named


def _optimizer(
    said: str | dict[str, Any], found: _FunctionLookup
) -> Callable[[Iterable[nn.Parameter]], Optimizer] | None:
    if isinstance(said, str) and ":" in said:
        given = found.function("optimizer", said)
        return None if given is None else _checked(given, "optimizer", said, Optimizer)
    options = {"name": said} if isinstance(said, str) else dict(said)
    name = options.pop("name", "")
    if name not in OPTIMIZERS:
        found.mistakes.append(
            Mistake("train.optimizer", f"must be one of {', '.join(OPTIMIZERS)}", str(name))
        )
        return None
    kind = getattr(torch.optim, OPTIMIZERS[name].torch)
    return lambda parameters: kind(parameters, **options)


def _checked(make: Callable[..., Any], field: str, target: str, kind: type) -> Callable[..., Any]:
    """Return the function with a check that its result is of this kind."""

    def made(*given: Any) -> Any:
        with blamed(f"train.{field}: {target}"):
            result = make(*given)
        if not isinstance(result, kind):
            words = f"must give a torch.{'nn.Module' if kind is nn.Module else 'optim.Optimizer'}"
            raise BadInput([Mistake(f"train.{field}", f"{words}, and gave {type(result).__name__}", target)])
        return result

    return made


def _dataset(data: Callable[[], Any], target: str, field: str = "data") -> Callable[[], Any]:
    """Return the function with a dataset that is made once and must have a length."""

    @cache
    def made() -> Any:
        with blamed(f"train.{field}: {target}"):
            result = data()
        if not hasattr(result, "__len__") or not hasattr(result, "__getitem__"):
            rule = "must give a dataset with a length (len) and samples by number, and gave "
            raise BadInput([Mistake(f"train.{field}", rule + type(result).__name__, target)])
        if not len(result):
            raise BadInput([Mistake(f"train.{field}", "gave a dataset without samples", target)])
        return result

    return made


def _examples(data: Callable[[], Any], target: str) -> Callable[[int], Any]:
    """Batches of any size, made of the first samples of the data, over and over."""

    @cache
    def of_size() -> Callable[[int], Any]:
        with unset_fake_temporarily():  # the data is real in every case
            whole = data()
            with blamed(f"train.data: {target}"):
                batch = default_collate([whole[number % len(whole)] for number in range(EXAMPLES)])
        if not isinstance(batch, list | tuple) or len(batch) != 2:
            rule = "must give (input, target) pairs; for anything else write a make function"
            raise BadInput([Mistake("train.data", rule, target)])
        return of_example(batch)

    return lambda count: of_size()(count)
