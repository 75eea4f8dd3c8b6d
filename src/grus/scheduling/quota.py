"""The tree of queues with what each holds, and the rules that bound it: quota, reserved, limit.

Amounts are micro-GPUs. `held` is kept at both horizons of `topology`: what is held now, leaving workers
included, and what will be held soon, plans included. A hard rule must be true at both before a start.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grus.model.identifiers import QueueName, UserName
from grus.model.queues import DEFAULT_QUEUE, Queue
from grus.model.resources import GPU
from grus.scheduling.fair_share import Claim, fair_shares
from grus.scheduling.ordering import WaitingLine
from grus.scheduling.topology import NOW, SOON

if TYPE_CHECKING:
    from grus.scheduling.entry import Entry
    from grus.scheduling.snapshot import Snapshot

ROOT = QueueName("")
UNLIMITED = 1 << 60


class QueueNode:
    """One queue: its rules, its place in the tree, and what is held and waiting in it."""

    def __init__(self, queue: Queue, parent: "QueueNode | None") -> None:
        self.name = queue.name
        self.parent = parent
        self.path: tuple[QueueNode, ...] = (self,) if parent is None else (*parent.path, self)
        """From the root to this queue."""
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
        """What the children claim together (branches only)."""
        self.never_held = 0
        """Minima of never-preempted jobs, soon."""
        self.never_by_type: dict[str, int] = {}
        """The same by type of GPU."""
        self.held_by_type: dict[str, int] = {}
        """Soon, kept for queues whose quota is by type."""
        self.surplus = 0
        """What elastic jobs hold above their minima, soon."""
        self.demand = 0
        """Maxima of running and startable jobs, but for the minima of never-preempted ones."""
        self.never_demand = 0
        self.stale = True
        """Whether something has changed that `wanted` depends on."""
        self.wanted = 0
        """What it would hold if it could, and what is kept idle for its members; its share depends on it."""
        self.share = 0
        self.exact = 0.0
        self.last_start: tuple[float, int] = (0.0, 0)
        self.users: dict[UserName, int] = {}
        """What each user holds here, soon."""
        self.running: dict[str, Entry] = {}
        self.elastic: dict[str, Entry] = {}
        """Those of the running jobs that have a range."""
        self.without_gpu = 0
        """How many of these need no GPU to grow."""
        self.calm = -1
        """The version at which nobody in it had anything to gain by a trade."""
        self.priorities: dict[int, int] = {}
        """How many of the running jobs have each priority."""
        self.version = 0
        """Names what its jobs hold: a new number after each change, the former one again after an undo."""
        self._versions = 0
        self.over_cache: tuple[tuple[int, int], list[Entry], int] | None = None
        self.line: WaitingLine = WaitingLine()

    def new_version(self) -> None:
        """Its jobs hold something else from now on: a state that had no name before."""
        self._versions += 1
        self.version = self._versions

    @property
    def leaf(self) -> bool:
        return not self.children

    def claimed(self, horizon: int) -> int:
        """What the queue keeps from others: what it holds, or what is reserved for it if that is more."""
        below = self.claimed_below[horizon] if self.children else self.held[horizon]
        return max(self.reserved, below)

    def shift(self, amount: int, horizon: int) -> None:
        """Change what the queue, and with it every branch above, holds at a horizon."""
        step = amount
        for node in reversed(self.path):
            node.held[horizon] += amount
            if node.children:
                node.claimed_below[horizon] += step
            if node.reserved:  # As far as it is not used, what is reserved is claimed already.
                below = node.claimed_below[horizon] if node.children else node.held[horizon]
                step = max(node.reserved, below) - max(node.reserved, below - step)

    def shift_never(self, amounts: Mapping[str, int]) -> None:
        """Change the minima of never-preempted jobs, by type of GPU, here and in every branch above."""
        self.stale = True
        for node in self.path:
            for kind, amount in amounts.items():
                node.never_held += amount
                node.never_by_type[kind] = node.never_by_type.get(kind, 0) + amount

    def breaks(self, amount: int, pool: int, horizon: int) -> str:
        """Which hard rule would break if the queue held `amount` more: "limit", "reserved" or ""."""
        for node in self.path:
            if node.held[horizon] + amount > node.limit:
                return "limit"
        if self._claims_more(amount, pool, horizon):
            return "reserved"
        return ""

    def _claims_more(self, amount: int, pool: int, horizon: int) -> bool:
        """Whether all claims together would exceed the pool, or grow while they already do."""
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

    def never_room(self) -> int:
        """How much more never-preempted work the queue may hold, at the tightest level."""
        return min(node.quota - node.never_held for node in self.path if node.parent is not None)

    def within_share(self, amount: int) -> bool:
        """Whether the queue, and every branch above it, would stay within its fair share rounded up."""
        return all(node.held[SOON] + amount <= node.share_rounded_up() for node in self.path[1:])

    def share_rounded_up(self) -> int:
        """The exact fair share in whole GPUs, rounded up: nobody takes by fairness from one below this."""
        return -(-int(self.exact) // GPU) * GPU

    def quota_room(self) -> int:
        """How much more the queue may hold inside its quota; negative when it is over."""
        return self.quota - self.held[SOON]

    def over(self) -> bool:
        """Whether it holds more than its quota, in all or of a type that has a number of its own."""
        if self.held[SOON] > self.quota:
            return True
        return self.by_type is not None and any(
            held > self.typed_quota(kind) for kind, held in self.held_by_type.items()
        )

    def typed_quota(self, kind: str) -> int:
        """The part of an effective quota by type that is for this type."""
        assert self.by_type is not None
        full = self.by_type.get(kind, 0)
        return full * self.quota // self.full_quota if self.full_quota else 0

    def state(self) -> str:
        held = self.held[SOON]
        if held <= self.quota:
            return "in quota"
        return "over quota" if held <= self.share else "over fair share"


class Tree:
    """All queues. The root stands for the pool; it has no rule of its own."""

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
        """Kept for `typed_quota.type_sets`."""
        self._shared_out = False
        """Whether the present shares were worked out for the present quotas."""
        self.shares = 0
        """Grows when any fair share changes."""

    def _walk(self, node: QueueNode) -> Iterator[QueueNode]:
        yield node
        for child in node.children:
            yield from self._walk(child)

    def all(self) -> Iterator[QueueNode]:
        """Every queue but the root, parents before children."""
        for child in self.root.children:
            yield from self._walk(child)

    def _claim_reserved(self, node: QueueNode, horizon: int) -> None:
        for child in node.children:
            self._claim_reserved(child, horizon)
        if node.children:
            node.claimed_below[horizon] = sum(child.claimed(horizon) for child in node.children)

    def set_capacity(self, pool: int) -> None:
        """Work out the effective quotas for a healthy pool of that size."""
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
        """Work out the fair share of every queue, from the root down, if anybody wants more or less."""
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
    """Maxima of running and startable jobs, as far as the limit lets them; never-preempted minima cannot
    start beyond quota, so beyond it they are no demand."""
    return min(node.demand + min(node.never_demand, max(node.quota, node.never_held)), node.limit)


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue for people: its rules and where it stands. Amounts in micro-GPUs."""

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
    """Every queue as it stands, parents before children."""
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
    """The queue that always exists; its quota is what the others leave."""
    from grus.model.queues import Quota

    taken = sum(queue.quota.total for queue in others if queue.parent is None)
    return Queue(name=DEFAULT_QUEUE, quota=Quota.of(max(0, pool - taken) / GPU))
