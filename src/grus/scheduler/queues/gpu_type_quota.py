"""Quotas by type, and non-preemptible work: it cannot be taken back, so it must leave every quota reachable.

Such work starts only on types of which each of its queues has quota left, and only where all unused quotas
can still be met together afterwards: for every set of types, the unused quotas that are usable on these alone
are at most their GPUs without non-preemptible work. A state that breaks this already (a lost GPU, quotas
above the pool) may not become worse.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from grus.model.queues import ANY, gpus
from grus.scheduler.state.node_capacity_index import Pool
from grus.scheduler.state.request_shapes import Shape

if TYPE_CHECKING:
    from grus.scheduler.queues.queue_usage_tree import QueueNode, Tree

Types = frozenset[str]


def covers(by_type: Mapping[str, int], kind: str) -> str:
    """Return the entry of a quota by type that a device of this type counts against."""
    return kind if kind in by_type else ANY


def admits(tree: "Tree", pool: Pool, queue: "QueueNode", added: Mapping[str, int]) -> bool:
    """Return True if the queue may hold so much more non-preemptible work of each type."""
    if not tree.typed:
        return True
    if not all(_within(node, added) for node in queue.path[1:]):
        return False
    for types in type_sets(tree, pool):
        lost = sum(amount for kind, amount in added.items() if kind in types)
        if lost:
            before = _slack(tree, pool, types, queue, {})
            after = _slack(tree, pool, types, queue, added)
            if after < min(0, before):
                return False
    return True


def admitted(tree: "Tree", pool: Pool, queue: "QueueNode", shape: Shape) -> Shape:
    """Return the shape of non-preemptible work, limited to the types on which each of its parts may start."""
    if not tree.typed:
        return shape
    kinds = [
        {k for k in part.kinds if admits(tree, pool, queue, {pool.kinds[k][0]: part.low * part.unit})}
        for part in shape.parts
    ]
    return shape.narrowed(kinds)


def typed_bar(tree: "Tree", pool: Pool, queue: "QueueNode", shape: Shape) -> str:
    """Explain why quotas by type keep non-preemptible work of this shape from starting, with numbers; "" if
    they do not.
    """
    for part, narrowed in zip(shape.parts, admitted(tree, pool, queue, shape).parts, strict=True):
        if narrowed.kinds or not part.kinds:
            continue
        kinds = sorted({pool.kinds[kind][0] for kind in part.kinds})
        need = f"{gpus(part.low * part.unit)} of type {' or '.join(kinds)}"
        for node, kind in ((node, kind) for kind in kinds for node in queue.path[1:]):
            if not _within(node, {kind: part.low * part.unit}):
                assert node.by_type is not None
                key = covers(node.by_type, kind)
                used = f"{gpus(_never(node, key, {}))} of {gpus(node.typed_quota(key))}"
                return f"needs {need}; {node.name} uses {used} in its quota for {key} so"
        return f"needs {need}; the quotas of other queues need these types"
    return ""


def _within(node: "QueueNode", added: Mapping[str, int]) -> bool:
    if node.by_type is None:
        return True
    keys = {covers(node.by_type, kind) for kind, amount in added.items() if amount}
    return all(_never(node, key, added) <= node.typed_quota(key) for key in keys)


def _never(node: "QueueNode", key: str, added: Mapping[str, int]) -> int:
    """Return the non-preemptible work of the queue that counts against one entry of its quota, with the
    addition.
    """
    assert node.by_type is not None
    held = (*node.never_by_type.items(), *added.items())
    return sum(amount for kind, amount in held if covers(node.by_type, kind) == key)


def _slack(tree: "Tree", pool: Pool, types: Types, queue: "QueueNode", added: Mapping[str, int]) -> int:
    """Return the GPUs of these types without non-preemptible work, less the unused quotas that need them."""
    free = sum(
        pool.by_type.get(kind, 0) - tree.root.never_by_type.get(kind, 0) - added.get(kind, 0)
        for kind in types
    )
    return free - sum(_owed(child, pool, types, queue, added) for child in tree.root.children)


def _owed(node: "QueueNode", pool: Pool, types: Types, queue: "QueueNode", added: Mapping[str, int]) -> int:
    """Return the quota of a branch that is unused by non-preemptible work and usable on these types alone."""
    below = sum(_owed(child, pool, types, queue, added) for child in node.children)
    if node.by_type is None:
        return below
    mine = added if node in queue.path else {}
    own = sum(
        max(0, node.typed_quota(key) - _never(node, key, mine))
        for key in node.by_type
        if _usable(node.by_type, key, pool) and _usable(node.by_type, key, pool) <= types
    )
    return max(own, below)


def _usable(by_type: Mapping[str, int], key: str, pool: Pool) -> Types:
    """Return the types of the pool that an entry of a quota covers."""
    return frozenset(kind for kind in pool.by_type if covers(by_type, kind) == key)


def type_sets(tree: "Tree", pool: Pool) -> tuple[Types, ...]:
    """Return the sets of types that quotas may be confined to: those of single entries, and their unions."""
    if tree.type_sets is None:
        single = {
            _usable(node.by_type, key, pool)
            for node in tree.all()
            if node.by_type is not None
            for key in node.by_type
        }
        unions: set[Types] = set()
        for one in single:
            unions |= {one, *(one | other for other in unions)}
        whole = frozenset(pool.by_type)
        tree.type_sets = tuple(sorted((found for found in unions if found and found != whole), key=sorted))
    return tree.type_sets
