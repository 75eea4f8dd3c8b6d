"""The backward pass of a forward graph: its mirror image, with the same groups.

Each operator that passes a gradient on gets a backward operator in its group. Where an operator has several
inputs, the gradient of each is a tensor of its own, so that a device receives only the one it needs.
"""

from collections.abc import Sequence
from dataclasses import replace

from grus.partition.graph import Op, OpGraph


def mirrored(graph: OpGraph, backward: Sequence[float | None]) -> OpGraph:
    """Forward and backward pass; `backward[i]` are the seconds of operator i's, None when it passes none on.

    Forward operators keep their numbers; the backward operators follow. An operator without a group gets one
    of its own name, so names must differ.
    """
    ops = [replace(op, group=op.group or op.name) for op in graph.ops]
    edges = list(graph.edges)
    twin = {}
    for number in reversed(graph.topological):
        seconds = backward[number]
        if seconds is not None:
            twin[number] = len(ops)
            op = ops[number]
            ops.append(Op(f"{op.name}.backward", seconds, group=op.group, backward=True))
    for number, own in twin.items():
        sources = [one for one in graph.inputs[number] if one in twin]
        if len(sources) == 1:
            ops[own] = replace(ops[own], output=ops[sources[0]].output)
            edges.append((own, twin[sources[0]]))
        else:
            for source in sources:
                edges += [(own, len(ops)), (len(ops), twin[source])]
                ops.append(_piece(ops[own], ops[source]))
        if not any(one in twin for one in graph.consumers[number]):
            edges.append((number, own))
    return OpGraph(tuple(ops), tuple(edges))


def _piece(whole: Op, source: Op) -> Op:
    return Op(f"{whole.name}.{source.name}", 0.0, output=source.output, group=whole.group, backward=True)
