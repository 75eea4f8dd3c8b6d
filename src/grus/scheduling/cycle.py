"""One decision: what to start, pause and resize now. Read `decide` first: it is the rules in order.

Everything is tried in a transaction on the snapshot; at the end the net difference is read off and everything
is undone. A plan that needs GPUs which somebody has yet to leave holds them for this cycle and starts
nothing: the next cycle comes to the same plan, until they are proven free.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from grus.model.resources import GPU
from grus.scheduling.barriers import Barriers
from grus.scheduling.decisions import Decisions
from grus.scheduling.defragment import defragment
from grus.scheduling.difference import difference
from grus.scheduling.elastic import grow
from grus.scheduling.entry import Entry
from grus.scheduling.gang import PLANNED, Place, held_by_type, place
from grus.scheduling.hope import hopeless, own_to_take, worth_asking
from grus.scheduling.nomination import awaited, behind_preemptor
from grus.scheduling.ordering import Group, Key, RequestClass, Turn, giving_key
from grus.scheduling.packing import Lodging, fold, pack
from grus.scheduling.preemption import make_room
from grus.scheduling.quota import UNLIMITED, QueueNode
from grus.scheduling.reservation import Reservation, due_at, passes
from grus.scheduling.rhythm import wait_until
from grus.scheduling.rights import MINIMUM_RUN, PATIENCE, Asking, Piece, inside
from grus.scheduling.shapes import Shape
from grus.scheduling.snapshot import Settled, Snapshot
from grus.scheduling.stages import (
    BEHIND_GANG,
    BEHIND_PREEMPTOR,
    LACKS_GPUS,
    LATER,
    NEVER_QUOTA,
    NO_FREE,
    OVER_QUOTA,
    OVER_SHARE,
    SCATTERED,
    UNLIKE,
    Stage,
)
from grus.scheduling.topology import NOW, SOON
from grus.scheduling.trading import trade
from grus.scheduling.transaction import Transaction
from grus.scheduling.typed_quota import admits, admitted
from grus.scheduling.types import preferred_shapes
from grus.scheduling.victims import shrink_step


def decide(snapshot: Snapshot, now: float, *, patient: bool = True) -> Decisions:
    """What to do next. The snapshot is left as it was. Without `patient` nobody waits for others' epochs to
    end: to see what will come of it."""
    snapshot.advance(now)
    if snapshot.still_settled(now) and snapshot.settled is not None:
        return Decisions(wake_at=snapshot.settled.wake_at)
    cycle = Cycle(snapshot, now, patient=patient)
    requeued = cycle.requeue_broken()  # 1. health: unhealthy devices take no work
    cycle.obey_sizes()
    cycle.share()
    decisions = difference(cycle, requeued)  # 7. with the reason of each
    if cycle.idle():
        snapshot.settled = Settled(decisions.wake_at, snapshot.tree.shares)
    cycle.close()
    return decisions


class Victim(NamedTuple):
    """Why something was taken from a job."""

    preemptor: Entry
    moved: bool


class Cycle:
    """What one decision has tried so far."""

    def __init__(self, snapshot: Snapshot, now: float, *, patient: bool = True) -> None:
        snapshot.advance(now)
        self._patient = patient
        self.snapshot = snapshot
        self.now = now
        self.pool = snapshot.pool
        self.tree = snapshot.tree
        self.capacity = max(snapshot.pool.capacity, snapshot.tree.root.claimed_below[NOW])
        """What all claims together may reach: the healthy pool, or what they reach already."""
        self.transaction = Transaction(snapshot)
        self.tree.share_out(snapshot.pool.capacity)
        self._by_type = preferred_shapes(self)
        """Requests that should try the types of GPU in another order than the usual one."""
        self.started: dict[RequestClass, int] = {}
        """How far each class has been served, in the order of the line."""
        self.seated: dict[QueueNode, int] = {}
        """How many waiting jobs of each queue have been given seats."""
        self.newcomers: list[Entry] = []
        self.blocked: dict[Group, str] = {}
        """One reason for each group of equal requests that was tried in vain."""
        self.victims: dict[Entry, Victim] = {}
        self.put_off: dict[Entry, float] = {}
        """Victims that are let finish their epochs first, and until when."""
        self.lodgings: dict[Entry, Lodging] = {}
        """Jobs that begin to share a GPU."""
        self.parted: dict[Entry, str] = {}
        """Guests that may not stay, and why."""
        self.backfills: dict[Entry, float] = {}
        self.reservation: Reservation | None = None
        self._no_place: dict[Shape, tuple[int, str]] = {}
        """Shapes that found no place, and how much had been freed by then."""
        self._in_vain: dict[tuple[QueueNode, Shape, int, Stage], int] = {}
        """Who found nothing to take, and how much had been freed by then."""
        self.victims_found: dict[QueueNode, tuple[int, bool]] = {}
        """Whether a queue might take the least that it waits for from others, and for which version."""
        self._over_leaves: tuple[int, tuple[list[QueueNode], float, bool]] | None = None
        self._someone_behind = False
        self._first_gang: Asking | None = None
        """The first gang that was tried in vain; its reservation never delays requests inside quota."""
        self._barriers = Barriers()
        self.wake_at: float | None = snapshot.next_release()
        for entry in snapshot.backfilled.values():
            if entry.backfill_until is not None and entry.backfill_until > now:
                self.wake(entry.backfill_until)
        self._turns = 0
        self._last_starts: list[tuple[QueueNode, tuple[float, int]]] = []
        fold(self)  # whoever is a guest on another's GPU has no part in what follows

    def share(self) -> None:
        """Rules 2 to 4; placement (5) and victims (6) are inside each step."""
        self.give_nominated(by_quota=True)
        self.give(Stage.INSIDE)  # 2. inside quota, by reclaim if need be,
        grow(self, by_quota=True)  #    growth of queues none of whose minima waits included
        self.give(Stage.BRANCH)
        self.give_nominated(by_quota=False)
        self.give(Stage.FAIR)  # 3. over quota: first what stays within fair shares, then what crosses them,
        self.give(Stage.OVER)  #    which would be taken back by those who come after,
        if self._someone_behind:
            self.give(Stage.OVER)  # and last those whose preemptors were tried in vain
        grow(self, by_quota=False)  # 4. spare GPUs to elastic jobs, where they buy most,
        trade(self)  #    and between them where that pays
        pack(self)  # 5. two on one GPU, where both allow it and it pays

    def over_leaves(self) -> tuple[list[QueueNode], float, bool]:
        """Queues over quota, the highest held / share of any branch, and whether any of them has surplus."""
        if self._over_leaves is None or self._over_leaves[0] != self.transaction.version:
            leaves = [leaf for leaf in self.tree.leaves if leaf.over()]
            branches = {node for leaf in leaves for node in leaf.path[1:]}
            ratio = max((n.held[SOON] / n.exact if n.exact > 0 else UNLIMITED for n in branches), default=0.0)
            found = (leaves, ratio, any(leaf.surplus for leaf in leaves))
            self._over_leaves = (self.transaction.version, found)
        return self._over_leaves[1]

    # ------------------------------------------------------------------------------- rules 1 to 3

    def requeue_broken(self) -> list[Entry]:
        """Jobs on devices that are gone or unhealthy leave them; they are placed anew in a later cycle."""
        broken = sorted(self.snapshot.broken.values(), key=lambda entry: entry.age)
        for entry in broken:
            self.transaction.unseat(entry, entry.places)
        return broken

    def obey_sizes(self) -> None:
        """Jobs that were told to be smaller than they are give seats back."""
        for leaf in self.tree.leaves:
            if not leaf.surplus and not leaf.without_gpu:
                continue
            for entry in leaf.elastic.values():
                sizes = entry.shape.sizes
                while entry.running and sizes and entry.size > sizes[-1]:
                    step = shrink_step(entry)
                    if not step:
                        break
                    self.transaction.unseat(entry, step)

    def give(self, stage: Stage) -> None:
        """Serve waiting jobs, always of the queue that has least in proportion to what it deserves."""
        if stage is Stage.BRANCH and not self.tree.branches:
            return
        by_quota = stage <= Stage.BRANCH
        if not by_quota and self._first_gang is not None and self.reservation is None:
            self.reservation = Reservation.make(self, self._first_gang)
        line: list[tuple[Key, int, QueueNode, Turn]] = []
        for leaf in self.tree.leaves:
            if leaf.line.count > self.seated.get(leaf, 0) and worth_asking(leaf, stage):
                turn = Turn(leaf, self.started, self.blocked, self.snapshot.policy.by_user)
                line.append((giving_key(leaf, by_quota, GPU), len(line), leaf, turn))
        heapify(line)
        while line:
            key, number, leaf, turn = heappop(line)
            present = giving_key(leaf, by_quota, GPU)
            if present > key:
                heappush(line, (present, number, leaf, turn))
                continue
            if not by_quota and hopeless(self, leaf):
                continue
            if self._serve(leaf, turn, stage):
                heappush(line, (giving_key(leaf, by_quota, GPU), number, leaf, turn))

    def known_placeless(self, shape: Shape) -> bool:
        known = self._no_place.get(shape)
        return known is not None and known[0] == self.transaction.freed

    def _serve(self, leaf: QueueNode, turn: Turn, stage: Stage) -> bool:
        """Give seats to the next job in line that can have them; False when none can."""
        while True:
            following = turn.next()
            if following is None:
                return False
            found, entry = following
            code = self._try(entry, stage)
            if code == "":
                self._count_start(leaf)
                return True
            if code == BEHIND_GANG and self._barriers.all_behind(leaf):
                return False
            if code == OVER_SHARE and entry.priority > min(leaf.line.levels):
                return False  # Lower priorities of the queue do not pass one that might then pause them.
            alone = code == BEHIND_PREEMPTOR or not self._same_for_all(entry)
            turn.skip(found if alone else found.group)
            if code not in LATER and not alone:
                self.blocked[found.group] = code

    def _same_for_all(self, entry: Entry) -> bool:
        """Whether what failed for this job fails for all that ask for the same: an older one may have waited
        long enough to take surplus."""
        return not self.over_leaves()[2] or self.impatient(entry)

    def give_nominated(self, by_quota: bool) -> None:
        """Those for whom others made room come before the rest of what is inside quota, if they are (and
        nobody more important of their queue waits), or of what is over quota: else it was in vain."""
        waiting = [self.snapshot.entries.get(job) for job in self.snapshot.nominated]
        for entry in sorted((e for e in waiting if e is not None and e.waiting), key=lambda e: e.age):
            if entry.places or behind_preemptor(self, entry):
                continue
            asking, first = self._asking(entry), entry.queue.line.top_priority()
            if self._beyond_never(asking):
                continue
            if by_quota and (entry.priority < first or not inside(entry.queue, asking, self.pool)):
                continue
            if self._seat_free(asking) == "":
                self._count_start(entry.queue)

    def _asking(self, entry: Entry) -> Asking:
        shape = self._by_type.get(entry, entry.shape)
        if entry.never:
            shape = admitted(self.tree, self.pool, entry.queue, shape)
        return Asking(entry, shape, shape.counts(), shape.minimum, minimum=True)

    def _beyond_never(self, asking: Asking) -> bool:
        """True if it is never preempted, and its queue's quota has no room for it, in all or of its types."""
        if not asking.entry.never:
            return False
        parts = zip(asking.shape.parts, asking.entry.shape.parts, strict=True)
        barred = any(whole.kinds and not part.kinds for part, whole in parts)
        return barred or asking.amount > asking.queue.never_room()

    def _count_start(self, leaf: QueueNode) -> None:
        self._turns += 1
        self.seated[leaf] = self.seated.get(leaf, 0) + 1
        for node in leaf.path:
            self._last_starts.append((node, node.last_start))
            node.last_start = (self.now, self._turns)

    # ---------------------------------------------------------------------------------- one request

    def _try(self, entry: Entry, stage: Stage) -> str:
        """Seat one waiting job; "" if it worked, else the reason why not."""
        shape, queue = entry.shape, entry.queue
        asking = self._asking(entry)
        if self._beyond_never(asking):
            return NEVER_QUOTA
        if self._barriers.hold(self, asking):
            return BEHIND_GANG
        if behind_preemptor(self, entry) and not self._better_right(asking, stage):
            self._someone_behind = True
            return BEHIND_PREEMPTOR
        if stage is Stage.BRANCH and not any(inside(n, asking, self.pool) for n in queue.path[1:-1]):
            return OVER_QUOTA
        if stage is Stage.FAIR and not queue.within_share(asking.amount):
            return OVER_SHARE
        if stage is Stage.INSIDE:
            narrowed = self._inside_request(asking)
            if narrowed is None:
                self._barriers.put(self, asking)
                return OVER_QUOTA
            asking = narrowed
        code = self._seat_free(asking)
        if code == "":
            return ""
        vain = (queue, shape, entry.priority, stage)
        if self._in_vain.get(vain) == self.transaction.freed and not self.impatient(entry):
            return code
        if make_room(self, asking):
            return ""
        self._in_vain[vain] = self.transaction.freed
        if stage is Stage.INSIDE and defragment(self, asking):
            return ""
        self._barriers.put(self, asking)
        if self._first_gang is None and shape.minimum > GPU and code in LACKS_GPUS:
            self._first_gang = asking
            if stage >= Stage.FAIR:
                self.reservation = Reservation.make(self, asking)
        return code

    def _better_right(self, asking: Asking, stage: Stage) -> bool:
        """Whether it is inside quota, and the one that it made room for is so no more."""
        levels = asking.queue.path[-1:] if stage is Stage.INSIDE else asking.queue.path[1:-1]
        if stage > Stage.BRANCH or not any(inside(node, asking, self.pool) for node in levels):
            return False
        other = awaited(self, asking.entry)
        if other is None or other.never or self._inside_request(self._asking(other)) is not None:
            return False
        return not any(inside(node, self._asking(other), self.pool) for node in other.queue.path[1:-1])

    def has_reservation(self, asking: Asking) -> bool:
        """Whether, as a gang, it may claim what was lent past it; asked only when somebody was let past."""
        return bool(self.snapshot.backfilled) and due_at(self, asking) is not None

    def _inside_request(self, asking: Asking) -> Asking | None:
        """The request if it is inside its queue's quota (with a quota by type: limited to types that are)."""
        queue = asking.queue
        room = queue.quota_room()
        exact = not any(part.memory_slice for part in asking.shape.parts)
        if not (exact and asking.amount <= room) and own_to_take(queue):
            priority = asking.entry.priority
            running = [e for e in queue.running.values() if e.running]
            room += sum(e.held for e in running if e.priority < priority)
            room += sum(e.surplus for e in running if e.priority == priority)
        if asking.amount > room:
            return None
        asking = asking._replace(entitled=True, most=room)
        if inside(queue, asking, self.pool):
            return asking.inside_types(queue, self.pool)
        return asking if own_to_take(queue) else None

    def _seat_free(self, asking: Asking) -> str:
        """Seat on what is free now, else plan on what is free soon; the code says what stands in the way."""
        entry, queue, transaction = asking.entry, asking.queue, self.transaction
        broken = self._broken_rule(asking)
        if broken:
            return broken
        held = self.reservation
        if self.known_placeless(asking.shape) and (held is None or not passes(self, asking, held.due)):
            return self._no_place[asking.shape][1]
        code = ""
        for horizon, born in ((NOW, entry.generation + 1 if entry.running else 1), (SOON, PLANNED)):
            if horizon == NOW and queue.breaks(asking.amount, self.capacity, NOW):
                continue
            mark = transaction.mark()
            places, code = self.find_places(asking, horizon, born)
            if places is None and held is not None and passes(self, asking, held.due):
                places = held.place_inside(self, asking, horizon, born)
                if places is not None and self._too_much(asking, places, horizon):
                    transaction.undo(mark)
                    continue
                if places is not None and horizon == NOW:
                    self.backfills[entry] = held.due
            if places is None and horizon == NOW and self._nobody_leaves():
                break
            if places is None:
                continue
            transaction.seat(entry, tuple(places), now=horizon == NOW)
            self.newcomers.append(entry)
            if horizon == NOW and (due := self._barriers.passed(self, asking)) is not None:
                self.backfills.setdefault(entry, due)
            return ""
        if code:
            return code
        code = self._why_no_place(asking)
        self._no_place[asking.shape] = (transaction.freed, code)
        return code

    def _nobody_leaves(self) -> bool:
        """Whether *soon* has no more to offer than *now*."""
        return not self.snapshot.going and not self.transaction.unseated

    def find_places(self, asking: Asking, horizon: int, born: int) -> tuple[list[Place] | None, str]:
        """Places for what is asked, taken in the transaction; or the rule that it breaks wherever there is
        room. On a larger device a memory slice counts for less: there it may break none."""
        near, code = asking.entry.places, ""
        for found in asking.tries(self.pool):
            mark = self.transaction.mark()
            places = place(self.transaction, found.shape, asking.counts, horizon, born, near)
            code = "" if places is None else self._too_much(asking, places, horizon)
            if not code:
                return places, ""
            self.transaction.undo(mark)
        return None, code

    def _broken_rule(self, asking: Asking) -> str:
        """The rule that forbids it, as far as there are GPUs to forbid."""
        broken = asking.queue.breaks(asking.amount, self.capacity, SOON)
        return NO_FREE if broken == "reserved" and self.pool.free[SOON] < asking.amount else broken

    def _too_much(self, asking: Asking, places: list[Place], horizon: int) -> str:
        """The rule that is broken by where it is: a memory slice takes more of a small device than reckoned,
        and non-preemptible work may take too much of a type."""
        amount = sum(place.held for place in places)
        never = asking.entry.never and asking.minimum
        if never and not admits(self.tree, self.pool, asking.queue, held_by_type(places)):
            return NEVER_QUOTA
        if amount <= asking.amount:
            return ""
        if amount > asking.most:
            return OVER_QUOTA
        if never and amount > asking.queue.never_room():
            return NEVER_QUOTA
        return asking.queue.breaks(amount, self.capacity, SOON) or asking.queue.breaks(
            amount, self.capacity, horizon
        )

    def _why_no_place(self, asking: Asking) -> str:
        shape, pool = asking.shape, self.pool
        if max(pool.whole_free_of(group, shape.nodes, SOON) for group in shape.groups) * GPU >= asking.amount:
            return SCATTERED
        return (
            UNLIKE if pool.whole_free_of(shape.kinds, shape.nodes, SOON) * GPU >= asking.amount else NO_FREE
        )

    def idle_place(self, entry: Entry) -> bool:
        """Whether there is a place for it that is free now; it is taken for this cycle."""
        return self.find_places(self._asking(entry), NOW, 1)[0] is not None

    def could_seat(self, entry: Entry) -> bool:
        """Whether the job would get seats if it were the first in line."""
        return entry.waiting and any(self._try(entry, stage) == "" for stage in Stage)

    def reason_untried(self, entry: Entry) -> str:
        """Why a job is not worth trying at all, or comes behind one that took the last GPUs."""
        asking = self._asking(entry)
        if self._beyond_never(asking):
            return NEVER_QUOTA
        return self._broken_rule(asking) or self._why_no_place(asking)

    # ------------------------------------------------------------------------------- what time decides

    def guarded(self, entry: Entry) -> bool:
        """Whether a job's minimum has run too short to be taken by a request that is not inside quota."""
        until = entry.started_at + MINIMUM_RUN
        if until > self.now:
            self.wake(until)
            return True
        return False

    def impatient(self, entry: Entry) -> bool:
        """Whether a minimum has waited long enough to take surplus above quota."""
        since = max(entry.job.submitted_at, entry.job.ended_at or 0.0)
        if since + PATIENCE > self.now:
            self.wake(since + PATIENCE)
            return False
        return True

    def wake(self, at: float) -> None:
        """Decide again then."""
        if self.wake_at is None or at < self.wake_at:
            self.wake_at = at

    def wait_until(self, asking: Asking) -> float:
        """How long a request lets others finish their epochs before they have to make room."""
        return wait_until(asking, self.now) if self._patient else self.now

    def put_off_victims(self, taken: list[Piece], until: float) -> None:
        """Let these go on until then. Only if all of them give up everything, and to nobody else: what they
        leave would lie idle, or another would wait for it in vain."""
        if until > self.now and not any(p.entry.places or p.entry in self.victims for p in taken):
            self.put_off |= {piece.entry: until for piece in taken}
            self.wake(until)

    def note_victims(self, preemptor: Entry, taken: Iterable[Piece], moved: bool = False) -> None:
        self.newcomers.append(preemptor)
        for piece in taken:
            self.victims[piece.entry] = Victim(preemptor, moved)

    def idle(self) -> bool:
        """Whether it neither did nor planned anything, and would not but for where things are put: what is
        best for the usual mix of jobs may change with any job that comes."""
        shapes = (shape for leaf in self.tree.leaves for shape in leaf.line.shapes)
        return self.transaction.version == 0 and all(len(shape.parts) == 1 for shape in shapes)

    def close(self) -> None:
        """Leave the snapshot as it was."""
        self.transaction.undo(0)
        for node, last_start in reversed(self._last_starts):
            node.last_start = last_start
        self._last_starts.clear()
