"""Functionalization: replaces in-place operators, so that a graph can be cut anywhere.

The replacements return a new tensor. `x.relu_()` does not change a copy of x on another device. A buffer of
the model (the statistics of BatchNorm) is still changed in place: it stays where its operators are. Where a
view of the tensor is read afterwards, the change cannot be separated from the view, and those operators must
stay together.
"""

import operator
from collections.abc import Iterator

import torch
from torch.fx import Graph, Node

_KEEPS_STATISTICS = {"aten::batch_norm", "aten::instance_norm", "aten::_native_batch_norm_legit"}
"""Operators that change some of their arguments although their schema does not show it."""


def without_changes(graph: Graph, state: set[Node]) -> list[set[Node]]:
    """Rewrite the graph; the sets of nodes that are left to change each other and must stay together."""
    aliases = _aliases(graph)
    place = {node: number for number, node in enumerate(graph.nodes)}
    together: list[set[Node]] = []
    for node in list(graph.nodes):
        changed = changes(node)
        if not changed:
            continue
        same = aliases[node]
        if any(one in state for one in (*changed, *same)):
            continue
        if not _rewritten(node, changed, same, place) and same not in together:
            together.append(same)
    graph.lint()
    return together


def changes(node: Node) -> list[Node]:
    """The arguments that this operator changes."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return []
    found = []
    for number, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = node.args[number] if number < len(node.args) else node.kwargs.get(argument.name)
            found += _nodes(given)
    return found


def keeps_statistics(node: Node) -> bool:
    """Return whether the operator may change a buffer that is given to it."""
    name = getattr(getattr(node.target, "_schema", None), "name", "")
    return bool(changes(node)) or name in _KEEPS_STATISTICS


def _rewritten(node: Node, changed: list[Node], same: set[Node], place: dict[Node, int]) -> bool:
    """Replace the operator by its variant that changes nothing; return whether that was possible."""
    plain = _plain(node)
    if plain is None or len(changed) != 1:
        return False
    older = {one for one in same if place[one] < place[node]}
    if any(place[user] > place[node] for one in older - {changed[0]} for user in one.users):
        return False
    node.target = plain
    changed[0].replace_all_uses_with(
        node, delete_user_cb=lambda user: user is not node and place[user] > place[node]
    )
    return True


def _plain(node: Node) -> torch._ops.OpOverload | None:
    target = node.target
    assert isinstance(target, torch._ops.OpOverload)
    space, _, name = target._schema.name.partition("::")
    packet = getattr(getattr(torch.ops, space), name[:-1], None) if name.endswith("_") else None
    found = getattr(packet, target._overloadname, None) if packet is not None else None
    return found if isinstance(found, torch._ops.OpOverload) else None


def _aliases(graph: Graph) -> dict[Node, set[Node]]:
    """Return, for each node, those that may share memory with it, including itself."""
    found: dict[Node, set[Node]] = {}
    for node in graph.nodes:
        mine = {node}
        for other in _shares_with(node):
            mine |= found[other]
        for one in mine:
            found[one] = mine
    return found


def _shares_with(node: Node) -> Iterator[Node]:
    if node.target is operator.getitem:
        yield from node.all_input_nodes
    elif isinstance(node.target, torch._ops.OpOverload):
        for number, argument in enumerate(node.target._schema.arguments):
            if argument.alias_info is not None:
                given = node.args[number] if number < len(node.args) else node.kwargs.get(argument.name)
                yield from _nodes(given)


def _nodes(value: object) -> list[Node]:
    if isinstance(value, Node):
        return [value]
    if isinstance(value, (list, tuple)):
        return [node for one in value for node in _nodes(one)]
    return []
