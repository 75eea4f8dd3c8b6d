"""m-TOPO and packing: placements that look at memory only."""

from collections.abc import Sequence

from grus.partition.graph import OpGraph
from grus.partition.operators.colocation_groups import units_of
from grus.partition.placers.memory_fit import Room, least_of
from grus.partition.placers.outcome import Assignment, NoRoom
from grus.partition.topology import Topology


def topo(graph: OpGraph, topology: Topology, careful: bool) -> Assignment | NoRoom:
    """Fill device after device in topological order, each up to an even share (and to what it has)."""
    units = units_of(graph)
    room = Room(graph, topology, units, careful)
    even = sum(op.permanent for op in graph.ops) / len(topology.devices)
    even += max(op.permanent for op in graph.ops)
    device = 0
    for op in graph.topological:
        home = room.home.get(units.of[op])
        if home is None:
            while device + 1 < len(topology.devices) and (
                room.used[device] + graph.ops[op].permanent > even or not room.fits(op, device)
            ):
                device += 1
            home = device
        if not room.fits(op, home):
            return NoRoom(op)
        room.put(op, home)
    return _assignment(graph, room)


def pack(graph: OpGraph, topology: Topology, careful: bool) -> Assignment | NoRoom:
    """The largest unit first, each where least is left over: the last resort when memory is tight."""
    units = units_of(graph)
    room = Room(graph, topology, units, careful)
    size = [least_of(graph, units, unit) for unit in range(len(units.members))]
    for unit in sorted(range(len(size)), key=lambda one: -size[one]):
        fitting = [d for d in range(len(topology.devices)) if room.fits(units.members[unit][0], d)]
        if not fitting:
            return NoRoom(units.members[unit][0])
        device = min(fitting, key=lambda d: room.limits[d] - room.used[d])
        for op in units.members[unit]:
            room.put(op, device)
    return _assignment(graph, room)


def _assignment(graph: OpGraph, room: Room) -> Assignment:
    places: Sequence[int] = [room.device_of[op] for op in range(len(graph.ops))]
    return Assignment(tuple(places), graph.topological)
