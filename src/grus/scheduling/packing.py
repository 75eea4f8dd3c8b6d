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

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from grus.model.jobs import Phase
from grus.model.resources import GPU
from grus.scheduling.footprint import MEASURED, Footprint, fits, worth_trying
from grus.scheduling.gang import Place
from grus.scheduling.nomination import behind_preemptor
from grus.scheduling.ordering import giving_key
from grus.scheduling.topology import NOW, SOON

if TYPE_CHECKING:
    from grus.scheduling.cycle import Cycle
    from grus.scheduling.snapshot import Entry

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
    mine = giving_key(guest.queue, False, GPU)
    for leaf in cycle.tree.leaves:
        if not leaf.line.count:
            continue
        if any(shape.minimum > GPU for shape in leaf.line.shapes):
            return False  # a gang may have been waiting for it
        if leaf is not guest.queue:
            if giving_key(leaf, False, GPU) < mine:
                return False
            continue
        top = leaf.line.top_priority()
        oldest = min(found.ages[0] for users in leaf.line.levels[top].values() for found in users.values())
        if (-top, oldest) < (-guest.priority, guest.age):
            return False
    return True


def _take_whole(cycle: "Cycle", guest: "Entry") -> None:
    cycle.transaction.reseat(guest, guest.leaving[-1:])
    cycle.transaction.reshare(guest, GPU)


def lodging(guest: "Entry") -> Place:
    """Where a guest is that was taken out of the reckoning."""
    return guest.leaving[-1]


# ----------------------------------------------------------------------------------- after the rules


def pack(cycle: "Cycle") -> None:
    """Give the halves: first to those who have them."""
    packed = sorted(cycle.snapshot.packed.values(), key=lambda entry: entry.age)
    taken: set[Entry] = set()
    for entry in packed:
        if entry.job.guest_of is not None and not entry.broken and not entry.running:
            _keep(cycle, entry, taken)
    _let_in(cycle, taken)
    for entry in packed:
        if entry.running and entry.held == GPU:
            cycle.transaction.reshare(entry, HALF)
            if _may_widen(cycle, entry):
                cycle.transaction.reshare(entry, GPU, now=True)


def _may_widen(cycle: "Cycle", entry: "Entry") -> bool:
    """Whether the other half of its GPU is proven free, and its queue may hold it now."""
    free = entry.places[0].devices[0].free[NOW]
    return free >= HALF and not entry.queue.breaks(HALF, cycle.capacity, NOW)


def _keep(cycle: "Cycle", guest: "Entry", taken: "set[Entry]") -> None:
    """Leave a guest where it is, unless there is a reason to part the two."""
    host = _host_of(cycle, guest)
    if host is not None and host in cycle.put_off:
        cycle.put_off[guest] = cycle.put_off[host]  # both leave when the host has finished its epoch
        return None
    if host is None or not _goes_on(host, guest):
        if cycle.reservation is None and _left_alone(guest) and _may_hold(cycle, guest):
            return _take_whole(cycle, guest)
        return _part(cycle, guest, "the job that shared its GPU with it has left, and others are next")
    if (reason := _reason_to_part(cycle, guest, host)) is not None:
        return _part(cycle, guest, reason)
    cycle.transaction.reshare(host, HALF)
    if guest.queue.breaks(HALF, cycle.capacity, SOON):
        cycle.transaction.reshare(host, GPU)
        return _part(cycle, guest, f"{guest.queue.name} may hold no more GPUs")
    cycle.transaction.reseat(guest, guest.leaving[-1:])
    taken.add(host)
    return None


def _goes_on(host: "Entry", guest: "Entry") -> bool:
    """Whether the one that let it in stays on that GPU."""
    return host.running and len(host.places) == 1 and host.places[0].devices == lodging(guest).devices


def _host_of(cycle: "Cycle", guest: "Entry") -> "Entry | None":
    return cycle.snapshot.entries.get(guest.job.guest_of) if guest.job.guest_of is not None else None


def _reason_to_part(cycle: "Cycle", guest: "Entry", host: "Entry") -> str | None:
    one, other = _known(cycle, guest), _known(cycle, host)
    named = f"{host.job.spec.name} ({host.id})"
    if one is not None and other is not None:
        gain = one.measured(other)
        if gain is not None and gain <= MEASURED:
            return f"sharing a GPU with {named} was measured to do {gain:.2f} times the work of taking turns"
        if not fits(one, other, lodging(guest).devices[0].memory):
            return f"the memory of both does not fit the GPU that it shares with {named} any more"
    if _idle_gpu(cycle, guest):
        return f"a GPU is idle: it need not share one with {named}"
    return None


def _idle_gpu(cycle: "Cycle", guest: "Entry") -> bool:
    """Whether a whole GPU is left over for it now; it is taken, so that it is left over for one only."""
    if cycle.pool.free[NOW] < GPU or cycle.reservation is not None or cycle.guarded(guest):
        return False
    if not _may_hold(cycle, guest) or guest.queue.breaks(GPU, cycle.capacity, NOW):
        return False
    return cycle.idle_place(guest)


def _part(cycle: "Cycle", guest: "Entry", reason: str) -> None:
    cycle.parted[guest] = reason
    host = _host_of(cycle, guest)
    if host is not None and host in cycle.victims:
        cycle.victims[guest] = cycle.victims[host]


# -------------------------------------------------------------------------------------- new guests


def _let_in(cycle: "Cycle", taken: "set[Entry]") -> None:
    """Let waiting jobs in on GPUs of others, in the order in which GPUs are given."""
    footprints = cycle.snapshot.footprints
    if len(footprints) < 2:
        return
    known = [cycle.snapshot.entries[job] for job in footprints]
    hosts = sorted((e for e in known if e not in taken and _may_host(cycle, e)), key=lambda e: e.age)
    if not hosts:
        return
    lines: dict[object, list[Entry]] = {}
    for entry in sorted(known, key=lambda e: (-e.priority, e.age), reverse=True):
        if _may_be_guest(cycle, entry):
            lines.setdefault(entry.queue, []).append(entry)
    turns = [(giving_key(line[0].queue, False, HALF), n, line) for n, line in enumerate(lines.values())]
    heapify(turns)
    while turns and hosts:
        _, number, line = heappop(turns)
        guest = line.pop()
        host = _best_host(cycle, guest, hosts)
        if host is not None:
            hosts.remove(host)
        if line:
            heappush(turns, (giving_key(guest.queue, False, HALF), number, line))


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
    return entry.waiting and not entry.places and not entry.never and not behind_preemptor(cycle, entry)


def _best_host(cycle: "Cycle", guest: "Entry", hosts: "list[Entry]") -> "Entry | None":
    """Let it in where both are thought to gain most; None if nowhere."""
    one = cycle.snapshot.footprints[guest.id]
    pairs = []
    for number, host in enumerate(hosts):
        other = cycle.snapshot.footprints[host.id]
        device = host.places[0].devices[0]
        if not _usable(guest, host.places[0]) or not fits(one, other, device.memory):
            continue
        gain = worth_trying(one, other)
        if gain is not None:
            pairs.append((-gain, number, host))
    for gain, _, host in sorted(pairs):
        if _enter(cycle, guest, host, -gain):
            return host
    return None


def _usable(guest: "Entry", place: Place) -> bool:
    """Whether it could have had this very GPU for itself, and the host's CPU and memory do."""
    part = guest.shape.parts[0]
    return (
        bool(place.node.bit & guest.shape.nodes)
        and place.devices[0].kind in part.kinds
        and place.node.hosts(part.cpu, part.memory, NOW)
    )


def _enter(cycle: "Cycle", guest: "Entry", host: "Entry", gain: float) -> bool:
    """Half of the host's GPU for the guest: now if the host has only half on record, else when it has."""
    transaction = cycle.transaction
    mark = transaction.mark()
    transaction.reshare(host, HALF)
    if guest.queue.breaks(HALF, cycle.capacity, SOON):
        transaction.undo(mark)
        return False
    place, part = host.places[0], guest.shape.parts[0]
    device = place.devices[0]
    one, other = cycle.snapshot.footprints[guest.id], cycle.snapshot.footprints[host.id]
    how = "measured" if one.measured(other) is not None else "predicted"
    text = f"both together are {how} to do {gain:.2f} times the work that they would do in turns"
    cycle.lodgings[host] = Lodging(guest, f"shares {device.id} with {_named(guest)}: {text}")
    on_record = transaction.touched[host].places[0].share == HALF
    if on_record and device.free[NOW] >= HALF and not guest.queue.breaks(HALF, cycle.capacity, NOW):
        transaction.take(device, HALF)
        if part.cpu or part.memory:
            transaction.host(place.node, part.cpu, part.memory)
        transaction.seat(guest, (Place(0, 0, place.node, place.devices, HALF, 1),), now=True)
        cycle.lodgings[guest] = Lodging(host, f"shares {device.id} with {_named(host)}: {text}")
    return True


def _known(cycle: "Cycle", entry: "Entry") -> Footprint | None:
    return cycle.snapshot.footprints.get(entry.id)


def _named(entry: "Entry") -> str:
    return f"{entry.job.spec.name} ({entry.id})"
