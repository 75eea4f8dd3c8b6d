"""Training section (`train:`) of a job file: the training by the names of the user's functions.

    train:
      model: nets.py:network          # a function that builds it
      data: nets.py:pictures          # a function that gives (input, target) pairs
      loss: cross_entropy
      optimizer: {name: sgd, lr: 0.1, momentum: 0.9}
      validation: nets.py:others      # evaluated on them after each epoch, …
      metric: accuracy                # … with this metric

The names are resolved on the machine with the code (`grus.estimation.training_factory`); only their form is
checked here.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar

from grus.api.optimizer_names import FLAGS, LOSSES, METRICS, OPTIMIZERS, PAIRS, loss_name
from grus.api.parsing import fields as f
from grus.api.parsing.validation_errors import BrokenRule, Strict, ValidFields, failure, unknown
from grus.model.distributed_options import Strategy, parse
from grus.model.errors import BadInput

TARGET_FORMS = "write file.py:function (from the workdir) or package.module:function"
_IN_FILE = re.compile(r"[^:\0\n]{1,3900}\.py:[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_IN_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_ALONE = re.compile(r"[\w./-]+", re.ASCII)


def target(value: Any) -> str:
    """Accept a function of the user's: its file or module, a colon, its name."""
    if isinstance(value, str) and (_IN_FILE.fullmatch(value) or _IN_MODULE.fullmatch(value)):
        return value
    if isinstance(value, str) and re.fullmatch(r"[\w./-]+\.py", value, re.ASCII):
        raise ValueError(f"does not say which function of the file, such as {value[:60]}:make")
    if isinstance(value, str) and value.count(":") == 1 and "/" in value and _ALONE.fullmatch(value[:60]):
        raise ValueError(f"is neither a file that ends with .py nor a module; {TARGET_FORMS}")
    raise ValueError(f"must name a function: {TARGET_FORMS}")


def _loss(value: Any) -> str:
    if isinstance(value, str) and ":" not in value:
        if loss_name(value) is not None:
            return value
        plain = value[:60].lower().replace("-", "_").removesuffix("_loss")
        close = get_close_matches(plain, LOSSES, n=1) or get_close_matches(_without_humps(value), LOSSES, n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        raise ValueError(f"must be one of {', '.join(LOSSES)}, or a function as {TARGET_FORMS[6:]}{meant}")
    return target(value)


def _metric(value: Any) -> str:
    if isinstance(value, str) and ":" in value:
        return target(value)
    if isinstance(value, str) and value in METRICS:
        return value
    close = get_close_matches(str(value)[:60].lower(), METRICS, n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    raise ValueError(f"must be one of {', '.join(METRICS)}, or a function as {TARGET_FORMS[6:]}{meant}")


def _without_humps(text: str) -> str:
    """Return `CrossEntropyLoss` as `cross_entropy`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text[:60]).lower().removesuffix("_loss")


def _optimizer(value: Any) -> str | dict[str, Any]:
    if isinstance(value, str) and ":" in value:
        return target(value)
    if isinstance(value, str):
        _check_optimizer({"name": value})
        return value
    if not isinstance(value, Mapping):
        rule = "must be a name (adam), a mapping with a name ({name: sgd, lr: 0.1}), or a function"
        raise ValueError(f"{rule} as {TARGET_FORMS[6:]}")
    _check_optimizer(value)
    return dict(value)


def _check_optimizer(given: Mapping[Any, Any]) -> None:
    name = given.get("name")
    known = OPTIMIZERS.get(name) if isinstance(name, str) else None
    if known is None:
        at, rule = ("name",) if len(given) > 1 else (), f"must be one of {', '.join(OPTIMIZERS)}"
        if name is None:
            raise failure([BrokenRule(("name",), f"is needed: {rule}")])
        close = get_close_matches(str(name)[:60].lower(), OPTIMIZERS, n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        raise failure([BrokenRule(at, f"{rule}, or a function as {TARGET_FORMS[6:]}{meant}", name)])
    broken = []
    for key, value in given.items():
        if key == "name":
            continue
        if key not in known.options:
            broken.append(unknown(str(key), value, sorted(known.options), _RATES))
        elif problem := _option_problem(key, value):
            broken.append(BrokenRule((key,), problem, value))
    if known.needs_rate and "lr" not in given and not any(one.meant == "lr" for one in broken):
        rule = f"is needed: {name} has no learning rate that suits most, such as {{name: {name}, lr: 0.1}}"
        broken.append(BrokenRule(("lr",), rule))
    if broken:
        raise failure(broken)


_RATES = dict.fromkeys(("learning_rate", "rate", "learningrate", "step_size"), "lr")


def _option_problem(key: str, value: Any) -> str:
    try:
        if key in FLAGS:
            f.flag(value)
        elif key in PAIRS:
            if not isinstance(value, list | tuple) or len(value) != 2:
                return "must be two numbers, such as [0.9, 0.999]"
            for one in value:
                f.number(0, 1)(one)
        else:
            f.number(0, 1e6)(value)
            if key == "lr" and value <= 0:
                return "must be above 0"
    except ValueError as error:
        return str(error)
    return ""


def strategy_words(value: Any) -> str:
    """Accept words of an execution plan."""
    text = str(f.text(200, empty=True)(value))
    try:
        parse(text)
    except BadInput as error:
        raise ValueError("; ".join(_told(one.rule, one.value) for one in error.mistakes)) from None
    return text


def _told(rule: str, word: str) -> str:
    return f"{word} {rule}" if word else rule


_Target = Annotated[str | None, f.judged(f.optional(target))]


class TrainIn(Strict):
    """Definition of the training. Either `make`, or model, data, loss and optimizer."""

    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("net", "network", "module"), "model"),
        **dict.fromkeys(("dataset", "dataloader", "train_data"), "data"),
        **dict.fromkeys(("criterion", "objective"), "loss"),
        **dict.fromkeys(("val", "valid", "val_data", "test", "eval", "validation_data"), "validation"),
        **dict.fromkeys(("metrics", "score"), "metric"),
        **dict.fromkeys(("optim", "opt"), "optimizer"),
        **dict.fromkeys(("batch_size", "global_batch"), "batch"),
        **dict.fromkeys(("epoch", "num_epochs", "max_epochs"), "epochs"),
        **dict.fromkeys(("lr", "learning_rate"), "it belongs to the optimizer: {name: adam, lr: 0.001}"),
        **dict.fromkeys(("function", "entry", "fn"), "make"),
        **dict.fromkeys(("strategies", "precision", "amp"), "strategy"),
        **dict.fromkeys(("gpu", "gpus"), "it belongs under resources, beside train"),
    }

    make: _Target = None
    """Function that returns model, optimizer, batch and loss in one, and data."""
    model: _Target = None
    """Function that builds the model."""
    data: _Target = None
    """Function that returns the dataset: (input, target) pairs."""
    loss: Annotated[str | None, f.judged(f.optional(_loss))] = None
    """Loss: a name, or a function of output and target."""
    optimizer: Annotated[str | dict[str, Any] | None, f.judged(f.optional(_optimizer))] = None
    """Optimizer: a name, a mapping with a name and options, or a function of the parameters."""
    batch: Annotated[int | None, f.judged(f.optional(f.whole(1, 10_000_000)))] = None
    """Samples of a step, on all workers together."""
    epochs: Annotated[int | None, f.judged(f.optional(f.whole(1, 1_000_000)))] = None
    seed: Annotated[int | None, f.judged(f.optional(f.whole(0, 2**63 - 1)))] = None
    """Random seed of the weights, the order of the data and all other randomness."""
    strategy: Annotated[str | None, f.judged(f.optional(strategy_words))] = None
    """Execution plan in words: bf16 checkpoint."""
    validation: _Target = None
    """Function that returns validation data: the model is evaluated on it after each epoch, and does not
    learn from it.
    """
    metric: Annotated[str | None, f.judged(f.optional(_metric))] = None
    """Evaluation metric besides the loss: a name, or a function of output and target."""
    export: f.Flag = False
    """Also export the trained model as a program (model.pt2), which can be served without this code."""
    plan: f.Path = ""
    """File with the plan of a split, relative to the workdir; `grus split` writes it."""

    def across(self, sound: ValidFields) -> list[BrokenRule]:
        return self._what_rules(sound) + self._how_rules(sound) + self._judging_rules(sound)

    def _judging_rules(self, sound: ValidFields) -> list[BrokenRule]:
        broken = []
        if self.metric is not None and self.validation is None and sound("validation"):
            broken.append(BrokenRule(("metric",), "needs validation: data to be judged by", self.metric))
        split = bool(self.plan) or (sound("strategy") and Strategy.SPLIT in parse(self.strategy or ""))
        rule = "is not for a split model: nobody has all of it"
        asked = (("validation", self.validation), ("export", self.export or None))
        return broken + [BrokenRule((name,), rule, value) for name, value in asked if value and split]

    def _how_rules(self, sound: ValidFields) -> list[BrokenRule]:
        if not self.plan or not self.strategy or not sound("strategy"):
            return []
        if Strategy.SPLIT in parse(self.strategy):
            return []
        return [
            BrokenRule(
                ("strategy",), "must be split where there is a plan of one; leave it out", self.strategy
            )
        ]

    def _what_rules(self, sound: ValidFields) -> list[BrokenRule]:
        if self.make is not None or not sound("make"):
            rule = "cannot stand beside make, which gives it; leave one of them out"
            whole = (("model", self.model), ("loss", self.loss), ("optimizer", self.optimizer))
            return [BrokenRule((name,), rule, value) for name, value in whole if value is not None]
        given = {"model": self.model, "data": self.data, "loss": self.loss, "optimizer": self.optimizer}
        if not any(given.values()) and all(sound(name) for name in given):
            return [BrokenRule((), "must name model, data, loss and optimizer, or make")]
        return [
            BrokenRule((name,), f"is needed: {_WHAT[name]}")
            for name, value in given.items()
            if value is None and sound(name)
        ]


_WHAT = {
    "model": "the function that builds the model, such as nets.py:network",
    "data": "the function that gives (input, target) pairs, such as nets.py:pictures",
    "loss": "a name such as cross_entropy, or a function of output and target",
    "optimizer": "a name such as adam, {name: sgd, lr: 0.1}, or a function of the parameters",
}


def section_name(section: TrainIn) -> str:
    """Return the default name of a job with this section: its file or module, or its model."""
    if section.make is not None:
        return section.make.rpartition(":")[0].rpartition("/")[2].removesuffix(".py").rpartition(".")[2]
    return (section.model or "").rpartition(":")[2]
