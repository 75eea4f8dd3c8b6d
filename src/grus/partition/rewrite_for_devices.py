"""Split module: a captured training that runs on several devices of one node, with copies at the cuts.

    split = realize(captured, model, plan.device_of, devices)
    split(batch).backward()

It accepts any placement that keeps groups together: branches may run side by side. Operators keep the order
of the program, so on one kind of device the same seed gives the same numbers as the model itself. Needs
torch.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils._pytree import tree_flatten, tree_map

from grus.model.errors import BadInput, Mistake
from grus.partition.capture_profile import Captured
from grus.partition.tracing.node_observer import skipped
from grus.partition.tracing.parameter_names import put

_COPY = torch.ops.aten._to_copy.default


class Split(nn.Module):
    """Module that returns the loss of a batch."""

    def __init__(self, program: ExportedProgram, body: fx.GraphModule) -> None:
        super().__init__()
        self.body = body
        self._structure = program.call_spec.in_spec
        self._given = [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"]

    @property
    def model(self) -> nn.Module:
        """The model's tensors under the model's names: what is saved of it can be loaded without a split."""
        return self.body.get_submodule("model")

    def forward(self, batch: Any) -> Tensor:
        leaves, structure = tree_flatten(((batch,), {}))
        given = self._given[len(self._given) - len(leaves) :]
        if structure != self._structure or [*map(_shape, leaves)] != [*map(_shape, given)]:
            like = tree_map(_shape, self._structure.unflatten(given)[0][0])
            raise ValueError(
                f"the batch must be like the one that was captured, {like}; this is {tree_map(_shape, batch)}"
            )
        loss: Tensor = self.body(*leaves)
        return loss


def realize(
    captured: Captured, model: nn.Module, device_of: Sequence[int], devices: Sequence[torch.device]
) -> Split:
    """The module, with `device_of` as in a plan; optimizers are made of its parameters. Raises BadInput."""
    _refuse_torn_groups(captured, device_of)
    homes = captured.devices_of_nodes(device_of)
    making = _Making(captured, homes, devices)
    graph = making.graph_of(captured.program.graph)
    tensors = _moved(captured.program, model, making.tensors, devices)
    root = nn.Module()
    root.add_module("model", nn.Module())
    for name, inner in making.inner.items():
        root.add_module(name, inner)
    for name, tensor in tensors.items():
        put(root, name, tensor, persistent=name in captured.program.state_dict)
    body = fx.GraphModule(root, graph)
    body.add_module("model", root.get_submodule("model"))  # in the model's order, and with unused tensors
    return Split(captured.program, body)


def _refuse_torn_groups(captured: Captured, device_of: Sequence[int]) -> None:
    homes: dict[str, int] = {}
    torn = []
    for op, device in zip(captured.forward.ops, device_of[: len(captured.nodes)], strict=True):
        if op.group and homes.setdefault(op.group, device) != device:
            rule = f"must be on the device of {op.group}: they share weights or memory"
            torn.append(Mistake(op.name, rule))
    if torn:
        raise BadInput(torn)


class _Making:
    """The new graph under way."""

    def __init__(self, captured: Captured, homes: Mapping[str, int], devices: Sequence[torch.device]) -> None:
        self.tensors: dict[str, int] = {}
        """Parameter, buffer or constant → its device; only of those that are read under this name."""
        self.inner: dict[str, nn.Module] = {}
        """Parts of the program that are graphs of their own."""
        self._captured = captured
        self._homes = homes
        self._devices = devices
        self._graph = fx.Graph()
        self._new: dict[fx.Node, fx.Node] = {}
        self._home: dict[fx.Node, int] = {}
        """Device of each tensor of the program; those of the batch may be on any device."""
        self._copies: dict[tuple[fx.Node, int, int], fx.Node] = {}
        self._owners = {one.name: one.owners or (one.name,) for one in captured.observed.nodes}
        self._changes = {one.name: one.changes for one in captured.observed.nodes}
        self._changed: dict[str, int] = {}

    def graph_of(self, old: fx.Graph) -> fx.Graph:
        for node in old.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "get_attr":
                self._part(node)
            elif node.op == "output":
                (loss,) = node.all_input_nodes
                self._graph.output(self._new[loss])
            elif not skipped(node):
                self._call(node)
        self._graph.lint()
        return self._graph

    def _placeholder(self, node: fx.Node) -> None:
        specs = {spec.arg.name: spec for spec in self._captured.program.graph_signature.input_specs}
        spec = specs[node.name]
        if spec.kind == InputKind.USER_INPUT:
            self._new[node] = self._graph.placeholder(node.name)
            return
        readers = [self._homes[user.name] for user in node.users if user.name in self._homes]
        if readers:
            name = spec.target or node.name
            self._home[node] = self.tensors[name] = readers[0]
            self._new[node] = self._graph.get_attr(name)

    def _part(self, node: fx.Node) -> None:
        module = self._captured.program.graph_module.get_submodule(str(node.target))
        (user,) = node.users
        self.inner[str(node.target)] = inner = copy.deepcopy(module)
        assert isinstance(inner, fx.GraphModule)
        for one in inner.graph.nodes:
            self._rewrite(one, self._homes[user.name])
        inner.recompile()
        self._new[node] = self._graph.get_attr(str(node.target))

    def _call(self, node: fx.Node) -> None:
        home = self._homes[node.name]
        new = self._graph.node_copy(node, lambda one: self._here(one, home))
        self._rewrite(new, home)
        self._new[node], self._home[node] = new, home
        for owner in self._changes[node.name]:
            self._changed[owner] = self._changed.get(owner, 0) + 1

    def _here(self, node: fx.Node, device: int) -> fx.Node:
        """The tensor itself, or its copy on this device as it is by now."""
        new = self._new[node]
        if not isinstance(node.meta.get("val"), Tensor) or self._home.get(node) == device:
            return new
        version = sum(self._changed.get(owner, 0) for owner in self._owners.get(node.name, ()))
        key = (node, device, version)
        if key not in self._copies:
            target: dict[str, Any] = {"device": self._devices[device]}
            if node in self._home:
                self._copies[key] = self._graph.call_function(_COPY, (new,), target)
            else:  # of the batch: it may be there already
                self._copies[key] = self._graph.call_method("to", (new,), target)
        return self._copies[key]

    def _rewrite(self, node: fx.Node, home: int) -> None:
        """Move the tensors that the code creates to the operator's device."""
        device = self._devices[home]

        def there(value: object) -> object:
            return device if isinstance(value, torch.device) else value

        node.args, node.kwargs = tree_map(there, node.args), tree_map(there, node.kwargs)


def _moved(
    program: ExportedProgram, model: nn.Module, homes: Mapping[str, int], devices: Sequence[torch.device]
) -> dict[str, Tensor]:
    """Return the moved tensors by the program's names: the model's, those of its code, and unused ones."""
    found = {f"model.{name}": one for name, one in model.named_parameters(remove_duplicate=False)}
    buffers = {f"model.{name}": one for name, one in model.named_buffers(remove_duplicate=False)}
    everything = {**found, **buffers} | {
        name: one for name, one in program.constants.items() if name not in buffers
    }
    moved: dict[int, Tensor] = {}
    for name in sorted(everything, key=lambda one: one not in homes):  # tensors that are read decide
        tensor = everything[name]
        if isinstance(tensor, Tensor) and id(tensor) not in moved:
            moved[id(tensor)] = _on(tensor, devices[homes.get(name, 0)])
    return {name: moved[id(one)] for name, one in everything.items() if isinstance(one, Tensor)}


def _on(tensor: Tensor, device: torch.device) -> Tensor:
    if tensor.device == device:
        return tensor
    moved = tensor.detach().to(device)
    return nn.Parameter(moved, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else moved


def _shape(value: object) -> object:
    return tuple(value.shape) if isinstance(value, Tensor) else value
