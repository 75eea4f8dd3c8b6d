"""Observation of an exported training: it is run once on tensors without data, to record each node's memory.

For each node: the tensors that it reads, makes and keeps. Memory is counted by storage: a view, a change in
place and the parts of a tuple belong to the node that made the storage. Autograd itself reports the tensors
that it keeps for the backward pass.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx
from torch._guards import detect_fake_mode
from torch.autograd.graph import saved_tensors_hooks
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from grus.partition.tracing.export_guards import trained
from grus.partition.tracing.node_observations import Observed, ObservedCall

ASSERTIONS = ("_assert_tensor_metadata", "_assert_scalar", "_assert_async")
"""Nodes that only check what the export assumed."""
NORMS = ("batch_norm", "instance_norm")
"""Operators that change their statistics although their signature does not show it."""


def skipped(node: fx.Node) -> bool:
    """Return whether the node computes nothing: a check of an assumption."""
    packet = getattr(node.target, "overloadpacket", None)
    return getattr(packet, "__name__", "") in ASSERTIONS


def observe(program: ExportedProgram) -> Observed:
    module = program.graph_module
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    given = _given(program, placeholders)
    observing = _Observing(program, placeholders, given)
    fake = detect_fake_mode([node.meta["val"] for node in placeholders])
    assert fake is not None, "an export keeps tensors without data"
    with fake, torch.enable_grad():
        (loss,) = observing.run(*given)
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    (last,) = output.all_input_nodes
    names = [spec.target or "" for spec in program.graph_signature.input_specs]
    tensors = [(name, one) for name, one in zip(names, given, strict=True) if isinstance(one, Tensor)]
    return Observed(tuple(observing.found.values()), last.name, trained(loss, tensors))


def _given(program: ExportedProgram, placeholders: Iterable[fx.Node]) -> list[object]:
    """Return the values of the placeholders; a tensor of the model that has two names is one tensor."""
    names = {spec.arg.name: spec.target for spec in program.graph_signature.input_specs}
    found: list[object] = []
    same: dict[int, object] = {}
    for node in placeholders:
        value, own = node.meta["val"], program.state_dict.get(names[node.name] or "")
        if own is not None and isinstance(value, Tensor):
            value = same.setdefault(id(own), value.detach().requires_grad_(own.requires_grad))
        found.append(value)
    return found


@dataclass(slots=True)
class _Origin:
    """Origin of a storage."""

    tensor: str = ""
    leaf: str = ""
    node: str = ""


@dataclass(slots=True)
class _Notes:
    """Events of one node's run; the tensors are kept so that no other can reuse their storage."""

    born: dict[int, Tensor] = field(default_factory=dict)
    saved: list[Tensor] = field(default_factory=list)


class _Observing(fx.Interpreter):
    def __init__(self, program: ExportedProgram, placeholders: list[fx.Node], given: list[object]) -> None:
        super().__init__(program.graph_module, garbage_collect_values=False)
        self.found: dict[str, ObservedCall] = {}
        self._held: list[_Notes] = []
        self._counted: set[int] = set()
        self._origins = _origins(program, placeholders, given)

    def run_node(self, node: fx.Node) -> Any:
        if node.op != "call_function" or skipped(node):
            return None if node.op == "call_function" else super().run_node(node)
        read = _tensors(self.fetch_args_kwargs_from_env(node))
        before = {_storage(one): one._version for one in read}
        notes = _Notes()
        self._held.append(notes)
        with saved_tensors_hooks(lambda one: _noted(notes.saved, one), lambda one: one), _Births(notes.born):
            result = super().run_node(node)
        changed = {_storage(one) for one in read if one._version != before[_storage(one)]}
        self._note(node, read, _tensors(result), changed | _silently(node, read), notes)
        return result

    def _note(
        self, node: fx.Node, read: list[Tensor], made: list[Tensor], changed: set[int], notes: _Notes
    ) -> None:
        sources = [self._origins[one] for one in _unique(read)]
        seen = self.found[node.name] = ObservedCall(
            name=node.name,
            inputs=tuple(one.name for one in node.all_input_nodes if one.name in self.found),
            tensors=tuple(dict.fromkeys(one.tensor for one in sources if one.tensor)),
            leaves=tuple(dict.fromkeys(one.leaf for one in sources if one.leaf)),
            owners=_nodes(self._origins.get(one) for one in _unique(made)),
            changes=_nodes(map(self._origins.get, changed)),
            written=_names(map(self._origins.__getitem__, changed)),
            output=sum(_size(one) for one in made),
            gradient=any(one.requires_grad for one in made),
        )
        new = {one: tensor for one, tensor in _unique(made).items() if one not in self._origins}
        for one, tensor in new.items():
            self._origins[one] = _Origin(node=node.name)
            seen.own += tensor.untyped_storage().nbytes()
        self._keep(seen, notes.saved)
        lived = [one for one in notes.born if one not in self._origins and one not in self._counted]
        seen.temporary = sum(notes.born[one].untyped_storage().nbytes() for one in lived)

    def _keep(self, seen: ObservedCall, saved: list[Tensor]) -> None:
        for one, tensor in _unique(saved).items():
            origin = self._origins.get(one)
            if origin is not None and origin.node:
                self.found[origin.node].kept = True
            elif origin is None and one not in self._counted:
                self._counted.add(one)
                seen.extra += tensor.untyped_storage().nbytes()


def _origins(
    program: ExportedProgram, placeholders: list[fx.Node], given: list[object]
) -> dict[int, _Origin]:
    """Return the origin of each storage of the program."""
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    found: dict[int, _Origin] = {}
    for node, value in zip(placeholders, given, strict=True):
        if isinstance(value, Tensor):
            spec = specs[node.name]
            batch = spec.kind == InputKind.USER_INPUT
            origin = _Origin(leaf=node.name) if batch else _Origin(tensor=spec.target or node.name)
            found.setdefault(_storage(value), origin)
    return found


def _nodes(origins: Iterable[_Origin | None]) -> tuple[str, ...]:
    return tuple(sorted({one.node for one in origins if one is not None and one.node}))


def _names(origins: Iterable[_Origin]) -> tuple[str, ...]:
    return tuple(sorted({one.tensor or one.leaf for one in origins if not one.node}))


class _Births(TorchDispatchMode):
    """Notes every tensor that an operator makes."""

    def __init__(self, born: dict[int, Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch gives it no types
        self._born = born

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in _tensors(result):
            self._born.setdefault(_storage(tensor), tensor)
        return result


def _silently(node: fx.Node, read: list[Tensor]) -> set[int]:
    """Return storages of statistics, which a norm changes although its signature does not show it."""
    packet = getattr(node.target, "overloadpacket", None)
    if getattr(packet, "__name__", "") not in NORMS:
        return set()
    return {_storage(one) for one in read[1:] if not one.requires_grad}


def _noted(saved: list[Tensor], tensor: Tensor) -> Tensor:
    saved.append(tensor)
    return tensor


def _unique(tensors: list[Tensor]) -> dict[int, Tensor]:
    return {_storage(one): one for one in tensors}


def _tensors(value: object) -> list[Tensor]:
    return [one for one in tree_iter(value) if isinstance(one, Tensor)]


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _size(tensor: Tensor) -> int:
    """Bytes that go over a link: what is expanded counts in full."""
    return tensor.numel() * tensor.element_size()
