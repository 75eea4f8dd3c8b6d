"""Model server of a `serve:` section: the user's function with its weights, or an exported model.

It answers by the model's forward pass, or by a function of the user's. It runs the user's code in this
process, which is a replica's own.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from grus.elastic.training_loop.model_export import EXPORTED, load_exported
from grus.estimation.script_loader import function
from grus.estimation.user_code_errors import blamed
from grus.model.artifacts import input_variable
from grus.model.errors import BadInput, Mistake
from grus.model.train_serve_spec import MODEL, ServeSection, is_function
from grus.serving.json_tensors import DTYPES, Form

WEIGHTS = "model.pt"
"""File name of a training's model (`grus.elastic.section`)."""
INPUT = input_variable(MODEL)


@dataclass(frozen=True)
class Served:
    """Served model or function."""

    about: str
    """Description of the served model, for people."""
    form: Form
    forward: Callable[[Tensor], Any] | None = None
    """Function from a batch of samples to the model's output."""
    predict: Callable[[Any], Any] | None = None
    """Function of one request, as it was sent; in place of the above."""


def served(section: ServeSection, folder: Path, device: torch.device) -> Served:
    """Return the model or function that the section describes; `folder` is the job's. Raises BadInput."""
    model, form, about = _model(section, folder, device)
    if section.predict is None:
        if model is None:
            raise _wrong("model", f"is needed: a function, an exported model, or an input named {MODEL}")
        return Served(about, form, forward=_forward(model, device))
    with blamed(f"serve.predict: {section.predict}"):
        own = function(section.predict, folder)
    named = f"{section.predict} of {about}" if model is not None else section.predict
    return Served(named, form, predict=own if model is None else lambda inputs: own(model, inputs))


def _forward(model: Callable[..., Any], device: torch.device) -> Callable[[Tensor], Any]:
    def computed(samples: Tensor) -> Any:
        with torch.inference_mode():
            return model(samples.to(device))

    return computed


def _model(
    section: ServeSection, folder: Path, device: torch.device
) -> tuple[Callable[..., Any] | None, Form, str]:
    handed = os.environ.get(INPUT)
    if section.model is not None and is_function(section.model):
        return _built(section, folder, device, handed)
    path = folder / section.model if section.model is not None else Path(handed) if handed else None
    if path is None:
        return None, Form(), ""
    found = _below(path, EXPORTED)
    if not found.is_file():
        rule = "is not there" if not path.is_dir() else f"has no {EXPORTED} in it"
        more = "; weights alone need the function that builds the model, as under train"
        raise _wrong("model", f"{rule}: {path}{more}", section.model or "")
    module, sample = load_exported(found, device)
    known = sample is not None and sample.dtype in DTYPES
    return module, Form(DTYPES[sample.dtype], sample.shape) if sample and known else Form(), str(found)


def _built(
    section: ServeSection, folder: Path, device: torch.device, handed: str | None
) -> tuple[nn.Module, Form, str]:
    target = section.model or ""
    with blamed(f"serve.model: {target}"):
        model = function(target, folder)()
    if not isinstance(model, nn.Module):
        raise _wrong("model", f"must give a torch.nn.Module, and gave {type(model).__name__}", target)
    path = folder / section.weights if section.weights else Path(handed) if handed else None
    if path is not None:
        path = _below(path, WEIGHTS)
        _fill(model, path, section.weights)
    first = next(model.parameters(), None)
    dtype = first.dtype if first is not None and first.dtype.is_floating_point else torch.float32
    about = f"{target} with {path}" if path is not None else f"{target} as the function gives it"
    return model.to(device).eval(), Form(dtype), about


def _below(path: Path, name: str) -> Path:
    """The file itself; of a folder the one in it, else that of the newest training with a folder in there."""
    if not path.is_dir() or (path / name).is_file():
        return path / name if path.is_dir() else path
    kept = sorted(path.glob(f"*/{name}"), key=lambda one: one.stat().st_mtime)
    return kept[-1] if kept else path / name


def _fill(model: nn.Module, path: Path, said: str) -> None:
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
        model.load_state_dict(weights)
    except OSError as error:
        raise _wrong("weights", f"cannot be read: {path}: {error.strerror}", said) from None
    except Exception as error:  # noqa: BLE001 - torch raises many kinds: the replica's edge tells what it was
        first = str(error).strip().partition("\n")[0]
        raise _wrong("weights", f"are not this model's: {path}: {first[:300]}", said) from None


def _wrong(field: str, rule: str, value: str = "") -> BadInput:
    return BadInput([Mistake(f"serve.{field}", rule, value)])
