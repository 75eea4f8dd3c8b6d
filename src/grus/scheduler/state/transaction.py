"""Transaction: tentative changes to a snapshot, each with its undo.

    mark = transaction.mark()
    ...try something...
    transaction.undo(mark)      # as if it had never been

The log holds the changes in order; undoing walks it backwards. Nothing is ever copied. At the end of a cycle
the net difference is read off the touched entries, then everything is undone.
"""

from grus.scheduler.placement.gang_placement import Place
from grus.scheduler.state.job_entry import Entry, count_entry
from grus.scheduler.state.node_capacity_index import NOW, SOON, DeviceState, NodeState
from grus.scheduler.state.snapshot import Snapshot

_DEVICE, _HOST, _ENTRY = 0, 1, 2


class SavedEntry:
    """State of an entry when the transaction first touched it."""

    __slots__ = ("leaving", "places", "running", "waiting")

    def __init__(self, entry: Entry) -> None:
        self.places = entry.places
        self.leaving = entry.leaving
        self.running = entry.running
        self.waiting = entry.waiting


class Transaction:
    """Changes tried in one cycle."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.pool = snapshot.pool
        self.touched: dict[Entry, SavedEntry] = {}
        self.planned: set[Entry] = set()
        """Entries whose placements are not all free yet: they wait for them."""
        self.version = 0
        """Version of all holdings: a new number after each change, the former one again after an undo."""
        self._versions = 0
        self.freed = 0
        """Counter that grows whenever something is given back: a request that found no place before may find
        one now.
        """
        self.unseated = False
        """True if any job has to leave, if only tentatively."""
        self._log: list[tuple[int, object, object, object]] = []

    def mark(self) -> int:
        return len(self._log)

    # --------------------------------------------------------------------------------- devices and hosts

    def take(self, device: DeviceState, share: int) -> None:
        """Allocate a part of a device; below zero *now* means that some job has to leave first."""
        self.pool.shift(device, -share, NOW)
        self.pool.shift(device, -share, SOON)
        self._log.append((_DEVICE, device, share, True))

    def free_soon(self, device: DeviceState, share: int) -> None:
        """Count a part of a device as free soon: the job that has to leave gives it back."""
        self.pool.shift(device, share, SOON)
        self._log.append((_DEVICE, device, -share, False))

    def host(self, node: NodeState, cpu: int, memory: int, now: bool = True) -> None:
        """Allocate host CPU and memory; negative amounts are given back."""
        self._shift_host(node, -cpu, -memory, now)
        self._log.append((_HOST, node, (cpu, memory), now))

    def _shift_host(self, node: NodeState, cpu: int, memory: int, now: bool) -> None:
        for horizon in (NOW, SOON) if now else (SOON,):
            if node.cpu is not None:
                node.cpu[horizon] += cpu
            if node.memory is not None:
                node.memory[horizon] += memory

    # ------------------------------------------------------------------------------------------- entries

    def seat(self, entry: Entry, places: tuple[Place, ...], now: bool) -> None:
        """Give an entry these placements in addition; their devices have been taken already.

        Without `now` it is a plan: it counts soon, and the entry waits until the placements are confirmed
        free.
        """
        self._set(entry, entry.places + places, entry.leaving, True, now)

    def unseat(self, entry: Entry, places: tuple[Place, ...]) -> None:
        """Mark these placements of an entry as leaving (they are free soon); without any left it is
        paused.
        """
        for place in places:
            part = entry.shape.parts[place.part]
            for device in place.devices:
                self.free_soon(device, place.share)
            if part.cpu or part.memory:
                self.host(place.node, -part.cpu, -part.memory, now=False)
        self.freed += 1
        self.unseated = True
        gone = set(places)
        staying = tuple(place for place in entry.places if place not in gone)
        self._set(entry, staying, entry.leaving + places, bool(staying), False)

    def reseat(self, entry: Entry, places: tuple[Place, ...]) -> None:
        """Undo an `unseat` of this transaction: the placements stay after all."""
        for place in places:
            part = entry.shape.parts[place.part]
            for device in place.devices:
                self.free_soon(device, -place.share)
            if part.cpu or part.memory:
                self.host(place.node, part.cpu, part.memory, now=False)
        back = set(places)
        leaving = tuple(place for place in entry.leaving if place not in back)
        self._set(entry, entry.places + places, leaving, True, False)

    def reshare(self, entry: Entry, share: int, now: bool = False) -> None:
        """Change the share of an entry on its one device. Below zero *now* means that the other job there has
        to leave first; for its queue it counts soon, with `now` at once.
        """
        (place,) = entry.places
        for device in place.devices:
            self.take(device, share - place.share)
        self._set(entry, (place._replace(share=share),), entry.leaving, entry.running, now)

    def _set(
        self, entry: Entry, places: tuple[Place, ...], leaving: tuple[Place, ...], running: bool, now: bool
    ) -> None:
        if entry not in self.touched:
            self.touched[entry] = SavedEntry(entry)
        held, versions = entry.held, (entry.queue.version, self.version)
        old = (entry.places, entry.leaving, entry.running, held, entry.size, versions)
        entry.queue.new_version()
        self._versions += 1
        self.version = self._versions
        count_entry(entry, -1)
        entry.places, entry.leaving, entry.running = places, leaving, running
        entry.measure()
        count_entry(entry, 1)
        change = entry.held - held
        entry.shift(change, SOON)
        if now:
            entry.shift(change, NOW)
        self._log.append((_ENTRY, entry, old, now))

    # ---------------------------------------------------------------------------------------------- undo

    def undo(self, mark: int) -> None:
        """Restore the state at the mark."""
        log = self._log
        if len(log) > mark:
            self.freed += 1
        while len(log) > mark:
            what, thing, amount, now = log.pop()
            if what == _DEVICE:
                assert isinstance(thing, DeviceState)
                assert isinstance(amount, int)
                self.pool.shift(thing, amount, SOON)
                if now:
                    self.pool.shift(thing, amount, NOW)
            elif what == _HOST:
                assert isinstance(thing, NodeState)
                assert isinstance(amount, tuple)
                self._shift_host(thing, amount[0], amount[1], bool(now))
            else:
                assert isinstance(thing, Entry)
                assert isinstance(amount, tuple)
                self._restore(thing, amount, bool(now))

    def _restore(self, entry: Entry, old: tuple[object, ...], now: bool) -> None:
        held = entry.held
        count_entry(entry, -1)
        entry.places, entry.leaving, entry.running, entry.held, entry.size, versions = old  # type: ignore[assignment]  # the log is untyped
        entry.queue.version, self.version = versions  # type: ignore[misc]  # as above
        count_entry(entry, 1)
        change = entry.held - held
        entry.shift(change, SOON)
        if now:
            entry.shift(change, NOW)
