"""The operator graph of a whole training step, out of what was observed of its forward pass. Pure.

An operator is a node of the export with all that merely looks at, or changes in place, what it made.
Operators that read the same weights, or change what another one made, share a group.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from grus.partition.graph import Op, OpGraph
from grus.partition.operators.backward_graph import mirrored
from grus.partition.tracing.node_observations import Observed, ObservedCall

Nodes = tuple[tuple[str, ...], ...]
"""Nodes that each operator of the forward pass runs, in the order of the program."""
_Part = list[ObservedCall]
"""An operator in the making; its first node names it."""


@dataclass(frozen=True, slots=True)
class ResidentTensor:
    """A parameter, buffer, constant or tensor of the batch."""

    size: int
    """Bytes that it takes for the whole step, with its gradient and the optimizer's state."""
    trained: bool = False
    batch: bool = False


def forward_graph(
    observed: Observed,
    seconds: Mapping[str, float],
    held: Mapping[str, ResidentTensor],
    *,
    apart: bool = False,
) -> tuple[OpGraph, Nodes]:
    """The operators of the forward pass, and for each the nodes that it runs.

    `apart`: weights that several operators read do not tie these together, and each counts them as its own.
    """
    parts, of = _joined(observed)
    edges = _edges(observed, of)
    weights = {name for name, one in held.items() if one.trained}
    ops = _ops(parts, _outputs(parts, of, observed), seconds, held, weights if apart else set())
    groups = _groups(observed, of, set() if apart else weights, len(parts))
    tied = {first for place, first in enumerate(groups) if place != first}
    ops = [
        replace(op, group=ops[first].name) if first in tied else op
        for op, first in zip(ops, groups, strict=True)
    ]
    nodes: list[list[str]] = [[] for _ in parts]
    for seen in observed.nodes:
        nodes[of[seen.name]].append(seen.name)
    return OpGraph(tuple(ops), tuple(sorted(edges))), tuple(map(tuple, nodes))


def step_graph(forward: OpGraph, nodes: Nodes, observed: Observed, seconds: Mapping[str, float]) -> OpGraph:
    """Return the forward graph with its backward pass, whose nodes take so many seconds.

    Data inside an operator (the logarithms of a cross entropy) has a gradient of the same size, which exists
    while the operator's backward pass runs.
    """
    gradient = {seen.name for seen in observed.nodes if seen.gradient}
    reached: set[int] = set()
    for number in reversed(forward.topological):
        flows = observed.result in nodes[number] or any(one in reached for one in forward.consumers[number])
        if flows and not gradient.isdisjoint(nodes[number]):
            reached.add(number)
    times = [sum(map(seconds.__getitem__, one)) for one in nodes]
    whole = mirrored(forward, [time if number in reached else None for number, time in enumerate(times)])
    inside = {seen.name: seen.extra + seen.temporary for seen in observed.nodes}
    most = {f"{op.name}.backward": max(map(inside.__getitem__, nodes[n])) for n, op in enumerate(forward.ops)}
    ops = [replace(op, temporary=most.get(op.name, 0)) if _runs_back(op) else op for op in whole.ops]
    return OpGraph(tuple(ops), whole.edges)


def _runs_back(op: Op) -> bool:
    return op.backward and op.seconds > 0


def _joined(observed: Observed) -> tuple[list[_Part], dict[str, int]]:
    """Operators in the order of the program, and the one of each node."""
    parts: list[_Part] = []
    of: dict[str, int] = {}
    readers = _readers(observed)
    waiting: list[ObservedCall] = []
    changed: dict[str, set[int]] = {}
    for seen in observed.nodes:
        sources = {of[one] for one in seen.inputs if one in of}
        made = {of[one] for one in seen.owners}.union(*(changed.get(one, ()) for one in seen.owners))
        if not seen.own and len(sources) == 1 and made <= sources:
            (part,) = sources
            parts[part].append(seen)
        elif not seen.own and not seen.inputs and len(readers[seen.name]) < 2 and _more(seen, observed):
            waiting.append(seen)  # a view of a weight, or a counter: it belongs to the next operator
            continue
        else:
            part = len(parts)
            parts.append([seen])
        of[seen.name] = part
        for owner in seen.changes:
            changed.setdefault(owner, set()).add(part)
        for one in [one for one in waiting if not readers[one.name] or readers[one.name][0] == seen.name]:
            waiting.remove(one)
            parts[part].append(one)
            of[one.name] = part
    for one in waiting:
        of[one.name] = len(parts) - 1
        parts[-1].append(one)
    return parts, of


def _more(seen: ObservedCall, observed: Observed) -> bool:
    """Return whether there is another node that it could be joined with."""
    return any(one.own for one in observed.nodes if one is not seen)


def _readers(observed: Observed) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {seen.name: [] for seen in observed.nodes}
    for seen in observed.nodes:
        for source in seen.inputs:
            found[source].append(seen.name)
    return found


def _edges(observed: Observed, of: Mapping[str, int]) -> set[tuple[int, int]]:
    """Return edges from producers to readers, and from a change of an output to its later readers."""
    found = set()
    changed: dict[str, int] = {}
    owner: dict[str, tuple[str, ...]] = {}
    for seen in observed.nodes:
        owner[seen.name] = seen.owners or (seen.name,)
        for source in seen.inputs:
            found.add((of[source], of[seen.name]))
            found |= {(changed[one], of[seen.name]) for one in owner[source] if one in changed}
        changed |= dict.fromkeys(seen.changes, of[seen.name])
    return {(one, two) for one, two in found if one != two}


def _groups(observed: Observed, of: Mapping[str, int], weights: Collection[str], count: int) -> list[int]:
    """Return, for each operator, the first one that it must share a device with."""
    first = list(range(count))

    def root(one: int) -> int:
        while first[one] != one:
            one = first[one]
        return one

    def tie(one: int, two: int) -> None:
        low, high = sorted((root(one), root(two)))
        first[high] = low

    written = {one for seen in observed.nodes for one in seen.written}
    home: dict[str, int] = {}
    for seen in observed.nodes:
        for owner in seen.changes:
            tie(of[seen.name], of[owner])
        for name in (*seen.tensors, *seen.leaves):
            if name in weights or name in written:  # anything else is copied to its reader
                tie(of[seen.name], home.setdefault(name, of[seen.name]))
    return [root(one) for one in range(count)]


def _ops(
    parts: Sequence[_Part],
    outputs: Sequence[int],
    seconds: Mapping[str, float],
    held: Mapping[str, ResidentTensor],
    again: Collection[str],
) -> list[Op]:
    """`again`: what every operator that reads it holds; the first one holds all else."""
    taken: set[str] = set()
    ops = []
    for part, output in zip(parts, outputs, strict=True):
        names = {name for seen in part for name in (*seen.tensors, *seen.leaves)} - taken
        taken |= names.difference(again)
        results = sum(seen.own for seen in part if seen.kept)
        kept = results + sum(seen.extra for seen in part)
        kept += sum(held[name].size for name in names if held[name].batch)
        time = sum(seconds[seen.name] for seen in part)
        ops.append(
            Op(
                name=part[0].name,
                seconds=time,
                permanent=kept + sum(held[name].size for name in names if not held[name].batch),
                temporary=max(seen.temporary for seen in part) if time else 0,
                output=output,
                saved=0 < output <= results,
                kept=kept,
            )
        )
    return ops


def _outputs(parts: Sequence[_Part], of: Mapping[str, int], observed: Observed) -> list[int]:
    """Bytes of each operator's result that others read: each node's once, never more than there is."""
    read: list[dict[str, int]] = [{} for _ in parts]
    sizes = {seen.name: seen.output for seen in observed.nodes}
    for seen in observed.nodes:
        for source in seen.inputs:
            if of[source] != of[seen.name]:
                read[of[source]][source] = sizes[source]
    return [
        min(sum(one.values()), max((sum(seen.own for seen in part), *one.values())))
        for part, one in zip(parts, read, strict=True)
    ]
