"""Operator costs of an exported graph: counted for a GPU that need not be present, or measured here.

    works(module)            →  node name: Work; `OperatorCost.seconds(gpu)` is the time on a GPU, by a
    roofline measured(module, given)  →  node name: seconds on this machine

The graph is run node by node: on tensors without data to count, on real ones to measure.
"""

import statistics
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch.utils.flop_counter import FlopCounterMode

from grus.estimation.operator_flops import tensors_in, work
from grus.estimation.roofline import OperatorCost

ROUNDS = 3
"""Runs of the whole graph of which an operator's median is taken; one before them is not counted."""


def works(module: fx.GraphModule) -> dict[str, OperatorCost]:
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
        self.found: dict[str, OperatorCost] = {}

    def run_node(self, node: fx.Node) -> Any:
        if node.op != "call_function":
            return super().run_node(node)
        read = tensors_in(self.fetch_args_kwargs_from_env(node))
        with FlopCounterMode(display=False) as counter:
            result = super().run_node(node)
        self.found[node.name] = work(node.target, read, tensors_in(result), counter.get_total_flops())
        return result


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
