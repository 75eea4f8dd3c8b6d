"""m-ETF placer: repeatedly place the operator that can start first, on the device where it can.

With favorites (m-SCT) a device whose last operator has a favorite child that is ready, and that would start
there first, waits for it, unless another operator has become urgent: no device could start it later.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from grus.partition.graph import OpGraph
from grus.partition.operators.colocation_groups import units_of
from grus.partition.placers.memory_fit import Room
from grus.partition.placers.outcome import Assignment, NoRoom
from grus.partition.topology import Topology

Times = NDArray[np.float64]


def etf(graph: OpGraph, topology: Topology, careful: bool) -> Assignment | NoRoom:
    return List(graph, topology, careful, {}).place()


class List:
    """A list schedule under way."""

    def __init__(
        self, graph: OpGraph, topology: Topology, careful: bool, favourites: Mapping[int, int]
    ) -> None:
        count = len(topology.devices)
        self.graph = graph
        self.topology = topology
        self.favourites = favourites
        self.room = Room(graph, topology, units_of(graph), careful)
        self.free = np.zeros(count)
        self.arrival = np.full((len(graph.ops), count), np.inf)
        """Time at which the inputs of a ready operator can be on each device."""
        self.end = [0.0] * len(graph.ops)
        self.sends = [0.0] * count
        self.receives = [0.0] * count
        self.there: dict[tuple[int, int], float] = {}
        self.last: dict[int, int] = {}
        self.ready: list[int] = []
        self.order: list[int] = []

    def place(self) -> Assignment | NoRoom:
        missing = [len(one) for one in self.graph.inputs]
        for op, count in enumerate(missing):
            if not count:
                self._open(op)
        while self.ready:
            chosen = self._choose()
            if isinstance(chosen, NoRoom):
                return chosen
            op, device = chosen
            self._commit(op, device)
            for consumer in self.graph.consumers[op]:
                missing[consumer] -= 1
                if not missing[consumer]:
                    self._open(consumer)
        places = (self.room.device_of[op] for op in range(len(self.graph.ops)))
        return Assignment(tuple(places), tuple(self.order))

    def _open(self, op: int) -> None:
        self.ready.append(op)
        for device in range(len(self.free)):
            ways = (self._arrives(source, device) for source in self.graph.inputs[op])
            self.arrival[op, device] = max(ways, default=0.0)

    def _arrives(self, source: int, device: int) -> float:
        home = self.room.device_of[source]
        if home == device:
            return self.end[source]
        if (source, device) in self.there:
            return self.there[source, device]
        begin = max(self.end[source], self.sends[home], self.receives[device])
        return begin + self.topology.links[home][device].seconds(self.graph.ops[source].output)

    def _choose(self) -> tuple[int, int] | NoRoom:
        """The pair with the earliest start that has room; pairs without are struck off as they come up."""
        self.ready.sort()
        while True:
            starts = np.maximum(self.arrival[self.ready], self.free)
            if self.favourites:
                self._wait(starts)
            row, device = divmod(int(np.argmin(starts)), len(self.free))
            if np.isinf(starts[row, device]):
                return self._blocked()
            op = self.ready[row]
            if self.room.fits(op, device):
                return op, device
            self.arrival[op, device] = np.inf

    def _blocked(self) -> NoRoom:
        return NoRoom(max(self.ready, key=lambda op: self.graph.ops[op].permanent))

    def _wait(self, starts: Times) -> None:
        """Strike off what would take a device from the favorite child it waits for."""
        rows = {op: row for row, op in enumerate(self.ready)}
        clock = starts.min()
        finite = np.where(np.isinf(starts), -np.inf, starts).max(axis=1)
        urgent = finite <= clock
        for device, last in self.last.items():
            row = rows.get(self.favourites.get(last, -1))
            if row is None or np.isinf(starts[row, device]) or starts[row].argmin() != device:
                continue
            others = ~urgent
            others[row] = False
            starts[others, device] = np.inf

    def _commit(self, op: int, device: int) -> None:
        begin = float(self.free[device])
        for source in sorted(self.graph.inputs[op], key=lambda one: self.end[one]):
            arrives = self._arrives(source, device)
            home = self.room.device_of[source]
            if home != device and (source, device) not in self.there:
                self.there[source, device] = self.sends[home] = self.receives[device] = arrives
            begin = max(begin, arrives)
        self.room.put(op, device)
        self.end[op] = begin + self.graph.ops[op].seconds / self.topology.devices[device].speed
        self.free[device] = self.end[op]
        self.last[device] = op
        self.order.append(op)
        self.ready.remove(op)
