"""Network topology: nodes that are near each other, and the conditions for a gang to cross slow links.

Nodes with the same zone and rack, by their labels, are near. A gang that crosses keeps about half of its
speed (`CROSSING`): it does so only when everything near is slower still, and a running one grows across only
when the GPUs that it gains outweigh that.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grus.scheduler.placement.gang_placement import Place
    from grus.scheduler.state.node_capacity_index import NodeState

LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/rack", "zone", "rack")
CROSSING = 0.5
"""Fraction of a gang's speed that remains over slow links, until it is measured."""


def racks(nodes: "Iterable[NodeState]") -> list[int]:
    """Return groups of near nodes, as bits, in the order of their first nodes."""
    found: dict[tuple[str, ...], int] = {}
    for node in nodes:
        name = tuple(node.labels.get(label, "") for label in LABELS)
        found[name] = found.get(name, 0) | node.bit
    return list(found.values())


def reach(racks: list[int], taken: "tuple[Place, ...]", count: int) -> list[int]:
    """Return masks of the nodes on which a gang with these placements may get `count` more, to be tried in
    order.
    """
    everywhere = -1
    if len(racks) < 2 or not taken:
        return [everywhere]
    used = 0
    for place in taken:
        used |= place.node.bit
    home = [rack for rack in racks if rack & used]
    if len(home) > 1:
        return [sum(home), everywhere]
    pays = (len(taken) + count) * CROSSING > len(taken)
    return [home[0], everywhere] if pays else home


def ways(racks: list[int], kinds: tuple[int, ...], speeds: list[float]) -> list[tuple[int, int]]:
    """Return the kinds of device and nodes over which a gang may be spread, the fastest first.

    Kinds come in order of preference; among those equally fast that order stays.
    """
    found = [(speeds[kind], kind, rack) for kind in kinds for rack in racks]
    found += [(speeds[kind] * CROSSING, kind, -1) for kind in kinds]
    found.sort(key=lambda way: -way[0])
    return [(kind, nodes) for _, kind, nodes in found]
