"""Scheduling cycle: one decision about the jobs to start, pause and resize now. Read `decide` first: it lists
the rules in order.

Everything is tried in a transaction on the snapshot; at the end the net difference is read off and everything
is undone. A plan that needs GPUs which other jobs have yet to leave holds them for this cycle and starts
nothing: the next cycles come to the same plan, until the GPUs are confirmed free.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from grus.model.resources import GPU
from grus.scheduler.decisions import Decisions
from grus.scheduler.elasticity.grow_into_spare_gpus import grow
from grus.scheduler.elasticity.rebalance_gpus import trade
from grus.scheduler.net_actions import difference
from grus.scheduler.placement.defragmentation import defragment
from grus.scheduler.placement.gang_placement import PLANNED, Place, held_by_type, place
from grus.scheduler.placement.heterogeneous_gpus import preferred_shapes
from grus.scheduler.placement.pack_shared_gpus import SharingDecision, fold, pack
from grus.scheduler.preempt.epoch_windows import wait_until
from grus.scheduler.preempt.node_drain import leave_drained
from grus.scheduler.preempt.preemption import make_room
from grus.scheduler.preempt.reclaim_eligibility import MINIMUM_RUN, PATIENCE, CapacityRequest, Piece, inside
from grus.scheduler.preempt.victim_candidates import shrink_step
from grus.scheduler.queues.admission_stage import (
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
    AllocationStage,
)
from grus.scheduler.queues.backfill_guard import Barriers
from grus.scheduler.queues.gang_reservation import Reservation, due_at, passes
from grus.scheduler.queues.gpu_type_quota import admits, admitted
from grus.scheduler.queues.nomination import awaited, behind_preemptor
from grus.scheduler.queues.ordering import Group, Key, RequestClass, Turn, giving_key
from grus.scheduler.queues.prefilter import hopeless, own_to_take, worth_asking
from grus.scheduler.queues.queue_usage_tree import UNLIMITED, QueueNode
from grus.scheduler.queues.user_limits import USER_LIMIT, frees_own
from grus.scheduler.state.job_entry import Entry
from grus.scheduler.state.node_capacity_index import NOW, SOON
from grus.scheduler.state.request_shapes import Shape
from grus.scheduler.state.snapshot import NoopDecision, Snapshot
from grus.scheduler.state.transaction import Transaction

OF_ONE_USER = (BEHIND_PREEMPTOR, USER_LIMIT)
"""Reasons that do not apply to other users with the same request."""


def decide(snapshot: Snapshot, now: float, *, patient: bool = True) -> Decisions:
    """Decide the next changes. The snapshot is left as it was. Without `patient` no job waits for others'
    epochs to end: this shows the final outcome.
    """
    snapshot.advance(now)
    if snapshot.still_settled(now) and snapshot.settled is not None:
        return Decisions(wake_at=snapshot.settled.wake_at)
    cycle = Cycle(snapshot, now, patient=patient)
    requeued = cycle.requeue_broken()  # 1. health: unhealthy devices take no work
    cycle.obey_sizes()
    leave_drained(cycle)
    cycle.share()
    decisions = difference(cycle, requeued)  # 7. with the reason of each
    if cycle.idle():
        snapshot.settled = NoopDecision(decisions.wake_at, snapshot.tree.shares)
    cycle.close()
    return decisions


class Victim(NamedTuple):
    """Victim of a preemption, with the reason."""

    preemptor: Entry
    moved: bool


class Cycle:
    """State of one decision: everything tried so far."""

    def __init__(self, snapshot: Snapshot, now: float, *, patient: bool = True) -> None:
        snapshot.advance(now)
        self._patient = patient
        self.snapshot = snapshot
        self.now = now
        self.pool = snapshot.pool
        self.tree = snapshot.tree
        self.capacity = max(snapshot.pool.capacity, snapshot.tree.root.claimed_below[NOW])
        """Upper bound of all claims together: the healthy pool, or the present claims if they are higher."""
        self.transaction = Transaction(snapshot)
        self.tree.share_out(snapshot.pool.capacity)
        self._by_type = preferred_shapes(self)
        """Requests that should try the types of GPU in a different order than usual."""
        self.started: dict[RequestClass, int] = {}
        """Number of served jobs of each class, in the order of the line."""
        self.seated: dict[QueueNode, int] = {}
        """Number of waiting jobs of each queue that got a placement."""
        self.newcomers: list[Entry] = []
        self.blocked: dict[Group, str] = {}
        """One reason for each group of equal requests that was tried in vain."""
        self.victims: dict[Entry, Victim] = {}
        self.put_off: dict[Entry, float] = {}
        """Victims that may finish their epochs first, and until when."""
        self.lodgings: dict[Entry, SharingDecision] = {}
        """Jobs that start to share a GPU."""
        self.parted: dict[Entry, str] = {}
        """Secondary jobs that may not stay, and jobs on drained nodes, with the reasons."""
        self.backfills: dict[Entry, float] = {}
        self.reservation: Reservation | None = None
        self._no_place: dict[Shape, tuple[int, str]] = {}
        """Shapes that found no place, and the amount freed by then."""
        self._in_vain: dict[tuple[QueueNode, Shape, int, AllocationStage], int] = {}
        """Requests that found nothing to take, and the amount freed by then."""
        self.victims_found: dict[QueueNode, tuple[int, bool]] = {}
        """Cache by queue: can it take the least that it waits for from others? With the version that the
        answer is for.
        """
        self._over_leaves: tuple[int, tuple[list[QueueNode], float, bool]] | None = None
        self._someone_behind = False
        self._first_gang: CapacityRequest | None = None
        """The first gang that was tried in vain; its reservation never delays requests inside quota."""
        self._barriers = Barriers()
        self.wake_at: float | None = snapshot.next_release()
        for entry in snapshot.backfilled.values():
            if entry.backfill_until is not None and entry.backfill_until > now:
                self.wake(entry.backfill_until)
        self._turns = 0
        self._last_starts: list[tuple[QueueNode, tuple[float, int]]] = []
        fold(self)  # secondary jobs on another's GPU have no part in the following steps

    def share(self) -> None:
        """Apply rules 2 to 4; placement (5) and victims (6) are inside each step."""
        self.give_nominated(by_quota=True)
        self.give(AllocationStage.INSIDE)  # 2. inside quota, by reclaim if need be,
        grow(self, by_quota=True)  #    growth of queues none of whose minima waits included
        self.give(AllocationStage.BRANCH)
        self.give_nominated(by_quota=False)
        self.give(AllocationStage.FAIR)  # 3. over quota: first within fair shares, then across them,
        self.give(AllocationStage.OVER)  # which would be taken back by later requests,
        if self._someone_behind:
            self.give(AllocationStage.OVER)  # and last those whose preemptors were tried in vain
        grow(self, by_quota=False)  # 4. spare GPUs to elastic jobs with the highest gain,
        trade(self)  # and trades between them if they pay
        pack(self)  # 5. two jobs on one GPU, if both allow it and it pays

    def over_leaves(self) -> tuple[list[QueueNode], float, bool]:
        """Return queues over quota, the highest held / share of any branch, and whether any of them has
        surplus.
        """
        if self._over_leaves is None or self._over_leaves[0] != self.transaction.version:
            leaves = [leaf for leaf in self.tree.leaves if leaf.over()]
            branches = {node for leaf in leaves for node in leaf.path[1:]}
            ratio = max((n.held[SOON] / n.exact if n.exact > 0 else UNLIMITED for n in branches), default=0.0)
            found = (leaves, ratio, any(leaf.surplus for leaf in leaves))
            self._over_leaves = (self.transaction.version, found)
        return self._over_leaves[1]

    # ------------------------------------------------------------------------------- rules 1 to 3

    def requeue_broken(self) -> list[Entry]:
        """Requeue jobs whose devices are gone or unhealthy; a later cycle places them again."""
        broken = sorted(self.snapshot.broken.values(), key=lambda entry: entry.age)
        for entry in broken:
            self.transaction.unseat(entry, entry.places)
        return broken

    def obey_sizes(self) -> None:
        """Shrink jobs that are larger than the size that was set for them."""
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

    def give(self, stage: AllocationStage) -> None:
        """Serve waiting jobs, always of the queue with the lowest ratio of holdings to deserved share."""
        if stage is AllocationStage.BRANCH and not self.tree.branches:
            return
        by_quota = stage <= AllocationStage.BRANCH
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

    def _serve(self, leaf: QueueNode, turn: Turn, stage: AllocationStage) -> bool:
        """Place the next job in line that can start; False if none can."""
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
            alone = code in OF_ONE_USER or not self._same_for_all(entry)
            turn.skip(found if alone else found.group)
            if code not in LATER and not alone:
                self.blocked[found.group] = code

    def _same_for_all(self, entry: Entry) -> bool:
        """Return whether the failure of this job applies to all with the same request: an older one may have
        waited long enough to take surplus.
        """
        return not self.over_leaves()[2] or self.impatient(entry)

    def give_nominated(self, by_quota: bool) -> None:
        """Serve nominated jobs, for which others made room, before the rest inside quota, if they are inside
        (and no more important job of their queue waits), or before the rest over quota: else the room was
        made in vain.
        """
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

    def _asking(self, entry: Entry) -> CapacityRequest:
        shape = self._by_type.get(entry, entry.shape)
        if entry.never:
            shape = admitted(self.tree, self.pool, entry.queue, shape)
        return CapacityRequest(entry, shape, shape.counts(), shape.minimum, minimum=True)

    def _beyond_never(self, asking: CapacityRequest) -> bool:
        """Return True if it is non-preemptible, and its queue's quota has no room for it, in all or of its
        types.
        """
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

    def _try(self, entry: Entry, stage: AllocationStage) -> str:
        """Place one waiting job; return "" on success, else the reason of the failure."""
        shape, queue = entry.shape, entry.queue
        asking = self._asking(entry)
        capped = entry.lacks_allowance(asking.amount, SOON)
        if capped and not frees_own(entry):
            return USER_LIMIT
        if self._beyond_never(asking):
            return NEVER_QUOTA
        if self._barriers.hold(self, asking):
            return BEHIND_GANG
        if behind_preemptor(self, entry) and not self._better_right(asking, stage):
            self._someone_behind = True
            return BEHIND_PREEMPTOR
        if stage is AllocationStage.BRANCH and not any(
            inside(n, asking, self.pool) for n in queue.path[1:-1]
        ):
            return OVER_QUOTA
        if stage is AllocationStage.FAIR and not queue.within_share(asking.amount):
            return OVER_SHARE
        if stage is AllocationStage.INSIDE:
            narrowed = self._inside_request(asking)
            if narrowed is None:
                if not capped:
                    self._barriers.put(self, asking)
                return OVER_QUOTA
            asking = narrowed
        code = self._seat_free(asking)
        if code == "":
            return ""
        if capped or code == USER_LIMIT:  # only jobs of the same user can make room
            return "" if make_room(self, asking) else USER_LIMIT
        vain = (queue, shape, entry.priority, stage)
        if self._in_vain.get(vain) == self.transaction.freed and not self.impatient(entry):
            return code
        if make_room(self, asking):
            return ""
        self._in_vain[vain] = self.transaction.freed
        if stage is AllocationStage.INSIDE and defragment(self, asking):
            return ""
        self._barriers.put(self, asking)
        if self._first_gang is None and shape.minimum > GPU and code in LACKS_GPUS:
            self._first_gang = asking
            if stage >= AllocationStage.FAIR:
                self.reservation = Reservation.make(self, asking)
        return code

    def _better_right(self, asking: CapacityRequest, stage: AllocationStage) -> bool:
        """Return whether it is inside quota, and the job that it made room for no longer is."""
        levels = asking.queue.path[-1:] if stage is AllocationStage.INSIDE else asking.queue.path[1:-1]
        if stage > AllocationStage.BRANCH or not any(inside(node, asking, self.pool) for node in levels):
            return False
        other = awaited(self, asking.entry)
        if other is None or other.never or self._inside_request(self._asking(other)) is not None:
            return False
        return not any(inside(node, self._asking(other), self.pool) for node in other.queue.path[1:-1])

    def has_reservation(self, asking: CapacityRequest) -> bool:
        """Return whether this gang may claim GPUs lent past it; asked only when a job was backfilled
        past it.
        """
        return bool(self.snapshot.backfilled) and due_at(self, asking) is not None

    def _inside_request(self, asking: CapacityRequest) -> CapacityRequest | None:
        """Return the request if it is inside its queue's quota (with a quota by type: limited to types that
        are).
        """
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

    def _seat_free(self, asking: CapacityRequest) -> str:
        """Place on GPUs that are free now, else plan on those that are free soon; the code says what prevents
        it.
        """
        entry, transaction = asking.entry, self.transaction
        broken = self._broken_rule(asking)
        if broken:
            return broken
        held = self.reservation
        if self.known_placeless(asking.shape) and (held is None or not passes(self, asking, held.due)):
            return self._no_place[asking.shape][1]
        code = ""
        for horizon, born in ((NOW, entry.generation + 1 if entry.running else 1), (SOON, PLANNED)):
            if horizon == NOW and entry.breaks(asking.amount, self.capacity, NOW):
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
        """Return whether *soon* has no more to offer than *now*."""
        return not self.snapshot.going and not self.transaction.unseated

    def find_places(self, asking: CapacityRequest, horizon: int, born: int) -> tuple[list[Place] | None, str]:
        """Return places for the request, taken in the transaction; or the rule that it breaks at every place
        with room. On a larger device a memory slice counts for less: there it may break none.
        """
        near, code = asking.entry.places, ""
        for found in asking.tries(self.pool):
            mark = self.transaction.mark()
            places = place(self.transaction, found.shape, asking.counts, horizon, born, near)
            code = "" if places is None else self._too_much(asking, places, horizon)
            if not code:
                return places, ""
            self.transaction.undo(mark)
        return None, code

    def _broken_rule(self, asking: CapacityRequest) -> str:
        """Return the rule that forbids it, as far as GPUs are concerned."""
        broken = asking.entry.breaks(asking.amount, self.capacity, SOON)
        return NO_FREE if broken == "reserved" and self.pool.free[SOON] < asking.amount else broken

    def _too_much(self, asking: CapacityRequest, places: list[Place], horizon: int) -> str:
        """Return the rule broken by its place: a memory slice takes more of a small device than expected, and
        non-preemptible work may take too much of a type.
        """
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
        return asking.entry.breaks(amount, self.capacity, SOON) or asking.entry.breaks(
            amount, self.capacity, horizon
        )

    def _why_no_place(self, asking: CapacityRequest) -> str:
        shape, pool = asking.shape, self.pool
        if max(pool.whole_free_of(group, shape.nodes, SOON) for group in shape.groups) * GPU >= asking.amount:
            return SCATTERED
        return (
            UNLIKE if pool.whole_free_of(shape.kinds, shape.nodes, SOON) * GPU >= asking.amount else NO_FREE
        )

    def idle_place(self, entry: Entry) -> bool:
        """Return whether there is a place for it that is free now; the place is taken for this cycle."""
        return self.find_places(self._asking(entry), NOW, 1)[0] is not None

    def could_seat(self, entry: Entry) -> bool:
        """Return whether the job would be placed if it were the first in line."""
        return entry.waiting and any(self._try(entry, stage) == "" for stage in AllocationStage)

    def reason_untried(self, entry: Entry) -> str:
        """Return the reason why a job is not worth trying at all, or comes behind one that took the last
        GPUs.
        """
        asking = self._asking(entry)
        if entry.lacks_allowance(asking.amount, SOON):
            return USER_LIMIT
        if self._beyond_never(asking):
            return NEVER_QUOTA
        return self._broken_rule(asking) or self._why_no_place(asking)

    # ------------------------------------------------------------------------------------- time limits

    def guarded(self, entry: Entry) -> bool:
        """Return whether a job's minimum has run too short to be taken by a request that is not inside
        quota.
        """
        until = entry.started_at + MINIMUM_RUN
        if until > self.now:
            self.wake(until)
            return True
        return False

    def impatient(self, entry: Entry) -> bool:
        """Return whether a minimum has waited long enough to take surplus above quota."""
        since = max(entry.job.submitted_at, entry.job.ended_at or 0.0)
        if since + PATIENCE > self.now:
            self.wake(since + PATIENCE)
            return False
        return True

    def wake(self, at: float) -> None:
        """Set the time of the next decision, if it is earlier."""
        if self.wake_at is None or at < self.wake_at:
            self.wake_at = at

    def wait_until(self, asking: CapacityRequest) -> float:
        """Return the time until which a request lets others finish their epochs before they must make
        room.
        """
        return wait_until(asking, self.now) if self._patient else self.now

    def put_off_victims(self, taken: list[Piece], until: float) -> None:
        """Let these run until then. Only if all of them give up everything, and no other job preempts them:
        otherwise the GPUs that they leave would idle, or another job would wait for them in vain.
        """
        if until > self.now and not any(p.entry.places or p.entry in self.victims for p in taken):
            self.put_off |= {piece.entry: until for piece in taken}
            self.wake(until)

    def note_victims(self, preemptor: Entry, taken: Iterable[Piece], moved: bool = False) -> None:
        self.newcomers.append(preemptor)
        for piece in taken:
            self.victims[piece.entry] = Victim(preemptor, moved)

    def idle(self) -> bool:
        """Return whether it neither did nor planned anything, and the result does not depend on the choice of
        nodes: the best choice for the usual mix of jobs may change with any new job.
        """
        shapes = (shape for leaf in self.tree.leaves for shape in leaf.line.shapes)
        return self.transaction.version == 0 and all(len(shape.parts) == 1 for shape in shapes)

    def close(self) -> None:
        """Restore the snapshot."""
        self.transaction.undo(0)
        for node, last_start in reversed(self._last_starts):
            node.last_start = last_start
        self._last_starts.clear()
