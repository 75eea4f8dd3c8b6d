"""Where sizes go on the replay's nodes: who keeps its size stays, whole nodes for four GPUs and more.

Two jobs that span nodes never share one, and pairs are never split. Only jobs of one or two GPUs are ever
moved for others.
"""

from collections.abc import Mapping

from benchmarks.pollux_replay import NODES, PER_NODE, Allocation


def arrange(sizes: Mapping[str, int], before: Mapping[str, Allocation]) -> dict[str, Allocation]:
    """A place for every size: sizes are 1, 2 or whole nodes, and fit the pool together."""
    after = {name: before[name] for name, size in sizes.items() if len(before.get(name, ())) == size}
    free = dict.fromkeys(range(NODES), PER_NODE)
    for allocation in after.values():
        for node in allocation:
            free[node] -= 1
    waiting = sorted((name for name in sizes if name not in after), key=lambda name: -sizes[name])
    whole = [name for name in waiting if sizes[name] >= PER_NODE]
    for name in whole:
        _place_whole(name, sizes[name] // PER_NODE, before, after, free, waiting)
    for name in sorted((name for name in waiting if name not in after), key=lambda name: -sizes[name]):
        _place_small(name, sizes[name], before, after, free)
    return after


def _place_whole(
    name: str,
    count: int,
    before: Mapping[str, Allocation],
    after: dict[str, Allocation],
    free: dict[int, int],
    waiting: list[str],
) -> None:
    """Its own nodes first, then the emptiest; smaller jobs on them have to move."""
    own = set(before.get(name, ()))
    large = {node for where in after.values() if len(where) >= PER_NODE for node in where}
    nodes = sorted((n for n in free if n not in large), key=lambda n: (-free[n], n not in own, n))[:count]
    for node in nodes:
        for other in [other for other, where in after.items() if node in where]:
            for place in after.pop(other):
                free[place] += 1
            waiting.append(other)
        free[node] = 0
    after[name] = tuple(node for node in sorted(nodes) for _ in range(PER_NODE))


def _place_small(
    name: str, size: int, before: Mapping[str, Allocation], after: dict[str, Allocation], free: dict[int, int]
) -> None:
    """The fullest node that has room, its own first."""
    own = set(before.get(name, ()))
    if all(room < size for room in free.values()):
        _join_singles(before, after, free)
    node = min((n for n in free if free[n] >= size), key=lambda n: (n not in own, free[n], n))
    free[node] -= size
    after[name] = (node,) * size


def _join_singles(
    before: Mapping[str, Allocation], after: dict[str, Allocation], free: dict[int, int]
) -> None:
    """Two GPUs are free on two nodes: a job of one GPU moves from one to the other, rather one that starts.

    There is one: of the three GPUs in use on such a node, pairs take an even number.
    """
    open_nodes = [node for node in free if free[node] == 1]
    singles = [name for name, where in after.items() if len(where) == 1 and where[0] in open_nodes]
    moved = min(singles, key=lambda name: after[name] == before.get(name))
    source = after[moved][0]
    target = next(node for node in open_nodes if node != source)
    after[moved] = (target,)
    free[source] += 1
    free[target] -= 1
