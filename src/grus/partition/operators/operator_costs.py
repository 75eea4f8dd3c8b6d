"""Operator costs of an exported graph, counted for a GPU that need not be present.

    works(module)  →  node name: Work; `OperatorCost.seconds(gpu)` is the time on a GPU, by a roofline

The graph is run node by node, on tensors without data.
"""

from contextlib import nullcontext
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch.utils.flop_counter import FlopCounterMode

from grus.estimation.operator_flops import tensors_in, work
from grus.estimation.roofline import OperatorCost


def works(module: fx.GraphModule) -> dict[str, OperatorCost]:
    """The work of every node that calls a function, from the shapes that the export noted."""
    given = [node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"]
    counting = _Counting(module)
    with detect_fake_mode(given) or nullcontext(), torch.no_grad():
        counting.run(*given)
    return counting.found


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
