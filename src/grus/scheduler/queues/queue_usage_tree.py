"""Queue tree: the holdings of each queue, and the rules that limit them: quota, reserved, limit.

Amounts are micro-GPUs. `held` is kept at both horizons of `pool_topology`: what is held now, leaving workers
included, and what will be held soon, plans included. A hard rule must be true at both before a start.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grus.model.identifiers import QueueName, UserName
from grus.model.queues import DEFAULT_QUEUE, Queue
from grus.model.resources import GPU
from grus.scheduler.queues.fairshare import Claim, fair_shares
from grus.scheduler.queues.ordering import WaitingLine
from grus.scheduler.state.node_capacity_index import NOW, SOON

if TYPE_CHECKING:
    from grus.scheduler.state.job_entry import Entry
    from grus.scheduler.state.snapshot import Snapshot

ROOT = QueueName("")
UNLIMITED = 1 << 60


class QueueNode:
    """Queue in the tree: its rules, its position, and what is held and waiting in it."""

    def __init__(self, queue: Queue, parent: "QueueNode | None") -> None:
        self.name = queue.name
        self.parent = parent
        self.path: tuple[QueueNode, ...] = (self,) if parent is None else (*parent.path, self)
        """Path from the root to this queue."""
        self.children: list[QueueNode] = []
        self.full_quota = queue.quota.total
        self.quota = self.full_quota
        """Effective quota: less than the full one while the healthy pool is smaller than their sum."""
        self.by_type = dict(queue.quota.by_type) if queue.quota.typed else None
        self.reserved = queue.reserved
        self.weight = queue.weight
        self.limit = UNLIMITED if queue.limit is None else queue.limit
        self.own_nodes = queue.nodes
        self.nodes = 0
        """Nodes that jobs of this queue may use, as bits."""
        self.held = [0, 0]
        self.claimed_below = [0, 0]
        """Total claim of the children (branches only)."""
        self.never_held = 0
        """Minima of non-preemptible jobs, soon."""
        self.never_by_type: dict[str, int] = {}
        """The same by type of GPU."""
        self.held_by_type: dict[str, int] = {}
        """Soon, kept for queues whose quota is by type."""
        self.surplus = 0
        """Holdings of elastic jobs above their minima, soon."""
        self.demand = 0
        """Maxima of running and startable jobs, except the minima of non-preemptible ones."""
        self.never_demand = 0
        self.stale = True
        """True if an input of `wanted` has changed."""
        self.wanted = 0
        """Demand: what it would hold if it could, and what is kept idle for its members; its share depends on
        it.
        """
        self.share = 0
        self.exact = 0.0
        self.last_start: tuple[float, int] = (0.0, 0)
        self.users: dict[UserName, int] = {}
        """Holdings of each user here, soon."""
        self._user_demand: dict[UserName, int] = {}
        """Maxima of the jobs of users with a limit of their own."""
        self.running: dict[str, Entry] = {}
        self.elastic: dict[str, Entry] = {}
        """Running jobs that have a range."""
        self.without_gpu = 0
        """Number of these that need no GPU to grow."""
        self.calm = -1
        """Version at which no job in it could gain by a trade."""
        self.priorities: dict[int, int] = {}
        """Number of running jobs of each priority."""
        self.version = 0
        """Version of its holdings: a new number after each change, the former one again after an undo."""
        self._versions = 0
        self.over_cache: tuple[tuple[int, int], list[Entry], int] | None = None
        self.line: WaitingLine = WaitingLine()

    def new_version(self) -> None:
        """Set a new version: its holdings differ from any earlier state."""
        self._versions += 1
        self.version = self._versions

    @property
    def leaf(self) -> bool:
        return not self.children

    def claimed(self, horizon: int) -> int:
        """Return what the queue keeps from others: its holdings, or its reservation if that is more."""
        below = self.claimed_below[horizon] if self.children else self.held[horizon]
        return max(self.reserved, below)

    def shift(self, amount: int, horizon: int) -> None:
        """Change the holdings of the queue, and with it of every branch above, at a horizon."""
        step = amount
        for node in reversed(self.path):
            node.held[horizon] += amount
            if node.children:
                node.claimed_below[horizon] += step
            if node.reserved:  # The unused part of a reservation counts as claimed already.
                below = node.claimed_below[horizon] if node.children else node.held[horizon]
                step = max(node.reserved, below) - max(node.reserved, below - step)

    def shift_never(self, amounts: Mapping[str, int]) -> None:
        """Change the minima of non-preemptible jobs, by type of GPU, here and in every branch above."""
        self.stale = True
        for node in self.path:
            for kind, amount in amounts.items():
                node.never_held += amount
                node.never_by_type[kind] = node.never_by_type.get(kind, 0) + amount

    def breaks(self, amount: int, pool: int, horizon: int) -> str:
        """Return the hard rule that would break if the queue held `amount` more: "limit", "reserved"
        or "".
        """
        for node in self.path:
            if node.held[horizon] + amount > node.limit:
                return "limit"
        if self._claims_more(amount, pool, horizon):
            return "reserved"
        return ""

    def _claims_more(self, amount: int, pool: int, horizon: int) -> bool:
        """Return whether all claims together would exceed the pool, or grow while they already do."""
        below = (self.claimed_below[horizon] if self.children else self.held[horizon]) + amount
        step = max(self.reserved, below) - self.claimed(horizon)
        node = self
        while step and node.parent is not None:
            parent = node.parent
            if parent.parent is None:
                return parent.claimed_below[horizon] + step > pool
            step = max(parent.reserved, parent.claimed_below[horizon] + step) - parent.claimed(horizon)
            node = parent
        return False

    def limited_demand(self, user: UserName, change: int, limit: int) -> int:
        """Count what jobs of a user with a limit could use; return the change of the queue's demand."""
        before = self._user_demand.get(user, 0)
        self._user_demand[user] = before + change
        return min(before + change, limit) - min(before, limit)

    def never_room(self) -> int:
        """Return how much more non-preemptible work the queue may hold, at the tightest level."""
        return min(node.quota - node.never_held for node in self.path if node.parent is not None)

    def within_share(self, amount: int) -> bool:
        """Return whether the queue, and every branch above it, would stay within its fair share
        rounded up.
        """
        return all(node.held[SOON] + amount <= node.share_rounded_up() for node in self.path[1:])

    def share_rounded_up(self) -> int:
        """Return the exact fair share in whole GPUs, rounded up: others cannot take by fairness from a queue
        below this.
        """
        return -(-int(self.exact) // GPU) * GPU

    def quota_room(self) -> int:
        """Return how much more the queue may hold inside its quota; negative when it is over."""
        return self.quota - self.held[SOON]

    def over(self) -> bool:
        """Return whether it holds more than its quota, in all or of a type that has a number of its own."""
        if self.held[SOON] > self.quota:
            return True
        return self.by_type is not None and any(
            held > self.typed_quota(kind) for kind, held in self.held_by_type.items()
        )

    def typed_quota(self, kind: str) -> int:
        """Return the part of an effective quota by type that is for this type."""
        assert self.by_type is not None
        full = self.by_type.get(kind, 0)
        return full * self.quota // self.full_quota if self.full_quota else 0

    def state(self) -> str:
        held = self.held[SOON]
        if held <= self.quota:
            return "in quota"
        return "over quota" if held <= self.share else "over fair share"


class Tree:
    """Tree of all queues. The root represents the pool; it has no rule of its own."""

    def __init__(self, queues: Iterable[Queue]) -> None:
        self.root = QueueNode(Queue(name=ROOT), None)
        self.by_name: dict[QueueName, QueueNode] = {ROOT: self.root}
        waiting = sorted(queues, key=lambda queue: queue.name)
        while waiting:
            ready = [queue for queue in waiting if (queue.parent or ROOT) in self.by_name]
            if not ready:
                names = ", ".join(queue.name for queue in waiting)
                raise ValueError(f"these queues have no way to the root: {names}")
            for queue in ready:
                parent = self.by_name[queue.parent or ROOT]
                node = QueueNode(queue, parent)
                parent.children.append(node)
                self.by_name[queue.name] = node
            waiting = [queue for queue in waiting if queue.name not in self.by_name]
        self.leaves = [node for node in self._walk(self.root) if node.leaf and node is not self.root]
        self.branches = [node for node in self.all() if not node.leaf]
        for horizon in (NOW, SOON):
            self._claim_reserved(self.root, horizon)
        self.typed = any(node.by_type is not None for node in self.all())
        """True if any quota is by type."""
        self.type_sets: tuple[frozenset[str], ...] | None = None
        """Cache of `gpu_type_quota.type_sets`."""
        self._shared_out = False
        """True if the present shares were computed for the present quotas."""
        self.shares = 0
        """Counter that grows when any fair share changes."""

    def _walk(self, node: QueueNode) -> Iterator[QueueNode]:
        yield node
        for child in node.children:
            yield from self._walk(child)

    def all(self) -> Iterator[QueueNode]:
        """Yield every queue but the root, parents before children."""
        for child in self.root.children:
            yield from self._walk(child)

    def _claim_reserved(self, node: QueueNode, horizon: int) -> None:
        for child in node.children:
            self._claim_reserved(child, horizon)
        if node.children:
            node.claimed_below[horizon] = sum(child.claimed(horizon) for child in node.children)

    def set_capacity(self, pool: int) -> None:
        """Compute the effective quotas for a healthy pool of that size."""
        self._shared_out = False
        for leaf in self.leaves:
            leaf.stale = True
        self._scale(self.root, pool)

    def _scale(self, parent: QueueNode, capacity: int) -> None:
        wanted = sum(child.full_quota for child in parent.children)
        kept = sum(child.reserved for child in parent.children)
        lendable = wanted - kept
        for child in parent.children:
            child.quota = child.full_quota
            if wanted > capacity and lendable > 0:
                rest = max(0, capacity - kept)
                child.quota = child.reserved + (child.full_quota - child.reserved) * rest // lendable
            self._scale(child, child.quota)

    def share_out(self, pool: int) -> None:
        """Compute the fair share of every queue, from the root down, if any demand has changed."""
        changed = not self._shared_out or pool != self.root.share
        for leaf in self.leaves:
            if leaf.stale:
                leaf.stale, before = False, leaf.wanted
                leaf.wanted = leaf_demand(leaf)
                changed = changed or leaf.wanted != before
        if not changed:
            return
        self._shared_out = True
        for branch in reversed(self.branches):  # children before their parents
            total = sum(max(child.wanted, child.reserved) for child in branch.children)
            branch.wanted = min(total, branch.limit)
        self.root.share = pool
        self._share(self.root)

    def _share(self, parent: QueueNode) -> None:
        claims = [Claim(child.quota, child.reserved, child.weight, child.wanted) for child in parent.children]
        for child, (exact, rounded) in zip(parent.children, fair_shares(claims, parent.share), strict=True):
            if (exact, rounded) != (child.exact, child.share):
                child.exact, child.share = exact, rounded
                self.shares += 1
            if child.children:
                self._share(child)


def leaf_demand(node: QueueNode) -> int:
    """Return the maxima of running and startable jobs, as far as the limit lets them; non-preemptible minima
    cannot start beyond quota, so beyond it they are no demand.
    """
    return min(node.demand + min(node.never_demand, max(node.quota, node.never_held)), node.limit)


@dataclass(frozen=True, slots=True)
class QueueState:
    """State of a queue for users: its rules, holdings and shares. Amounts in micro-GPUs."""

    name: QueueName
    parent: QueueName | None
    quota: int
    effective_quota: int
    reserved: int
    weight: float
    limit: int | None
    held: int
    borrowed: int
    demand: int
    fair_share: int
    exact_share: float
    waiting: int
    running: int
    state: str


def queue_states(snapshot: "Snapshot", now: float) -> list[QueueState]:
    """Return the state of every queue, parents before children."""
    snapshot.advance(now)
    tree = snapshot.tree
    tree.share_out(snapshot.pool.capacity)
    return [_state(node) for node in tree.all()]


def _state(node: QueueNode) -> QueueState:
    below = list(_leaves(node))
    return QueueState(
        name=node.name,
        parent=None if node.parent is None or node.parent.name == ROOT else node.parent.name,
        quota=node.full_quota,
        effective_quota=node.quota,
        reserved=node.reserved,
        weight=node.weight,
        limit=None if node.limit == UNLIMITED else node.limit,
        held=node.held[NOW],
        borrowed=max(0, node.held[NOW] - node.quota),
        demand=node.wanted,
        fair_share=node.share,
        exact_share=node.exact,
        waiting=sum(leaf.line.count for leaf in below),
        running=sum(len(leaf.running) for leaf in below),
        state=node.state(),
    )


def _leaves(node: QueueNode) -> Iterator[QueueNode]:
    if node.leaf:
        yield node
    for child in node.children:
        yield from _leaves(child)


def default_queue(others: Iterable[Queue], pool: int) -> Queue:
    """Return the queue that always exists; its quota is the rest that the others leave."""
    from grus.model.queues import Quota

    taken = sum(queue.quota.total for queue in others if queue.parent is None)
    return Queue(name=DEFAULT_QUEUE, quota=Quota.of(max(0, pool - taken) / GPU))
