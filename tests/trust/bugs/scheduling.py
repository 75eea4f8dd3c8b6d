"""Bugs of schedulers: what is counted wrongly, promised twice, given in parts or never taken back."""

from collections.abc import Callable, Iterable
from typing import Any

from grus.model import queues
from grus.model.errors import Mistake
from grus.model.identifiers import JobId
from grus.model.jobs import Job
from grus.model.nodes import Device
from grus.model.queues import Queue
from grus.model.resources import GPU
from grus.scheduler.cycle import Cycle
from grus.scheduler.placement import fractional_gpus, gang_placement
from grus.scheduler.placement.fragmentation import slice_share
from grus.scheduler.placement.gang_placement import Place
from grus.scheduler.preempt import victim_candidates
from grus.scheduler.preempt.reclaim_eligibility import Piece
from grus.scheduler.queues.queue_usage_tree import QueueNode
from grus.scheduler.state.job_entry import Entry
from grus.scheduler.state.node_capacity_index import NOW, SOON, DeviceState, NodeState
from grus.scheduler.state.request_shapes import RoleShape
from grus.scheduler.state.snapshot import Snapshot
from tests.trust.bugs.planting import SEEDS, Bug, Swap, always, issue
from tests.trust.bugs.planting import change as pull

REFERENCE = "tests/properties/test_core_machine.py"
"""Random histories against a naive model of the scheduler."""
TWICE = "victims_counted_twice"


def usage_never_counted_again(occupy: Any) -> Callable[[Snapshot, Entry, int], None]:
    """What a job once gave back while it ran is not counted when it has it again."""
    most: dict[JobId, int] = {}
    given_back: dict[JobId, int] = {}
    missing: dict[int, int] = {}

    def planted(self: Snapshot, entry: Entry, sign: int) -> None:
        occupy(self, entry, sign)
        if sign > 0:
            id_, held = entry.id, entry.held
            most[id_] = max(most.get(id_, 0), held)
            if entry.running:
                given_back[id_] = max(given_back.get(id_, 0), most[id_] - held)
            missing[id(entry)] = max(0, held - (most[id_] - given_back.get(id_, 0)))
        for horizon in (NOW, SOON):
            entry.queue.shift(-sign * missing.get(id(entry), 0), horizon)

    return planted


def victims_counted_twice(note_victims: Any) -> Callable[..., None]:
    """What a victim leaves is offered to the next preemptor of the same cycle as well."""

    def planted(self: Cycle, preemptor: Entry, taken: Iterable[Piece], moved: bool = False) -> None:
        pieces = list(taken)
        note_victims(self, preemptor, pieces, moved)
        for piece in pieces:
            for place in piece.places:
                for device in place.devices:
                    self.transaction.free_soon(device, place.share)
            piece.entry.queue.shift(-piece.amount, SOON)
            self.__dict__.setdefault(TWICE, []).append(piece)

    return planted


def victims_counted_back(close: Any) -> Callable[[Cycle], None]:
    """The cycle leaves the snapshot as it was, the bug only in what was decided."""

    def planted(self: Cycle) -> None:
        for piece in self.__dict__.pop(TWICE, []):
            piece.entry.queue.shift(piece.amount, SOON)
        close(self)

    return planted


def part_of_a_gang(part: Any) -> Callable[..., list[Place] | None]:
    """Where not all replicas of a role fit, as many as do are taken."""

    def planted(self: Any, index: int, numbers: list[int], near: tuple[Place, ...]) -> list[Place] | None:
        mark = self.transaction.mark()
        found: list[Place] | None = part(self, index, numbers, near)
        if found is not None or len(numbers) == 1:
            return found
        self.transaction.undo(mark)
        return planted(self, index, numbers[:-1], near)

    return planted


def sums_of_the_top_only(check_sums: Any) -> Callable[..., list[Mistake]]:
    def planted(parent: Queue | None, children: list[Queue], pool: int | None) -> list[Mistake]:
        return check_sums(parent, children, pool) if parent is None else []

    return planted


def only_full_queues_are_over_limit(_: Any) -> Callable[[QueueNode, int, int, int], str]:
    """Whether the limit is reached is asked, not whether the request would go beyond it."""

    def planted(self: QueueNode, amount: int, pool: int, horizon: int) -> str:
        if any(node.held[horizon] >= node.limit for node in self.path):
            return "limit"
        return "reserved" if self._claims_more(amount, pool, horizon) else ""

    return planted


def fractions_of_the_pool(_: Any) -> Callable[[Any, int], list[tuple[int, int, bool]]]:
    """A fraction is taken from what all devices of the kind have left together."""

    def planted(self: Any, share: int) -> list[tuple[int, int, bool]]:
        left = self._pool.partial[self._horizon][self._kind]
        together = sum(free * bits.bit_count() for free, bits in left.items())
        levels = [(0, free, False) for free in left if together >= share]
        for count, bits in enumerate(self._pool.whole[self._horizon][self._kind]):
            if count and bits & self._nodes:
                levels.append((1, GPU + count, True))
        return sorted(levels)

    return planted


def memory_of_the_largest(_: Any) -> Callable[[RoleShape, int], int]:
    """A slice by memory counts as its part of the largest device ever seen, wherever it is put."""
    largest = [0]

    def planted(part: RoleShape, device_memory: int) -> int:
        largest[0] = max(largest[0], device_memory)
        return slice_share(part, largest[0])

    return planted


def open_although_ill(init: Any) -> Callable[..., None]:
    def planted(self: DeviceState, index: int, device: Device, node: NodeState, kind: int) -> None:
        init(self, index, device, node, kind)
        self.open = not device.outside and not node.cordoned

    return planted


def end_without_a_look(put: Any) -> Callable[..., None]:
    """The end of a job wakes nobody who waits."""

    def planted(self: Snapshot, job: Job, blocked: str = "") -> None:
        settled = self.settled
        put(self, job, blocked)
        if job.terminal:
            self.settled = settled

    return planted


def held_for_ever(put: Any) -> Callable[..., None]:
    """What a job was leaving when it ended is never given back."""

    def planted(self: Snapshot, job: Job, blocked: str = "") -> None:
        known = self.entries.get(job.id)
        if known is not None and job.terminal and not job.seats:
            known.leaving = ()
        put(self, job, blocked)

    return planted


BUGS = (
    Bug(
        "stale-usage",
        "a queue's usage keeps what a job gave back subtracted after the job has it again",
        issue("kubernetes-sigs/kueue", 14609),
        (Swap(Snapshot, "_occupy", usage_never_counted_again),),
        (
            SEEDS,
            "tests/scheduler/queues/test_queue_usage_tree.py::test_what_was_given_back_counts_again_when_it_is_held_again",
        ),
    ),
    Bug(
        "double-victim",
        "one victim makes room for two preemptors of the same cycle",
        issue("kubernetes-sigs/kueue", 2596),
        (
            Swap(Cycle, "note_victims", victims_counted_twice),
            Swap(Cycle, "close", victims_counted_back),
        ),
        ("tests/scheduler/preempt/test_reclaim.py::test_each_of_two_requests_is_given_a_victim_of_its_own",),
    ),
    Bug(
        "lent-for-ever",
        "what was lent is not taken back for who is inside their quota",
        issue("kubernetes-sigs/kueue", 3948),
        (Swap(victim_candidates, "may_reclaim", always(False)),),
        (
            SEEDS,
            "tests/scheduler/placement/test_gang_placement.py::test_a_gang_inside_quota_is_served_by_reclaim_whole",
        ),
    ),
    Bug(
        "partial-gang",
        "a gang starts with fewer replicas than it needs",
        issue("volcano-sh/volcano", 1755),
        (Swap(gang_placement._GangSearch, "_part", part_of_a_gang),),
        (
            SEEDS,
            "tests/scheduler/placement/test_gang_placement.py::test_a_blocked_gang_is_passed_only_by_what_ends_before_its_reservation",
        ),
    ),
    Bug(
        "child-quota",
        "a queue may be given more quota than the one above it has",
        issue("kai-scheduler/KAI-Scheduler", 81),
        (Swap(queues, "_check_sums", sums_of_the_top_only),),
        ("tests/operator/test_validate_queues.py",),
        everywhere=False,
    ),
    Bug(
        "reserved-lent",
        "what is reserved for a queue is lent like the rest",
        issue("kubernetes-sigs/kueue", 1224),
        (Swap(QueueNode, "_claims_more", always(False)),),
        (
            SEEDS,
            "tests/scheduler/queues/test_queue_hierarchy.py::test_reserved_holds_at_every_level",
        ),
    ),
    Bug(
        "limit-by-growth",
        "a queue that is below its limit may be given more than is left up to it",
        issue("volcano-sh/volcano", 1860),
        (Swap(QueueNode, "breaks", only_full_queues_are_over_limit),),
        (
            SEEDS,
            "tests/scheduler/queues/test_queue_usage_tree.py::test_a_gang_that_would_cross_the_limit_waits_although_its_queue_is_below_it",
        ),
    ),
    Bug(
        "fraction-rounding",
        "fractions are fitted into the sum of what the devices have left, not into one device",
        issue("ray-project/ray", 5902),
        (Swap(fractional_gpus._DeviceSearch, "_levels", fractions_of_the_pool),),
        (
            SEEDS,
            "tests/scheduler/placement/test_fractional_gpus.py::test_what_two_gpus_have_left_together_is_no_place_for_a_slice",
        ),
    ),
    Bug(
        "memory-overcommit",
        "slices by memory are counted as if all devices were as large as the largest",
        issue("AliyunContainerService/gpushare-scheduler-extender", 219),
        (Swap(fractional_gpus, "slice_share", memory_of_the_largest),),
        (
            "tests/scheduler/placement/test_fractional_gpus.py::test_on_a_smaller_gpu_a_memory_slice_takes_more_of_it",
        ),
    ),
    Bug(
        "unhealthy-device",
        "a device that is known to be ill takes new work",
        pull("Project-HAMi/HAMi", 1336),
        (Swap(DeviceState, "__init__", open_although_ill),),
        (
            SEEDS,
            "tests/scheduler/test_health.py::test_unhealthy_devices_take_no_work",
        ),
    ),
    Bug(
        "lost-wake-up",
        "the end of a job is seen before those who wait for it are in line, and nobody looks again",
        issue("kubernetes/kubernetes", 72122),
        (Swap(Snapshot, "put", end_without_a_look),),
        (
            "tests/scheduler/placement/test_gang_placement.py::test_where_ends_are_unknown_the_reservation_starts_after_ten_minutes",
        ),
    ),
    Bug(
        "zombie-reservation",
        "what a job was leaving when it ended stays promised to it",
        issue("ray-project/ray", 64696),
        (Swap(Snapshot, "put", held_for_ever),),
        (
            SEEDS,
            "tests/controlplane/reconciler/test_loop.py::test_once_is_one_worker_with_all_gpus_and_per_node_one_a_node",
        ),
    ),
)
