"""GPU sharing (packing): two jobs on one GPU, with a primary and a secondary. Opt-in; the last of the rules.

A *primary* (`host`) is a running job that allows sharing and has its GPU by right. A *secondary* (`guest`)
allows it too, could not have a GPU of its own, and gets half of the primary's; its only right is the
primary's permission. So the rules of quotas, shares and priorities are applied as if there were no
secondaries (`fold`): primaries have their GPUs whole, and no job that does not share ever gets less, or waits
longer, because another job is a secondary. Only then (`pack`) the halves are given: to the present
secondaries, if their pairs still fit and are not measured to lose, and to new ones if no whole GPU was left
for them.

No step allocates more of a GPU than there is. To admit a secondary, the primary's share shrinks to a half
first; the secondary starts when that is recorded. The primary has its GPU whole again when the secondary is
confirmed gone. A secondary whose primary has left gets the GPU if it is its turn, else it waits in line like
all others.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from grus.model.jobs import Phase
from grus.model.resources import GPU
from grus.scheduler.placement.gang_placement import Place
from grus.scheduler.queues.nomination import behind_preemptor
from grus.scheduler.queues.ordering import Key, giving_key
from grus.scheduler.state.gpu_footprint import MEASURED, fits, worth_trying
from grus.scheduler.state.node_capacity_index import NOW, SOON

if TYPE_CHECKING:
    from grus.scheduler.cycle import Cycle
    from grus.scheduler.queues.queue_usage_tree import QueueNode
    from grus.scheduler.state.job_entry import Entry

HALF = GPU // 2


class SharingDecision(NamedTuple):
    """Start of GPU sharing: the primary, and the reason."""

    other: "Entry"
    reason: str


# ---------------------------------------------------------------------------------- before the rules


def fold(cycle: "Cycle") -> None:
    """Count without secondaries: they are taken out, and every job that has half a GPU counts with a whole
    one.

    A secondary whose primary has left also gets the whole GPU, if no waiting job comes before it.
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
    """Return whether its primary leaves the shared GPU to it, and it is its turn."""
    return _left_alone(guest) and _may_hold(cycle, guest) and _comes_first(cycle, guest)


def _left_alone(guest: "Entry") -> bool:
    """Return whether no other job will be on its GPU."""
    return lodging(guest).devices[0].free[SOON] == GPU


def _may_hold(cycle: "Cycle", guest: "Entry") -> bool:
    """Return whether its queue may hold a whole GPU more (its half does not count in this cycle)."""
    return not guest.breaks(GPU, cycle.capacity, SOON)


def _comes_first(cycle: "Cycle", guest: "Entry") -> bool:
    """Return whether no waiting job would be given a GPU before it; rights to take it back are not checked
    here.
    """
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
    """Yield the first in line of each class with the same request."""
    return (found.entries[found.ages[0]] for found in leaf.line.classes())


def _rank(queue: "QueueNode", amount: int) -> tuple[bool, Key]:
    """Return the rank of a request for so much: inside quota first, then in the order in which GPUs are
    given.
    """
    inside = amount <= queue.quota_room()
    return not inside, giving_key(queue, inside, GPU)


def _take_whole(cycle: "Cycle", guest: "Entry") -> None:
    cycle.transaction.reseat(guest, guest.leaving[-1:])
    cycle.transaction.reshare(guest, GPU)


def lodging(guest: "Entry") -> Place:
    """Return the placement of a secondary that was taken out of the count."""
    return guest.leaving[-1]


# ----------------------------------------------------------------------------------- after the rules


def pack(cycle: "Cycle") -> None:
    """Give the halves: first to the present secondaries."""
    snapshot = cycle.snapshot
    if not snapshot.packed and len(snapshot.footprints) < 2:
        return
    _Packing(cycle).run()


class _Pair(NamedTuple):
    guest: "Entry"
    host: "Entry"


class _Packing:
    """Chooses pairs while all primaries have their GPUs whole, so that no choice depends on another, and only
    then gives the halves.
    """

    def __init__(self, cycle: "Cycle") -> None:
        self._cycle = cycle
        self._packed = sorted(cycle.snapshot.packed.values(), key=lambda entry: entry.age)
        self._lent: dict[QueueNode, int] = {}
        """Holdings of secondaries in each queue and branch."""
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
        """Make it whole again, if the other half of its GPU is confirmed free and its queue may hold
        it now.
        """
        self._cycle.transaction.reshare(entry, HALF)
        free = entry.places[0].devices[0].free[NOW]
        if free >= HALF and not entry.breaks(HALF, self._cycle.capacity, NOW):
            self._cycle.transaction.reshare(entry, GPU, now=True)

    def _may_lodge(self, guest: "Entry", host: "Entry") -> bool:
        """Return whether a half of the primary's GPU may count for the secondary's queue.

        Limits hold with primaries that have their GPUs whole, so that no job has to leave when one becomes
        whole again. GPUs reserved for the primary's queue, or for a branch that the secondary's is not in,
        are not lent.
        """
        mine = guest.queue.path
        if guest.lacks_allowance(GPU, SOON):  # room for a whole GPU: it has one when the primary leaves
            return False
        if any(node.reserved for node in host.queue.path if node not in mine):
            return False
        return all(node.held[SOON] + self._lent.get(node, 0) + HALF <= node.limit for node in mine)

    def _lend(self, guest: "Entry") -> None:
        for node in guest.queue.path:
            self._lent[node] = self._lent.get(node, 0) + HALF

    # ------------------------------------------------------------------------------ present secondaries

    def _keep(self, guest: "Entry") -> None:
        """Leave a secondary in its place, unless there is a reason to separate the two."""
        cycle = self._cycle
        host = _host_of(cycle, guest)
        if host is not None and host in cycle.put_off:
            cycle.put_off[guest] = cycle.put_off[host]  # both leave when the primary has finished its epoch
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
        """Return whether a whole GPU is left over for it now; it is taken, so that it is left over for one
        only.
        """
        cycle = self._cycle
        if cycle.pool.free[NOW] < GPU or cycle.reservation is not None or not _saves(guest):
            return False
        if cycle.guarded(guest):
            return False
        if not _may_hold(cycle, guest) or guest.breaks(GPU, cycle.capacity, NOW):
            return False
        return cycle.idle_place(guest)

    def _part(self, guest: "Entry", reason: str) -> None:
        self._cycle.parted[guest] = reason
        host = _host_of(self._cycle, guest)
        if host is not None and host in self._cycle.victims:
            self._cycle.victims[guest] = self._cycle.victims[host]

    # ---------------------------------------------------------------------------------- new secondaries

    def _let_in(self) -> None:
        """Admit waiting jobs as secondaries, in the order in which GPUs are given."""
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
        """Return the primary with the highest expected gain of the pair."""
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
        """Give half of the primary's GPU to the secondary: now if the primary has only half on record, else
        when it has.
        """
        (guest, host), cycle, transaction = pair, self._cycle, self._cycle.transaction
        transaction.reshare(host, HALF)
        place, part = host.places[0], guest.shape.parts[0]
        device = place.devices[0]
        text = f"shares {device.id} with {{}}: {self._hope(guest, host)}"
        cycle.lodgings[host] = SharingDecision(guest, text.format(_named(guest)))
        on_record = transaction.touched[host].places[0].share == HALF
        if on_record and device.free[NOW] >= HALF and not guest.breaks(HALF, cycle.capacity, NOW):
            transaction.take(device, HALF)
            if part.cpu or part.memory:
                transaction.host(place.node, part.cpu, part.memory)
            transaction.seat(guest, (Place(0, 0, place.node, place.devices, HALF, 1),), now=True)
            cycle.lodgings[guest] = SharingDecision(host, text.format(_named(host)))

    def _hope(self, guest: "Entry", host: "Entry") -> str:
        known = self._cycle.snapshot.footprints
        one, other = known[guest.id], known[host.id]
        how = "predicted" if one.measured(other) is None else "measured"
        gain = worth_trying(one, other)
        return f"both together are {how} to do {gain:.2f} times the work that they would do in turns"


def _saves(entry: "Entry") -> bool:
    """Return whether it can be moved without losing all its work."""
    return bool(entry.job.spec.checkpoint.path) or entry.job.saved_at is not None


def _host_of(cycle: "Cycle", guest: "Entry") -> "Entry | None":
    return cycle.snapshot.entries.get(guest.job.guest_of) if guest.job.guest_of is not None else None


def _goes_on(host: "Entry", guest: "Entry") -> bool:
    """Return whether its primary stays on that GPU."""
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
    """Return whether it could have had this very GPU for itself, and the node has CPU and memory for both."""
    part = guest.shape.parts[0]
    return (
        bool(place.node.bit & guest.shape.nodes)
        and place.devices[0].kind in part.kinds
        and place.node.hosts(part.cpu, part.memory, NOW)
    )


def _named(entry: "Entry") -> str:
    return f"{entry.job.spec.name} ({entry.id})"
