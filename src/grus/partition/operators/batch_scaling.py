"""A graph for a batch size between two that were captured: seconds and bytes lie on a line between them.

True of what grows with the batch (activations, work) and of what does not (weights); off by a little where a
kernel is too small to fill a device. Good to choose by; what is chosen is captured itself.
"""

import math

from grus.partition.graph import Op, OpGraph


def between(small: OpGraph, large: OpGraph, part: float) -> OpGraph | None:
    """`part` 0 is the small one, 1 the large one; None if they are not the same operators."""
    if small.edges != large.edges or [one.name for one in small.ops] != [one.name for one in large.ops]:
        return None
    ops = tuple(_between(one, two, part) for one, two in zip(small.ops, large.ops, strict=True))
    return OpGraph(ops, small.edges)


def _between(one: Op, two: Op, part: float) -> Op:
    def size(low: int, high: int) -> int:
        return math.ceil(low + part * (high - low))

    seconds = one.seconds + part * (two.seconds - one.seconds)
    return Op(
        name=one.name,
        seconds=seconds,
        permanent=size(one.permanent, two.permanent),
        temporary=size(one.temporary, two.temporary) if seconds else 0,
        output=size(one.output, two.output),
        saved=one.saved,
        group=one.group,
        backward=one.backward,
        kept=size(one.kept, two.kept),
    )
