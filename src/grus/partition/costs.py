"""What the operators of an exported graph cost: counted for a GPU that is not there, or measured here.

    works(module)            →  node name: Work; `Work.seconds(gpu)` is the time on a GPU, by a roofline
    measured(module, given)  →  node name: seconds on this machine

The graph is run node by node: on tensors without data to count, on real ones to measure.
"""

import statistics
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, fx
from torch._guards import detect_fake_mode
from torch.utils._pytree import tree_iter
from torch.utils.flop_counter import FlopCounterMode

from grus.estimation.roofline import Work

HALF = (torch.float16, torch.bfloat16)
LOOKUPS = {getattr(torch.ops.aten, name) for name in ("embedding", "index", "index_select", "gather")}
"""Operators that read of their first input no more than they write."""
ROUNDS = 3
"""Runs of the whole graph of which an operator's median is taken; one before them is not counted."""


def works(module: fx.GraphModule) -> dict[str, Work]:
    """The work of every node that calls a function, from the shapes that the export noted."""
    given = [node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"]
    counting = _Counting(module)
    with detect_fake_mode(given) or nullcontext(), torch.no_grad():
        counting.run(*given)
    return counting.found


def measured(
    module: fx.GraphModule, given: Sequence[object], clock: Callable[[], float], rounds: int = ROUNDS
) -> dict[str, float]:
    """Seconds of every node that calls a function, forward only."""
    timing = _Timing(module, clock)
    with torch.no_grad():
        for _ in range(rounds + 1):
            timing.run(*given)
    return {name: statistics.median(times[1:]) for name, times in timing.times.items()}


class _Counting(fx.Interpreter):
    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.found: dict[str, Work] = {}

    def run_node(self, node: fx.Node) -> Any:
        if node.op != "call_function":
            return super().run_node(node)
        read = _tensors(self.fetch_args_kwargs_from_env(node))
        with FlopCounterMode(display=False) as counter:
            result = super().run_node(node)
        self.found[node.name] = _work(node, read, _tensors(result), counter.get_total_flops())
        return result


def _work(node: fx.Node, read: Sequence[Tensor], written: Sequence[Tensor], flops: int) -> Work:
    if not _mutates(node) and {*map(_storage, written)} <= {*map(_storage, read)}:
        return Work(view=True)
    moved = sum(map(_size, (*read, *written)))
    if getattr(node.target, "overloadpacket", None) in LOOKUPS:
        moved -= max(0, _size(read[0]) - _size(written[0]))
    floats = [one for one in read if one.is_floating_point()]
    half = bool(floats) and all(one.dtype in HALF for one in floats)
    return Work(flops, moved, half)


def _mutates(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


class _Timing(fx.Interpreter):
    def __init__(self, module: fx.GraphModule, clock: Callable[[], float]) -> None:
        super().__init__(module)
        self.times: dict[str, list[float]] = {}
        self._clock = clock

    def run_node(self, node: fx.Node) -> Any:
        begin = self._clock()
        result = super().run_node(node)
        if node.op == "call_function":
            self.times.setdefault(node.name, []).append(self._clock() - begin)
        return result


def _tensors(value: object) -> list[Tensor]:
    return [one for one in tree_iter(value) if isinstance(one, Tensor)]


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _size(tensor: Tensor) -> int:
    """Bytes that are touched: what is expanded is read once."""
    if 0 in tensor.stride():
        return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
    return tensor.numel() * tensor.element_size()
