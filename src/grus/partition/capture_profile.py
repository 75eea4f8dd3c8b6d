"""Operator graph of a training, captured before it runs and without its data.

    capture(training, size, gpu)  →  Captured

The model and its loss are exported as one program on tensors without data; each of its nodes is observed once
for the tensors that it reads, makes and keeps. Raises CannotCapture (a BadInput) with the reason and the
place in the user's code. Needs torch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils._pytree import tree_iter, tree_map

from grus.estimation.meta_tensors import built
from grus.estimation.roofline import Rates
from grus.estimation.training_definition import Training
from grus.estimation.user_code_errors import blamed
from grus.model.errors import BadInput, Mistake
from grus.partition.graph import OpGraph
from grus.partition.operators.operator_costs import works
from grus.partition.operators.training_step_graph import Nodes, ResidentTensor, forward_graph, step_graph
from grus.partition.pipelining.stage_units import stage_units
from grus.partition.tracing.capture_trace import CannotCapture, export
from grus.partition.tracing.node_observations import Observed
from grus.partition.tracing.node_observer import observe

__all__ = ["CannotCapture", "Captured", "capture"]


@dataclass(frozen=True, slots=True)
class Captured:
    """A training of batches of one size, taken apart."""

    program: ExportedProgram
    """Model and loss in one, without data. Parameters have the model's names with `model.` before them."""
    size: int
    """Samples of the batch."""
    forward: OpGraph
    graph: OpGraph
    """Forward and backward pass: the operators of `forward` come first, with the same numbers."""
    apart: OpGraph
    """The same graph, but weights that several operators read are counted for each of these, and do not tie
    them to one device: for stages that keep such weights equal by adding up their gradients.
    """
    nodes: Nodes
    """Names of the nodes that each operator of the forward pass runs."""
    observed: Observed
    """Reads, results and changes of each node."""

    @property
    def staged(self) -> OpGraph:
        """The graph to cut into stages: `apart` where weights would tie most operators into one stage."""
        if self.apart == self.graph:
            return self.graph
        largest = max(map(len, stage_units(self.graph).members))
        return self.apart if 2 * largest > len(self.graph.ops) else self.graph

    def devices_of_nodes(self, device_of: Sequence[int]) -> dict[str, int]:
        """Return the device of each node, from the device of
        each operator of the graph (or of the forward pass).
        """
        found = zip(self.nodes, device_of[: len(self.nodes)], strict=True)
        return {name: device for names, device in found for name in names}


def capture(training: Training, size: int, gpu: Rates) -> Captured:
    """The operators of one step with `size` samples, as long as they take on this type of GPU."""
    if size < 1:
        raise BadInput([Mistake("batch", "must have at least one sample", str(size))])
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    with blamed("model"):
        model = built(training.model, fake)
    with blamed("batch"), fake:
        batch = tree_map(lambda one: one.clone() if isinstance(one, Tensor) else one, training.batch(size))
    with blamed("optimizer"):
        state = _state(training, model, fake)
    program, trained = export(model, training.loss, batch)
    observed = observe(program)
    lost = sorted(name.removeprefix("model.") for name in trained - observed.trained)
    if lost:
        raise CannotCapture(f"an export of it forgets the gradient of {lost[0]}")
    work = works(program.graph_module)
    ahead = {name: one.seconds(gpu) for name, one in work.items()}
    back = {name: one.backward().seconds(gpu) for name, one in work.items()}
    held = _held(program, state)
    forward, nodes = forward_graph(observed, ahead, held)
    free, _ = forward_graph(observed, ahead, held, apart=True)
    graph, apart = (step_graph(one, nodes, observed, back) for one in (forward, free))
    return Captured(program, size, forward, graph, apart, nodes, observed)


def _state(training: Training, model: nn.Module, fake: FakeTensorMode) -> dict[str, int]:
    """Bytes of the optimizer's state for each parameter, after its first step."""
    with fake:
        optimizer = training.optimizer(model.parameters())
        for parameter in _trained(model):
            parameter.grad = torch.empty_like(parameter)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return {
        f"model.{name}": sum(map(_size, tree_iter(list(optimizer.state.get(one, {}).values()))))
        for name, one in model.named_parameters()
    }


def _trained(model: nn.Module) -> Iterable[nn.Parameter]:
    return (one for one in model.parameters() if one.requires_grad)


def _held(program: ExportedProgram, state: Mapping[str, int]) -> dict[str, ResidentTensor]:
    """Return the bytes that each input tensor of the program takes for a whole step."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    found = {}
    for spec in program.graph_signature.input_specs:
        name, size = spec.arg.name, _size(values.get(spec.arg.name))
        if spec.kind == InputKind.USER_INPUT:
            found[name] = ResidentTensor(size, batch=True)
        elif spec.kind == InputKind.PARAMETER and program.state_dict[spec.target].requires_grad:
            found[spec.target] = ResidentTensor(2 * size + state.get(spec.target, 0), trained=True)
        else:
            found[spec.target or name] = ResidentTensor(size)
    return found


def _size(value: object) -> int:
    return value.numel() * value.element_size() if isinstance(value, Tensor) else 0
