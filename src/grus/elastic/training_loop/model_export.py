"""Export of a trained model as a file that can be served without its source code (`torch.export`).

The file also describes one sample, so that a request is validated before it reaches the model.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export, load, save
from torch.export.passes import move_to_device_pass

from grus.model.errors import BadInput, Mistake

EXPORTED = "model.pt2"
_ABOUT = "grus.json"


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Data type and shape of one sample."""

    dtype: str
    """Name of the type in torch, without `torch.`."""
    shape: tuple[int, ...]


def program(model: nn.Module, samples: Any, field: str = "train.export") -> ExportedProgram:
    """The model, for any number of samples like these. Raises BadInput where torch cannot follow it."""
    if not isinstance(samples, Tensor) or samples.dim() == 0:
        rule = "needs data whose input is one tensor; export another model by hand, with torch.export"
        raise BadInput([Mistake(field, rule, type(samples).__name__)])
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        return export(model, (samples,), dynamic_shapes=({0: Dim.DYNAMIC},))
    except Exception as error:  # any exception of torch: reported by its meaning for the job
        first = str(error).strip().partition("\n")[0]
        rule = f"is not possible, torch cannot follow this model for any number of samples: {first[:300]}"
        raise BadInput([Mistake(field, rule)]) from error
    finally:
        for module, training in modes.items():
            module.training = training


def save_exported(found: ExportedProgram, samples: Tensor, target: Path) -> None:
    """Whole, or not at all."""
    about = {"shape": list(samples.shape[1:]), "dtype": str(samples.dtype).removeprefix("torch.")}
    fresh = target.with_name(f".new-{target.name}")
    save(found, fresh, extra_files={_ABOUT: json.dumps(about)})
    with fresh.open("rb") as file:
        os.fsync(file.fileno())
    fresh.replace(target)


def load_exported(path: Path, device: torch.device) -> tuple[Callable[..., Any], TensorSpec | None]:
    """The model, and what its samples look like, if that is known. Raises BadInput."""
    more = {_ABOUT: ""}
    try:
        found = load(path, extra_files=more)
        if device.type != "cpu":
            found = move_to_device_pass(found, device)
        module = found.module()
    except Exception as error:  # noqa: BLE001 - torch raises many kinds: the replica's edge tells what it was
        first = str(error).strip().partition("\n")[0]
        rule = f"is not an exported model of this torch ({torch.__version__}): {first[:300]}"
        raise BadInput([Mistake("serve.model", rule, str(path))]) from None
    return module, _sample(more[_ABOUT])


def _sample(about: str) -> TensorSpec | None:
    """Return the sample described in the file; None for a
    file not written by Grus, which torch may still run.
    """
    try:
        said = json.loads(about)
        return TensorSpec(str(said["dtype"]), tuple(map(int, said["shape"])))
    except (ValueError, KeyError, TypeError):
        return None
