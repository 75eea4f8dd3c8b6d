"""Two jobs on one GPU: who is let in as a guest, who stays, who goes on alone. Opt-in; the last of the rules.

A *host* is a running job that allows sharing and has its GPU by right. A *guest* allows it too, could not
have a GPU of its own, and is let in on half of the host's; its right is the host's leave and nothing else. So
the rules of quotas, shares and priorities are applied as if there were no guests (`fold`): hosts have their
GPUs whole, and nobody who does not share ever gets less, or waits longer, because somebody is a guest. Only
then (`pack`) the halves are given: to the guests that are there, if their pairs still fit and are not
measured to lose, and to new ones where nothing whole was left for them.

No step gives out more of a GPU than there is. To let somebody in, the host's seat shrinks to a half first;
the guest starts when that is on record. The host has its GPU whole again when the guest is proven gone. A
guest whose host has left gets the GPU if it is its turn, else it waits in line like everybody.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from grus.model.jobs import Phase
from grus.model.resources import GPU
from grus.scheduling.footprint import MEASURED, fits, worth_trying
from grus.scheduling.gang import Place
from grus.scheduling.nomination import behind_preemptor
from grus.scheduling.ordering import Key, giving_key
from grus.scheduling.topology import NOW, SOON

if TYPE_CHECKING:
    from grus.scheduling.cycle import Cycle
    from grus.scheduling.entry import Entry
    from grus.scheduling.quota import QueueNode

HALF = GPU // 2


class Lodging(NamedTuple):
    """With whom a job begins to share a GPU, and why."""

    other: "Entry"
    reason: str


# ---------------------------------------------------------------------------------- before the rules


def fold(cycle: "Cycle") -> None:
    """Reckon without guests: they are taken out, and whoever has half a GPU has it whole.

    A guest whose host has left has the GPU whole too, if nobody who waits comes before it.
    """
    packed = sorted(cycle.snapshot.packed.values(), key=lambda entry: entry.age)
    for entry in packed:
        if entry.job.guest_of is not None:
            cycle.transaction.unseat(entry, entry.places)
    for entry in packed:
        if entry.job.guest_of is None:
            cycle.transaction.reshare(entry, GPU)
    for entry in packed:
        if entry.job.guest_of is not None and not entry.broken and _inherits(cycle, entry):
            _take_whole(cycle, entry)


def _inherits(cycle: "Cycle", guest: "Entry") -> bool:
    """Whether the GPU that it was let in on is left to it by its host, and it is its turn."""
    return _left_alone(guest) and _may_hold(cycle, guest) and _comes_first(cycle, guest)


def _left_alone(guest: "Entry") -> bool:
    """Whether nobody else will be on its GPU."""
    return lodging(guest).devices[0].free[SOON] == GPU


def _may_hold(cycle: "Cycle", guest: "Entry") -> bool:
    """Whether its queue may hold a whole GPU more (its half does not count in this cycle)."""
    return not guest.queue.breaks(GPU, cycle.capacity, SOON)


def _comes_first(cycle: "Cycle", guest: "Entry") -> bool:
    """Whether nobody who waits would be given a GPU before it; rights to take it back are not asked here."""
    mine = _rank(guest.queue, GPU)
    for leaf in cycle.tree.leaves:
        room = leaf.never_room()
        firsts = [entry for entry in _firsts(leaf) if not entry.never or entry.shape.minimum <= room]
        if any(entry.shape.minimum > GPU for entry in firsts):
            return False  # a gang may have been waiting for it
        if leaf is guest.queue:
            if any((-entry.priority, entry.age) < (-guest.priority, guest.age) for entry in firsts):
                return False
        elif any(_rank(leaf, entry.shape.minimum) < mine for entry in firsts):
            return False
    return True


def _firsts(leaf: "QueueNode") -> "Iterator[Entry]":
    """The first in line of each class of those who ask for the same."""
    return (found.entries[found.ages[0]] for found in leaf.line.classes())


def _rank(queue: "QueueNode", amount: int) -> tuple[bool, Key]:
    """When a request for so much has its turn: what is inside quota first, then as GPUs are given."""
    inside = amount <= queue.quota_room()
    return not inside, giving_key(queue, inside, GPU)


def _take_whole(cycle: "Cycle", guest: "Entry") -> None:
    cycle.transaction.reseat(guest, guest.leaving[-1:])
    cycle.transaction.reshare(guest, GPU)


def lodging(guest: "Entry") -> Place:
    """Where a guest is that was taken out of the reckoning."""
    return guest.leaving[-1]


# ----------------------------------------------------------------------------------- after the rules


def pack(cycle: "Cycle") -> None:
    """Give the halves: first to those who have them."""
    snapshot = cycle.snapshot
    if not snapshot.packed and len(snapshot.footprints) < 2:
        return
    _Packing(cycle).run()


class _Pair(NamedTuple):
    guest: "Entry"
    host: "Entry"


class _Packing:
    """Chooses pairs while all hosts have their GPUs whole, so that no choice depends on another, and only
    then gives the halves."""

    def __init__(self, cycle: "Cycle") -> None:
        self._cycle = cycle
        self._packed = sorted(cycle.snapshot.packed.values(), key=lambda entry: entry.age)
        self._lent: dict[QueueNode, int] = {}
        """What guests hold in each queue and branch."""
        self._staying: list[_Pair] = []
        self._coming: list[_Pair] = []

    def run(self) -> None:
        for entry in self._packed:
            if entry.job.guest_of is not None and not entry.broken and not entry.running:
                self._keep(entry)
        self._let_in()
        for guest, host in self._staying:
            self._cycle.transaction.reshare(host, HALF)
            self._cycle.transaction.reseat(guest, guest.leaving[-1:])
        for pair in self._coming:
            self._enter(pair)
        for entry in self._packed:
            if entry.running and entry.held == GPU:
                self._widen(entry)

    def _widen(self, entry: "Entry") -> None:
        """Whole again, if the other half of its GPU is proven free and its queue may hold it now."""
        self._cycle.transaction.reshare(entry, HALF)
        free = entry.places[0].devices[0].free[NOW]
        if free >= HALF and not entry.queue.breaks(HALF, self._cycle.capacity, NOW):
            self._cycle.transaction.reshare(entry, GPU, now=True)

    def _may_lodge(self, guest: "Entry", host: "Entry") -> bool:
        """Whether a half of the host's GPU may count for the guest's queue.

        Limits hold with hosts that have their GPUs whole, so that nobody has to leave when one has it so
        again. What is reserved for the host's queue, or for a branch that the guest's is not in, is not lent.
        """
        mine = guest.queue.path
        if any(node.reserved for node in host.queue.path if node not in mine):
            return False
        return all(node.held[SOON] + self._lent.get(node, 0) + HALF <= node.limit for node in mine)

    def _lend(self, guest: "Entry") -> None:
        for node in guest.queue.path:
            self._lent[node] = self._lent.get(node, 0) + HALF

    # ------------------------------------------------------------------------------ those who are there

    def _keep(self, guest: "Entry") -> None:
        """Leave a guest where it is, unless there is a reason to part the two."""
        cycle = self._cycle
        host = _host_of(cycle, guest)
        if host is not None and host in cycle.put_off:
            cycle.put_off[guest] = cycle.put_off[host]  # both leave when the host has finished its epoch
        elif host is None or not _goes_on(host, guest):
            if cycle.reservation is None and _left_alone(guest) and _may_hold(cycle, guest):
                _take_whole(cycle, guest)
            else:
                self._part(guest, "the job that shared its GPU with it has left, and others are next")
        elif (reason := self._reason_to_part(guest, host)) is not None:
            self._part(guest, reason)
        else:
            self._staying.append(_Pair(guest, host))
            self._lend(guest)

    def _reason_to_part(self, guest: "Entry", host: "Entry") -> str | None:
        known = self._cycle.snapshot.footprints
        one, other = known.get(guest.id), known.get(host.id)
        named = _named(host)
        if one is not None and other is not None:
            gain = one.measured(other)
            if gain is not None and gain <= MEASURED:
                return (
                    f"sharing a GPU with {named} was measured to do {gain:.2f} times the work of taking turns"
                )
            if not fits(one, other, lodging(guest).devices[0].memory):
                return f"the memory of both does not fit the GPU that it shares with {named} any more"
        if not self._may_lodge(guest, host):
            return f"{guest.queue.name} may hold no more GPUs"
        if self._idle_gpu(guest):
            return f"a GPU is idle: it need not share one with {named}"
        return None

    def _idle_gpu(self, guest: "Entry") -> bool:
        """Whether a whole GPU is left over for it now; it is taken, so that it is left over for one only."""
        cycle = self._cycle
        if cycle.pool.free[NOW] < GPU or cycle.reservation is not None or not _saves(guest):
            return False
        if cycle.guarded(guest):
            return False
        if not _may_hold(cycle, guest) or guest.queue.breaks(GPU, cycle.capacity, NOW):
            return False
        return cycle.idle_place(guest)

    def _part(self, guest: "Entry", reason: str) -> None:
        self._cycle.parted[guest] = reason
        host = _host_of(self._cycle, guest)
        if host is not None and host in self._cycle.victims:
            self._cycle.victims[guest] = self._cycle.victims[host]

    # --------------------------------------------------------------------------------------- new guests

    def _let_in(self) -> None:
        """Let waiting jobs in on GPUs of others, in the order in which GPUs are given."""
        cycle = self._cycle
        known = [e for job in cycle.snapshot.footprints if (e := cycle.snapshot.entries[job]).shape.shares]
        taken = {pair.host for pair in self._staying}
        hosts = sorted((e for e in known if e not in taken and _may_host(cycle, e)), key=lambda e: e.age)
        if not hosts:
            return
        lines: dict[QueueNode, list[Entry]] = {}
        for entry in sorted(known, key=lambda e: (-e.priority, e.age), reverse=True):
            if _may_be_guest(cycle, entry):
                lines.setdefault(entry.queue, []).append(entry)
        turns = [lines[queue] for queue in sorted(lines, key=lambda queue: giving_key(queue, False, HALF))]
        while turns and hosts:  # queue by queue in turn
            for line in turns:
                self._find_host(line.pop(), hosts)
            turns = [line for line in turns if line]

    def _find_host(self, guest: "Entry", hosts: "list[Entry]") -> None:
        host = self._best_host(guest, hosts)
        if host is not None:
            hosts.remove(host)
            self._coming.append(_Pair(guest, host))
            self._lend(guest)

    def _best_host(self, guest: "Entry", hosts: "list[Entry]") -> "Entry | None":
        """The one with whom both are thought to gain most."""
        known = self._cycle.snapshot.footprints
        best: tuple[float, Entry] | None = None
        for host in hosts:
            place = host.places[0]
            if not _usable(guest, place) or not self._may_lodge(guest, host):
                continue
            if not fits(known[guest.id], known[host.id], place.devices[0].memory):
                continue
            gain = worth_trying(known[guest.id], known[host.id])
            if gain is not None and (best is None or gain > best[0]):
                best = (gain, host)
        return None if best is None else best[1]

    def _enter(self, pair: _Pair) -> None:
        """Half of the host's GPU for the guest: now if the host has only half on record, else when it has."""
        (guest, host), cycle, transaction = pair, self._cycle, self._cycle.transaction
        transaction.reshare(host, HALF)
        place, part = host.places[0], guest.shape.parts[0]
        device = place.devices[0]
        text = f"shares {device.id} with {{}}: {self._hope(guest, host)}"
        cycle.lodgings[host] = Lodging(guest, text.format(_named(guest)))
        on_record = transaction.touched[host].places[0].share == HALF
        if on_record and device.free[NOW] >= HALF and not guest.queue.breaks(HALF, cycle.capacity, NOW):
            transaction.take(device, HALF)
            if part.cpu or part.memory:
                transaction.host(place.node, part.cpu, part.memory)
            transaction.seat(guest, (Place(0, 0, place.node, place.devices, HALF, 1),), now=True)
            cycle.lodgings[guest] = Lodging(host, text.format(_named(host)))

    def _hope(self, guest: "Entry", host: "Entry") -> str:
        known = self._cycle.snapshot.footprints
        one, other = known[guest.id], known[host.id]
        how = "predicted" if one.measured(other) is None else "measured"
        gain = worth_trying(one, other)
        return f"both together are {how} to do {gain:.2f} times the work that they would do in turns"


def _saves(entry: "Entry") -> bool:
    """Whether it can be moved without losing all that it has done."""
    return bool(entry.job.spec.checkpoint.path) or entry.job.saved_at is not None


def _host_of(cycle: "Cycle", guest: "Entry") -> "Entry | None":
    return cycle.snapshot.entries.get(guest.job.guest_of) if guest.job.guest_of is not None else None


def _goes_on(host: "Entry", guest: "Entry") -> bool:
    """Whether the one that let it in stays on that GPU."""
    return host.running and len(host.places) == 1 and host.places[0].devices == lodging(guest).devices


def _may_host(cycle: "Cycle", entry: "Entry") -> bool:
    return (
        entry.running
        and entry.job.phase is Phase.RUNNING
        and entry.job.guest_of is None
        and not entry.never
        and not entry.broken
        and not entry.leaving
        and len(entry.places) == 1
        and entry.places[0].devices[0].open
        and not behind_preemptor(cycle, entry)
    )


def _may_be_guest(cycle: "Cycle", entry: "Entry") -> bool:
    waits = entry.waiting and not entry.places and not entry.never
    return waits and not behind_preemptor(cycle, entry)


def _usable(guest: "Entry", place: Place) -> bool:
    """Whether it could have had this very GPU for itself, and the node has CPU and memory for both."""
    part = guest.shape.parts[0]
    return (
        bool(place.node.bit & guest.shape.nodes)
        and place.devices[0].kind in part.kinds
        and place.node.hosts(part.cpu, part.memory, NOW)
    )


def _named(entry: "Entry") -> str:
    return f"{entry.job.spec.name} ({entry.id})"
