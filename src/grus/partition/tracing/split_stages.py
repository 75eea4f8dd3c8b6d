"""Stage cutting: cuts the exported step of a training into consecutive stages, each a module of its own.

    stages = cut(program, stage_of)
    module = build(stages[1], tensors, device)

A program takes the leaves of a batch and returns the loss. A stage receives outputs of earlier ones that it,
or one after it, needs (it passes on those that it does not need itself); reads leaves of the batch; and sends
on. Its weights and buffers have the names that they have in the program, so that together the stages hold the
state of the whole model.
"""

import copy
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.fx import Graph, GraphModule, Node

from grus.model.errors import BadInput, Mistake
from grus.partition.tracing.inplace_operators import keeps_statistics, without_changes
from grus.partition.tracing.parameter_names import put

_STATE = {InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR}


@dataclass(frozen=True, slots=True)
class PartitionStage:
    number: int
    graph: Graph
    """Its inputs are `receives`, then `leaves`; its output the tuple of `sends`, at the end the loss."""
    receives: tuple[str, ...]
    leaves: tuple[str, ...]
    """Leaves of the batch that it reads, by the names of the program's inputs."""
    sends: tuple[str, ...]
    parameters: tuple[str, ...]
    buffers: tuple[str, ...]
    """The model's own, and tensors that are written into its code."""
    unused: tuple[str, ...] = ()
    """Unused names of the above; their tensors are in the first stage."""
    tied: tuple[tuple[str, str], ...] = ()
    """(another name of the same tensor, its name above)"""


@dataclass(frozen=True, slots=True)
class Flow:
    """A tensor that goes from one stage to the next."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    requires_grad: bool


def cut(program: ExportedProgram, stage_of: Mapping[str, int]) -> tuple[PartitionStage, ...]:
    """Cut the program by the stage of each operator (`Node.name`).

    Raises BadInput if data would have to flow backwards.
    """
    graph = copy.deepcopy(program.graph)
    state = _state(program, graph)
    together = without_changes(graph, set(state))
    placed = _placed(graph, stage_of)
    mistakes = [*_backwards(placed), *_torn(placed, together), *_shared(placed, state)]
    if mistakes:
        raise BadInput(mistakes)
    count = max(placed.values()) + 1
    tied = _tied(program, state)
    return tuple(_stage(number, count, graph, placed, state, tied) for number in range(count))


def leaves(program: ExportedProgram) -> tuple[str, ...]:
    """The names of the batch's leaves, in the order in which the batch is taken apart."""
    return tuple(
        spec.arg.name for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT
    )


def shared(stages: Sequence[PartitionStage]) -> dict[str, tuple[int, ...]]:
    """Weights that several stages read, and which: they stay equal if their gradients are added up."""
    found: dict[str, list[int]] = {}
    for stage in stages:
        for name in stage.parameters:
            found.setdefault(name, []).append(stage.number)
    return {name: tuple(numbers) for name, numbers in found.items() if len(numbers) > 1}


def build(stage: PartitionStage, tensors: Mapping[str, Tensor], device: torch.device) -> GraphModule:
    """The stage as a module of these tensors, which are on the device already."""
    graph = copy.deepcopy(stage.graph)
    for node in graph.nodes:
        if "device" in node.kwargs:  # tensors that the code creates
            node.kwargs = {**node.kwargs, "device": device}
    root = nn.Module()
    for name in (*stage.parameters, *stage.buffers):
        put(root, name, tensors[name])
    module = GraphModule(root, graph, f"Stage{stage.number}")
    for name in stage.unused:
        put(module, name, tensors[name])
    return module


def flows(program: ExportedProgram, stages: Sequence[PartitionStage]) -> tuple[tuple[Flow, ...], ...]:
    """Return the tensors that go from each stage to the
    next, found by running them on tensors without data.
    """
    found: list[tuple[Flow, ...]] = []
    device = torch.device("cpu")
    with FakeTensorMode(allow_non_fake_inputs=True), torch.enable_grad():
        given = _without_data(program)
        sent: Sequence[Tensor] = ()
        for stage in stages:
            module = build(stage, {name: given[name] for name in (*stage.parameters, *stage.buffers)}, device)
            output = module(*(_received(one) for one in sent), *(given[leaf] for leaf in stage.leaves))
            sent = output if isinstance(output, tuple) else ()
            found.append(tuple(Flow(tuple(one.shape), one.dtype, one.requires_grad) for one in sent))
    return tuple(found[:-1])


def _received(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_(tensor.requires_grad)


def _without_data(program: ExportedProgram) -> dict[str, Tensor]:
    """Return tensors without data by name: the program's state, and the leaves of a batch."""
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    found: dict[str, Tensor] = {}
    for node in program.graph.find_nodes(op="placeholder"):
        value, spec = node.meta.get("val"), specs[node.name]
        if not isinstance(value, Tensor):
            continue
        made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
        if spec.kind is InputKind.PARAMETER:
            made = nn.Parameter(made, program.state_dict[spec.target or ""].requires_grad)
        found[spec.target if spec.kind in _STATE and spec.target else node.name] = made
    return found


# --------------------------------------------------------------------------------------- where things are


@dataclass(frozen=True, slots=True)
class _GraphInput:
    name: str
    kind: InputKind


def _state(program: ExportedProgram, graph: Graph) -> dict[Node, _GraphInput]:
    """Return the placeholders that represent tensors of the model."""
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    found = {}
    for node in graph.find_nodes(op="placeholder"):
        spec = specs[node.name]
        if spec.kind in _STATE and not isinstance(spec.arg, ConstantArgument):
            found[node] = _GraphInput(spec.target or node.name, spec.kind)
    return found


def _tied(program: ExportedProgram, state: Mapping[Node, _GraphInput]) -> dict[str, str]:
    """Return names that are unused because the same tensor is read under another one."""
    same: dict[tuple[object, ...], list[Node]] = {}
    for node, held in state.items():
        tensor = program.state_dict.get(held.name)
        if tensor is not None:
            storage = tensor.untyped_storage()._cdata
            key = (storage, tensor.storage_offset(), tensor.shape, tensor.stride())
            same.setdefault(key, []).append(node)
    found: dict[str, str] = {}
    for nodes in same.values():
        used = [node for node in nodes if node.users] or nodes
        found |= {state[one].name: state[used[0]].name for one in nodes if one not in used}
    return found


def _placed(graph: Graph, stage_of: Mapping[str, int]) -> dict[Node, int]:
    """Return the stage of each operator; operators without one go to the stage of their neighbors."""
    placed: dict[Node, int] = {}
    before = 0
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if node.target is operator.getitem:
            placed[node] = placed[node.all_input_nodes[0]]  # a stage can receive tensors only
        elif node.name in stage_of:
            placed[node] = stage_of[node.name]
        else:
            known = [stage_of[user.name] for user in node.users if user.name in stage_of]
            least = max((placed[one] for one in node.all_input_nodes if one in placed), default=0)
            placed[node] = max(least, min(known, default=before))
        before = placed[node]
    return placed


def _backwards(placed: Mapping[Node, int]) -> list[Mistake]:
    return [
        Mistake(
            node.name,
            f"runs in stage {stage} and reads {one.name} of stage {placed[one]}: data flows forwards only",
        )
        for node, stage in placed.items()
        for one in node.all_input_nodes
        if one in placed and placed[one] > stage
    ]


def _torn(placed: Mapping[Node, int], together: Sequence[set[Node]]) -> list[Mistake]:
    """Tensors that are changed in place while others look at them must not be cut apart."""
    found = []
    for nodes in together:
        touched = [one for node in nodes for one in (node, *node.users) if one in placed]
        if len({placed[one] for one in touched}) > 1:
            names = ", ".join(sorted(one.name for one in nodes))
            found.append(Mistake(names, "change each other in place, so they must be in one stage"))
    return found


def _shared(placed: Mapping[Node, int], state: Mapping[Node, _GraphInput]) -> list[Mistake]:
    """Statistics have one place; what the forward pass only reads may be in several."""
    found = []
    for node, held in state.items():
        users = {placed[user] for user in node.users if user in placed}
        changes = held.kind is not InputKind.PARAMETER and any(map(keeps_statistics, node.users))
        if changes and len(users) > 1:
            listed = ", ".join(map(str, sorted(users)))
            found.append(Mistake(held.name, f"is used by stages {listed}: keep its operators in one"))
    return found


# -------------------------------------------------------------------------------------------- one stage


def _stage(
    number: int,
    count: int,
    graph: Graph,
    placed: Mapping[Node, int],
    state: Mapping[Node, _GraphInput],
    tied: Mapping[str, str],
) -> PartitionStage:
    crossing = _crossing(placed, count)
    receives = [node for node, last in crossing.items() if placed[node] < number <= last]
    sends = [node for node, last in crossing.items() if placed[node] <= number < last]
    own = [node for node in graph.nodes if placed.get(node) == number]
    read = {one for node in own for one in node.all_input_nodes}
    result = graph.output_node()
    if number == count - 1:
        read |= set(result.all_input_nodes)
    leaves = [node for node in graph.find_nodes(op="placeholder") if node in read and node not in state]
    held = [node for node in state if node in read]
    idle = [node for node in state if number == 0 and not node.users and state[node].name not in tied]
    new, known = Graph(), {}
    for node in (*receives, *leaves):
        known[node] = new.placeholder(node.name)
    for node in held:
        known[node] = new.get_attr(state[node].name)
    for node in graph.find_nodes(op="get_attr"):
        if node in read:
            known[node] = new.node_copy(node)
    for node in own:
        known[node] = new.node_copy(node, lambda one: known[one])
    new.output(_result(new, known, receives, sends, result, last=number == count - 1))
    parameters = [node for node in (*held, *idle) if state[node].kind is InputKind.PARAMETER]
    names = {state[node].name for node in (*held, *idle)}
    return PartitionStage(
        number=number,
        graph=new,
        receives=tuple(node.name for node in receives),
        leaves=tuple(node.name for node in leaves),
        sends=tuple(node.name for node in sends),
        parameters=tuple(state[node].name for node in parameters),
        buffers=tuple(state[node].name for node in (*held, *idle) if node not in parameters),
        unused=tuple(state[node].name for node in idle),
        tied=tuple((other, name) for other, name in tied.items() if name in names),
    )


def _crossing(placed: Mapping[Node, int], count: int) -> dict[Node, int]:
    """Each tensor that leaves its stage, and the last stage that needs it."""
    found = {}
    for node, stage in placed.items():
        last = max((placed.get(user, count - 1) for user in node.users), default=stage)
        if last > stage:
            found[node] = last
    return found


def _result(
    graph: Graph,
    known: Mapping[Node, Node],
    receives: Sequence[Node],
    sends: Sequence[Node],
    result: Node,
    *,
    last: bool,
) -> Any:
    if last:
        return known[result.all_input_nodes[0]]
    # Tensors that are sent are contiguous; those that only pass through are so already.
    return tuple(
        known[node]
        if node in receives
        else graph.call_function(torch.ops.aten.contiguous.default, (known[node],))
        for node in sends
    )
