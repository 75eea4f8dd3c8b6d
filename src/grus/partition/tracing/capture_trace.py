"""A training's forward pass as one exported program: the model and its loss. Needs torch.

What cannot be exported, or would compute other gradients afterwards, is refused with the reason and the place
in the user's code.
"""

import io
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from types import NoneType
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._dynamo.eval_frame import OptimizedModule
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import tree_iter

from grus.estimation.training_definition import Loss
from grus.estimation.user_code_errors import is_theirs, raised, short
from grus.model.errors import BadInput, Mistake
from grus.partition.tracing.export_guards import strange, trained, watched

STILL_POSSIBLE = (
    "So it cannot be split. `grus estimate` can still tell its memory, and it can be trained whole: "
    "on one larger GPU, or with the strategy checkpoint, offload or fsdp."
)


class CannotCapture(BadInput):
    """The operators of a training cannot be captured before it runs."""

    code = "cannot_capture"

    def __init__(self, reason: str) -> None:
        super().__init__([Mistake("model", f"{reason}\n{STILL_POSSIBLE}")])


class ModelWithLoss(nn.Module):
    """A model and its loss as one module."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        self._loss = loss

    def forward(self, batch: Any) -> Tensor:
        return self._loss(self.model, batch)


def export(model: nn.Module, loss: Loss, batch: Any) -> tuple[ExportedProgram, frozenset[str]]:
    """The forward pass of a model and a batch without data, and the parameters that get a gradient in it."""
    if isinstance(model, OptimizedModule):
        raise CannotCapture("it is compiled (torch.compile): name the model itself")
    _refuse_other_batches(batch)
    whole = ModelWithLoss(model, loss)
    with _quiet(), _explained():
        program = torch.export.export(whole, (batch,), strict=False)
    _refuse_numbers(program)
    with _quiet(), _explained():
        result, forgotten = watched(whole, batch)
    _refuse_other_results(result)
    if forgotten:
        raise CannotCapture(f"it {forgotten[0]}, which an export forgets")
    if strange(program, whole):
        raise CannotCapture("it reads a tensor that no operator of its forward pass made")
    return program, trained(result, whole.named_parameters(remove_duplicate=False))


@contextmanager
def _explained() -> Iterator[None]:
    """Turn any exception of the user's code into a reason why it cannot be captured."""
    try:
        yield
    except BadInput:
        raise
    except Exception as error:  # boundary to the user's code and torch's exporter: both may raise anything
        raise CannotCapture(_reason(error)) from error


def _reason(error: Exception) -> str:
    """Return the reason, in short words where torch's are long, with the user's lines that led there."""
    said = raised(error)
    if isinstance(error, GuardOnDataDependentSymNode | DataDependentOutputException):
        lines = [line for line in said.splitlines() if line.startswith("  ") and ", line " in line]
        return "\n".join(("its path depends on numbers that are known only while it runs", *lines))
    return f"it cannot be exported: {said}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress torch's own messages about a failed export: the error has shorter ones."""
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


def _refuse_other_batches(batch: Any) -> None:
    for one in tree_iter(batch):
        if not isinstance(one, Tensor | int | float | str | NoneType):
            rule = "must hold tensors and numbers, in tuples, lists and dicts"
            raise BadInput([Mistake("batch", rule, type(one).__name__)])


def _refuse_numbers(program: ExportedProgram) -> None:
    """Numbers that come out of tensors: what follows from them is not known before."""
    for node in program.graph.nodes:
        for value in tree_iter(node.meta.get("val")):
            if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
                raise CannotCapture("it takes a number out of a tensor while it runs" + _noted(node))
            if isinstance(value, Tensor) and not _known(value):
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


def _refuse_other_results(loss: object) -> None:
    """A loss is one number with a gradient."""
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        shown = f"a tensor of {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise BadInput([Mistake("loss", "must be one tensor with one number", shown)])
    if loss.grad_fn is None:
        raise BadInput([Mistake("loss", "must have a gradient: it depends on no parameter that is trained")])
