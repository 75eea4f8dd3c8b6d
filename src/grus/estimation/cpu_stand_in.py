"""Emulation of GPU placement: a user's code that moves data to a GPU runs here without one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_HERE = torch.device("cpu")
_STAYS: set[Callable[..., Any]] = {Tensor.cuda, Tensor.pin_memory}


@contextmanager
def elsewhere() -> Iterator[None]:
    """Meanwhile `.cuda()`, `.to("cuda")`, `device="cuda"` and `autocast("cuda")` mean this machine."""
    begin = torch.autocast.__init__

    def lowered(
        self: torch.autocast, device_type: str, dtype: torch.dtype | None = None, *rest: Any, **more: Any
    ) -> None:
        on_a_gpu = str(device_type).startswith("cuda")
        begin(
            self,
            "cpu" if on_a_gpu else device_type,
            dtype or (torch.float16 if on_a_gpu else None),
            *rest,
            **more,
        )

    with patch.object(torch.autocast, "__init__", lowered), _Elsewhere():
        yield


class _Elsewhere(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in _STAYS:
            return args[0]
        given = {name: _here(value) for name, value in (kwargs or {}).items()}
        return func(*map(_here, args), **given)


def _here(value: Any) -> Any:
    if isinstance(value, torch.device):
        return _HERE if value.type == "cuda" else value
    return "cpu" if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")) else value
