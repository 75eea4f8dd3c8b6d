"""Counters of a running simulation: the pool's time, the length of the queue, broken guarantees."""

from grus.model.resources import GPU
from grus.scheduler.decisions import Decisions, Resize, Start
from grus.scheduler.queues.queue_usage_tree import QueueNode
from grus.scheduler.state.node_capacity_index import NOW, Pool
from grus.scheduler.state.snapshot import Snapshot
from grus.simulator.events.run_results import Moment


class Ledger:
    """Sums over time. `pass_to` is called before anything of the next moment happens."""

    def __init__(self, snapshot: Snapshot, begin: float, history: bool) -> None:
        self._snapshot = snapshot
        self._at = begin
        self._pool: Pool | None = None
        self._empty: list[list[int]] = []
        """Bit sets of the nodes that have so many devices, by kind and number of devices."""
        self._claimed = 0
        self._history = history
        self.offered = 0.0
        self.idle = 0.0
        self.scattered = 0.0
        self.longest_queue = 0
        self.violations: list[str] = []
        self.moments: list[Moment] = []

    def pass_to(self, moment: float, waiting: int) -> None:
        """The pool was as it is now until this moment."""
        if waiting > self.longest_queue:
            self.longest_queue = waiting
        seconds = moment - self._at
        if seconds <= 0.0:
            return
        pool = self._snapshot.pool
        if pool is not self._pool:
            self._learn(pool)
        self.offered += pool.capacity // GPU * seconds
        if pool.free[NOW] >= GPU:
            idle, scattered = self._free_gpus(pool)
            self.idle += idle * seconds
            self.scattered += scattered * seconds
        if self._history:
            held = self._snapshot.tree.root.held[NOW] / GPU
            self.moments.append(Moment(self._at, held, waiting))
        self._at = moment

    def _learn(self, pool: Pool) -> None:
        self._pool = pool
        self._empty = [[0] * len(counts) for counts in pool.whole[NOW]]
        for node in pool.nodes:
            for kind in range(len(pool.kinds)):
                self._empty[kind][sum(device.kind == kind for device in node.devices)] |= node.bit

    def _free_gpus(self, pool: Pool) -> tuple[int, int]:
        """Whole GPUs that are free, and those of them on nodes that somebody else uses partly."""
        free = scattered = 0
        for counts, empty in zip(pool.whole[NOW], self._empty, strict=True):
            for count in range(1, len(counts)):
                nodes = counts[count]
                if nodes:
                    free += count * nodes.bit_count()
                    scattered += count * (nodes & ~empty[count]).bit_count()
        return free, scattered

    def judge(self, decisions: Decisions) -> None:
        """Note every hard rule that is broken after these decisions were carried out."""
        tree, claimed = self._snapshot.tree, self._snapshot.tree.root.claimed_below[NOW]
        taking = [action for action in decisions.actions if isinstance(action, Start | Resize)]
        if taking and claimed > max(self._snapshot.pool.capacity, self._claimed):
            self.violations.append(f"{claimed / GPU:g} GPUs are held or reserved, more than the pool has")
        self._claimed = claimed
        seen: set[QueueNode] = set()
        for action in taking:
            entry = self._snapshot.entries[action.job]
            for queue in entry.queue.path:
                if queue is tree.root or queue in seen:
                    continue
                seen.add(queue)
                if queue.held[NOW] > queue.limit:
                    self.violations.append(
                        f"{queue.name} holds {queue.held[NOW] / GPU:g} GPUs, over its limit"
                    )
            if entry.never and isinstance(action, Start):
                self._judge_never(entry.queue)

    def _judge_never(self, queue: QueueNode) -> None:
        for level in queue.path[1:]:
            if level.never_held > level.full_quota:
                held = level.never_held / GPU
                self.violations.append(
                    f"never-preempted jobs of {level.name} hold {held:g} GPUs, over its quota"
                )
