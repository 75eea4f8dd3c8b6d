"""JSON to tensors and back, with everything refused that is not numbers in equal rows."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grus.model.errors import BadInput, Mistake

DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
    "int32": torch.int32,
    "uint8": torch.uint8,
    "bool": torch.bool,
}
"""Types of inputs, by the name that a request may use."""
_WHOLE = frozenset({torch.int64, torch.int32, torch.uint8, torch.bool})


@dataclass(frozen=True, slots=True)
class Form:
    """Form of a model's samples; None where it is unknown."""

    dtype: torch.dtype = torch.float32
    shape: tuple[int, ...] | None = None
    """Shape of one sample."""


class NotFinite(Exception):
    """The model returned a NaN or an infinity, which JSON cannot express."""


def wrong(rule: str, value: str = "", field: str = "inputs") -> BadInput:
    return BadInput([Mistake(field, rule, value)])


def request(body: bytes) -> tuple[Any, str | None]:
    """Return a request's inputs, and the dtype that it names, if any. Raises BadInput."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise wrong(f"is not valid JSON: {_short(error)}", field="request") from None
    if not isinstance(said, Mapping):
        raise wrong('must be a mapping such as {"inputs": [[0.1, 0.2]]}', field="request")
    mistakes = [
        Mistake(str(key)[:80], "is not known here; there are inputs and dtype")
        for key in said
        if key not in ("inputs", "dtype")
    ]
    if "inputs" not in said:
        mistakes.append(Mistake("inputs", "is needed: a list of samples"))
    dtype = said.get("dtype")
    if dtype is not None and dtype not in tuple(DTYPES):
        mistakes.append(Mistake("dtype", f"must be one of {', '.join(DTYPES)}", str(dtype)[:80]))
    if mistakes:
        raise BadInput(mistakes)
    return said["inputs"], dtype


def tensor(inputs: Any, form: Form, dtype: str | None = None) -> Tensor:
    """The samples of a request. Raises BadInput."""
    if not isinstance(inputs, list):
        raise wrong("must be a list of samples, each a number or lists of numbers", type(inputs).__name__)
    if not inputs:
        raise wrong("must have at least one sample")
    try:
        rows = np.asarray(inputs)
    except (ValueError, OverflowError, RecursionError):
        raise wrong("must have samples of one shape: lists of the same length at every depth") from None
    if rows.dtype.kind not in "iuf":
        raise wrong("must be numbers only, within the range of 64 bits", _first_stranger(inputs))
    if not np.isfinite(rows).all():
        raise wrong("must be finite numbers: there is a NaN or an infinity among them")
    if form.shape is not None and rows.shape[1:] != form.shape:
        rule = f"must have samples of shape {list(form.shape)}, and these have {list(rows.shape[1:])}"
        raise wrong(rule)
    wanted = form.dtype if dtype is None else DTYPES[dtype]
    if wanted in _WHOLE and rows.dtype.kind == "f" and not (rows == np.floor(rows)).all():
        raise wrong(f"must be whole numbers: this model takes {_name(wanted)}")
    made = torch.from_numpy(np.ascontiguousarray(rows)).to(wanted)
    if not made.dtype.is_floating_point or bool(torch.isfinite(made).all()):
        return made
    raise wrong(f"must be numbers within the range of {_name(wanted)}")


def plain(value: Any) -> Any:
    """Return a model's output as JSON values. Raises NotFinite."""
    if isinstance(value, Tensor):
        found = value.detach().cpu()
        if found.dtype.is_floating_point and not bool(torch.isfinite(found).all()):
            raise NotFinite
        return found.to(torch.float32).tolist() if found.dtype is torch.bfloat16 else found.tolist()
    if isinstance(value, np.ndarray | np.generic):
        return plain(torch.as_tensor(value))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotFinite
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if value is None or isinstance(value, str | int):
        return value
    raise TypeError(f"gave a {type(value).__name__}, which JSON cannot carry")


def _first_stranger(inputs: Any) -> str:
    """Return the first element that is no number."""
    while isinstance(inputs, list):
        strange = [one for one in inputs if isinstance(one, list) or not _is_number(one)]
        if not strange:
            return ""
        inputs = next((one for one in strange if not isinstance(one, list)), strange[0])
    return json.dumps(inputs)[:80] if not isinstance(inputs, dict) else "a mapping"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _short(error: Exception) -> str:
    return str(error)[:200]
