"""Memory of a placement, before it is simulated."""

from collections.abc import Iterable, Sequence

from grus.partition.graph import OpGraph
from grus.partition.operators.colocation_groups import Units
from grus.partition.topology import Topology


def least_of(graph: OpGraph, units: Units, unit: int) -> int:
    """Return the bytes without which no device can run this unit, for any placement of the others.

    They are its permanent bytes, and the most that one of its operators has around it: temporary bytes, its
    output and its inputs. An input that another unit saves is there as a copy or among that unit's permanent
    bytes.
    """
    most = 0
    for number in units.members[unit]:
        op = graph.ops[number]
        around = op.temporary + op.passing
        for source in graph.inputs[number]:
            given = graph.ops[source]
            around += given.passing if units.of[source] == unit else given.output
        most = max(most, around)
    return sum(graph.ops[number].permanent for number in units.members[unit]) + most


def footprints(graph: OpGraph, topology: Topology, device_of: Sequence[int]) -> tuple[int, ...]:
    """Bytes on each device if nothing were released before the end of the step: enough for any order."""
    used = [0] * len(topology.devices)
    top = [0] * len(topology.devices)
    copies = set()
    for number, op in enumerate(graph.ops):
        device = device_of[number]
        used[device] += op.permanent + op.passing
        top[device] = max(top[device], op.temporary)
        copies |= {(source, device) for source in graph.inputs[number] if device_of[source] != device}
    for source, device in copies:
        used[device] += graph.ops[source].output
    return tuple(one + two for one, two in zip(used, top, strict=True))


def working(graph: OpGraph, members: Sequence[int], counted: Iterable[int]) -> int:
    """Return the most temporary and passing bytes at once while the members run one after the other, without
    the outputs that are counted elsewhere. An output without a reader stays to the end.
    """
    apart = set(counted)
    last = {source: place for place, op in enumerate(members) for source in graph.inputs[op]}
    ends: dict[int, int] = {}
    held = most = 0
    for place, number in enumerate(members):
        op = graph.ops[number]
        if number not in apart:
            held += op.passing
            end = last.get(number, len(members))
            ends[end] = ends.get(end, 0) + op.passing
        most = max(most, held + op.temporary)
        held -= ends.pop(place, 0)
    return most


class Room:
    """Memory accounting of a placement in progress.

    Careful accounting counts as if nothing were released, so that a placement that fits in it fits in any
    order. The optimistic one counts permanent bytes and the largest operator only; the simulator has to
    decide whether that fits.
    """

    def __init__(self, graph: OpGraph, topology: Topology, units: Units, careful: bool) -> None:
        self.graph = graph
        self.units = units
        self.careful = careful
        self.limits = [device.memory for device in topology.devices]
        self.used = [0] * len(self.limits)
        self.top = [0] * len(self.limits)
        self.device_of: dict[int, int] = {}
        self.home: dict[int, int] = {}
        """Unit → device; memory for all of a unit is reserved with its first operator."""
        self._copies: set[tuple[int, int]] = set()

    def fits(self, op: int, device: int) -> bool:
        more, top = self._change(op, device)
        home = self.home.get(self.units.of[op], device)
        return home == device and self.used[device] + more + max(self.top[device], top) <= self.limits[device]

    def put(self, op: int, device: int) -> None:
        more, top = self._change(op, device)
        self.used[device] += more
        self.top[device] = max(self.top[device], top)
        self.device_of[op] = device
        self.home[self.units.of[op]] = device
        self._copies |= {(one, device) for one in self._fetched(op, device)}

    def _change(self, op: int, device: int) -> tuple[int, int]:
        """(bytes that stay, bytes while it runs)"""
        ops, unit = self.graph.ops, self.units.of[op]
        members = () if unit in self.home else self.units.members[unit]
        more = sum(ops[one].permanent for one in members)
        if self.careful:
            more += sum(ops[one].passing for one in members)
            more += sum(ops[one].output for one in self._fetched(op, device))
            return more, ops[op].temporary
        here = self.graph.inputs[op]
        inputs = sum(
            ops[one].passing if self.device_of.get(one) == device else ops[one].output for one in here
        )
        return more, ops[op].temporary + ops[op].passing + inputs

    def _fetched(self, op: int, device: int) -> list[int]:
        return [
            one
            for one in self.graph.inputs[op]
            if self.device_of.get(one, device) != device and (one, device) not in self._copies
        ]
