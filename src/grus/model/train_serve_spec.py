"""Sections `train:` and `serve:` as the programs of a job read them: plain values, without a check of each.

The API has checked a section before (`grus.api.inputs.training_schema`, `grus.api.inputs.serving_schema`) and
writes it on the command line of the program, in JSON. The program may come from an older SDK than the server.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from grus.model.errors import BadInput, Mistake

USUAL_BATCH = 32
MODEL = "model"
"""Input that is served where the section names no model of its own."""
_PARTS = ("model", "data", "loss", "optimizer")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSection:
    """A training, by the names of the user's functions. `grus.api.inputs.training_schema.TrainIn` documents
    the fields.
    """

    make: str | None = None
    model: str | None = None
    data: str | None = None
    loss: str | None = None
    optimizer: str | dict[str, Any] | None = None
    batch: int | None = None
    epochs: int | None = None
    seed: int | None = None
    strategy: str | None = None
    validation: str | None = None
    metric: str | None = None
    export: bool = False
    plan: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSection:
    """A served model; `grus.api.inputs.serving_schema.ServeIn` documents the fields."""

    model: str | None = None
    weights: str = ""
    predict: str | None = None
    batch: int = 32


_Section = TypeVar("_Section", TrainSection, ServeSection)


def on_command_line(kind: type[_Section], words: Sequence[str]) -> _Section:
    """The section that a program was started with. Raises BadInput."""
    name = _name(kind)
    if len(words) != 1:
        raise BadInput([Mistake(name, "is given as one argument, in JSON")])
    try:
        given = json.loads(words[0])
    except ValueError as error:
        raise BadInput([Mistake(name, f"is not valid JSON: {error}", words[0][:80])]) from None
    if not isinstance(given, dict):
        raise BadInput([Mistake(name, "must be a JSON object", words[0][:80])])
    return section(kind, given)


def section(kind: type[_Section], given: Mapping[str, Any]) -> _Section:
    """A checked section as a value. Raises BadInput for fields that this version does not know."""
    name, known = _name(kind), [one.name for one in fields(kind)]
    rule = "is unknown here; the grus-gpu-sdk of this environment may be older than the server: upgrade it"
    mistakes = [Mistake(f"{name}.{key}", rule) for key in given if key not in known]
    if kind is TrainSection and given.get("make") is None:
        mistakes += [Mistake(f"{name}.{part}", "is needed") for part in _PARTS if given.get(part) is None]
    if mistakes:
        raise BadInput(mistakes)
    return kind(**given)


def _name(kind: type[object]) -> str:
    return "train" if kind is TrainSection else "serve"


def metric_name(metric: str) -> str:
    """The name under which a metric is reported: its own, without its file or module."""
    return metric.rpartition(":")[2]


def is_function(model: str) -> bool:
    """True if a model is a function that builds it, and not the path of an exported one."""
    return ":" in model
