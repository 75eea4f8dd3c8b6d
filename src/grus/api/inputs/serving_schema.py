"""Serving section (`serve:`) of a job file: names the model that answers requests, by the names that its
training used.

    type: serve
    serve:
      model: nets.py:network          # as under train; or an exported model, out/model.pt2
      weights: out/model.pt           # written by the training
      replicas: 1..4                  # `grus scale` sets how many

The names are resolved on the machine with the code (`grus.serving`); only their form is checked here.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from grus.api.inputs.resources import ResourcesIn
from grus.api.inputs.training_schema import target
from grus.api.parsing import fields as f
from grus.api.parsing.validation_errors import BrokenRule, Strict, ValidFields
from grus.model.texts.units import parse_gpu
from grus.model.train_serve_spec import is_function

SERVER = ("python3", "-m", "grus.serving.replica")
"""Command of a job with a `serve:` section; the section follows it."""
LARGEST_BATCH = 65_536


def _model(value: Any) -> str:
    """Accept a function (as under `train`), or the path of an exported model."""
    if isinstance(value, str) and is_function(value):
        return target(value)
    return str(f.text(f.LONGEST_PATH)(value))


_Target = Annotated[str | None, f.judged(f.optional(target))]


class ServeIn(Strict):
    """Served model and its number of replicas."""

    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("net", "network", "module"), "model"),
        **dict.fromkeys(("checkpoint", "state", "state_dict", "path", "file"), "weights"),
        **dict.fromkeys(("function", "handler", "fn"), "predict"),
        **dict.fromkeys(("batch_size", "max_batch"), "batch"),
        **dict.fromkeys(("replica", "count", "workers", "instances", "scale"), "replicas"),
        **dict.fromkeys(("gpu", "gpus"), "it belongs under resources, beside serve"),
        **dict.fromkeys(("port", "host", "address"), "Grus chooses it; ask by `grus predict`"),
    }

    model: Annotated[str | None, f.judged(f.optional(_model))] = None
    """Function that builds the model, as under train; or an exported model (file, or folder with it)."""
    weights: f.Path = ""
    """Weights written by training: a model.pt, or a folder with one. For a model that a function builds."""
    predict: _Target = None
    """Function of (model, inputs), or of (inputs) without a model, in place of the model's forward pass."""
    batch: Annotated[int, f.judged(f.whole(1, LARGEST_BATCH))] = 32
    """Maximum number of samples computed at once: waiting requests are batched."""
    replicas: f.Replicas = 1
    """Number of replicas: a number, or a range within which `scale` sets it; starts at the minimum."""

    @property
    def named(self) -> bool:
        """Return whether it names the served model itself."""
        return self.model is not None or self.predict is not None

    def across(self, sound: ValidFields) -> list[BrokenRule]:
        if not self.weights or not sound("weights") or not sound("model"):
            return []
        if self.model is None:
            rule = "needs model: the function that builds what they belong to, such as nets.py:network"
            return [BrokenRule(("weights",), rule, self.weights)]
        if not is_function(self.model):
            rule = "cannot stand beside an exported model, which has its own: leave one of them out"
            return [BrokenRule(("weights",), rule, self.weights)]
        return []


def serve_argv(section: ServeIn) -> tuple[str, ...]:
    """Return the command of a `serve:` section. It does not depend on the number of replicas."""
    said = section.model_dump(mode="json", exclude_defaults=True, exclude={"replicas"})
    return (*SERVER, json.dumps(said, sort_keys=True, ensure_ascii=False))


def serve_name(section: ServeIn) -> str:
    """Return the default name of a job with this section."""
    named = section.predict or section.model or ""
    if is_function(named):
        return named.rpartition(":")[2]
    return named.rstrip("/").rpartition("/")[2].partition(".")[0]


def serve_rules(
    resources: ResourcesIn, launch: str | None, retries: int, sound: ValidFields
) -> list[BrokenRule]:
    """Check the fields beside the section in a job."""
    broken = []
    if sound("resources", "gpu"):
        ask = parse_gpu(resources.gpu)
        if ask.auto or not ask.count.rigid:
            more = "" if ask.auto else f": gpu: 1 here, and under serve replicas: {ask.count}"
            rule = f"must say what each replica takes, such as 1 or 0.5{more}"
            broken.append(BrokenRule(("resources", "gpu"), rule, resources.gpu))
    if resources.sizes is not None:
        broken.append(BrokenRule(("resources", "sizes"), "is not for serve: `grus scale` sets its size"))
    if launch is not None and sound("launch"):
        rule = "cannot stand beside serve: it has one worker a replica"
        broken.append(BrokenRule(("launch",), rule, launch))
    if retries and sound("retries"):
        rule = "is not for serve: a replica that fails is started again for ever, with growing pauses"
        broken.append(BrokenRule(("retries",), rule, retries))
    return broken
