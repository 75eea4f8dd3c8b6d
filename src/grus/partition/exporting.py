"""A training's forward pass as one exported program: the model and its loss. Needs torch.

What cannot be exported, or would compute other gradients afterwards, is refused with the reason and the place
in the user's code.
"""

import io
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_iter

from grus.estimation.faults import is_theirs, raised, short
from grus.estimation.training import Loss
from grus.model.errors import BadInput, Mistake

STILL_POSSIBLE = (
    "So it cannot be split. `grus estimate` can still tell its memory, and it can be trained whole: "
    "on one larger GPU, or with the strategy checkpoint, offload or fsdp."
)


class CannotCapture(BadInput):
    """The operators of a training cannot be told before it runs."""

    code = "cannot_capture"

    def __init__(self, reason: str) -> None:
        super().__init__([Mistake("model", f"{reason}\n{STILL_POSSIBLE}")])


class Whole(nn.Module):
    """A model and its loss as one module."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        self._loss = loss

    def forward(self, batch: Any) -> Tensor:
        return self._loss(self.model, batch)


def export(model: nn.Module, loss: Loss, batch: Any) -> ExportedProgram:
    """The forward pass of a model without data on a batch without data."""
    whole = Whole(model, loss)
    with _quiet(), _explained():
        program = torch.export.export(whole, (batch,), strict=False)
    _refuse_unknown_sizes(program)
    _refuse_other_results(program)
    with _quiet(), _explained():
        _refuse_other_gradients(whole, batch)
    return program


@contextmanager
def _explained() -> Iterator[None]:
    """Whatever the user's code raises is said as a reason why it cannot be captured."""
    try:
        yield
    except BadInput:
        raise
    except Exception as error:
        raise CannotCapture(_reason(error)) from error


def _reason(error: Exception) -> str:
    """In words of ours where torch's are long, with the user's lines that led there."""
    said = raised(error)
    if isinstance(error, GuardOnDataDependentSymNode | DataDependentOutputException):
        lines = [line for line in said.splitlines() if line.startswith("  ") and ", line " in line]
        return "\n".join(("its path depends on numbers that are known only while it runs", *lines))
    return f"it cannot be exported: {said}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's own words about what it could not export: the error says it in ours."""
    loggers = [logging.getLogger(name) for name in ("torch.fx", "torch.export", "torch._export")]
    levels = [one.level for one in loggers]
    with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        for one in loggers:
            one.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            for one, level in zip(loggers, levels, strict=True):
                one.setLevel(level)


def _refuse_unknown_sizes(program: ExportedProgram) -> None:
    for node in program.graph.nodes:
        for value in tree_iter(node.meta.get("val")):
            number = isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)
            if number or (isinstance(value, Tensor) and not _known(value)):
                raise CannotCapture(
                    "the size of a tensor depends on numbers that are known only while it runs" + _noted(node)
                )


def _known(tensor: Tensor) -> bool:
    return all(isinstance(size, int) for size in tensor.shape)


def _noted(node: fx.Node) -> str:
    """The line of the user's code that a node comes from."""
    found = re.findall(r'File "([^"]+)", line (\d+), in (.*)\n\s*(.*)', node.meta.get("stack_trace") or "")
    theirs = [one for one in found if is_theirs(one[0])][-1:]
    return "".join(f"\n  {short(file)}, line {line}, in {name}: {text}" for file, line, name, text in theirs)


def _refuse_other_results(program: ExportedProgram) -> None:
    """A loss is one number with a gradient, and nothing else comes out."""
    (output,) = (node for node in program.graph.nodes if node.op == "output")
    values = [node.meta.get("val") for node in output.all_input_nodes]
    if len(values) != 1 or not isinstance(values[0], Tensor) or values[0].numel() != 1:
        shown = ", ".join(str(tuple(one.shape)) for one in values if isinstance(one, Tensor))
        raise BadInput([Mistake("loss", "must be one tensor with one number", shown or "no tensor")])


def _refuse_other_gradients(whole: Whole, batch: Any) -> None:
    """An export forgets backward functions of the user's own and hooks on tensors: gradients would differ."""
    with _Hooks() as hooks:
        loss = whole(batch)
    if hooks.found:
        raise CannotCapture("a hook on a tensor changes its gradient, which an export forgets")
    if loss.grad_fn is None:
        raise BadInput([Mistake("loss", "must have a gradient: it depends on no parameter that is trained")])
    own = next((one for one in _backward(loss.grad_fn) if _of_users(one)), None)
    if own is not None:
        name = type(own).__name__.removesuffix("Backward")
        raise CannotCapture(f"{name} has a backward function of its own, which an export forgets")


def _of_users(function: Node) -> bool:
    """Written as a class in Python; torch's own for checkpointing only runs the forward pass again."""
    return isinstance(function, BackwardCFunction) and not type(function).__name__.startswith("CheckpointFun")


def _backward(last: Node) -> Iterator[Node]:
    """Every function of the backward pass."""
    waiting, seen = [last], {last}
    while waiting:
        function = waiting.pop()
        yield function
        for one, _ in function.next_functions:
            if one is not None and one not in seen:
                seen.add(one)
                waiting.append(one)


class _Hooks(TorchFunctionMode):
    """Notices hooks on tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.found = self.found or func is Tensor.register_hook
        return func(*args, **(kwargs or {}))
