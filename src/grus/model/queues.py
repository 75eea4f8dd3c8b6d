"""Queues: a tree of teams and projects, each with its deserved, reserved and greatest number of GPUs.

`quota` is what a queue deserves: a request inside it starts as soon as borrowed GPUs can be taken back.
`reserved` is the part of it that is never lent; `weight` shares what the quotas leave;
`limit` is never passed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from grus.model.errors import Mistake
from grus.model.identifiers import QueueName, UserName
from grus.model.jobs import Idle
from grus.model.resources import GPU

ANY = "any"
"""In a quota by type: all types without a number of their own."""
DEFAULT_QUEUE = QueueName("default")


@dataclass(frozen=True, slots=True)
class Quota:
    """Deserved GPUs in micro-GPUs, by type; a plain number is all under `any`."""

    by_type: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, gpus: float | Mapping[str, float]) -> "Quota":
        """From what people write: a number of GPUs, or a number by type."""
        numbers = gpus if isinstance(gpus, Mapping) else {ANY: gpus}
        return cls(tuple(sorted((kind, round(number * GPU)) for kind, number in numbers.items())))

    @property
    def total(self) -> int:
        return sum(amount for _, amount in self.by_type)

    @property
    def typed(self) -> bool:
        """Whether any type has a number of its own."""
        return any(kind != ANY for kind, _ in self.by_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A team or project. All amounts in micro-GPUs."""

    name: QueueName
    parent: QueueName | None = None
    quota: Quota = Quota()
    reserved: int = 0
    weight: float = 1.0
    limit: int | None = None
    nodes: tuple[str, ...] = ()
    """Nodes that only this branch may use."""
    members: tuple[UserName, ...] = ()
    """Who may submit here; empty for everybody with the role of member."""
    max_priority: int = 125
    max_runtime: float | None = None
    dev_limit: float | None = None
    """Seconds that a development session may last here."""
    idle: Idle | None = None
    """What becomes of its jobs whose GPUs idle, besides what they ask for themselves."""
    oversubscribe: bool = False
    """Its quota may exceed what is there; the promise of a start inside quota is void then."""


def check_tree(queues: Iterable[Queue], pool: int | None) -> list[Mistake]:
    """Every rule that the tree of queues breaks; `pool` in micro-GPUs, None when not known yet."""
    by_name = {queue.name: queue for queue in queues}
    children: dict[QueueName | None, list[Queue]] = {}
    for queue in by_name.values():
        children.setdefault(queue.parent, []).append(queue)
    mistakes = [mistake for queue in by_name.values() for mistake in _check_one(queue, by_name)]
    if mistakes:
        return mistakes
    for parent, members in children.items():
        mistakes += _check_sums(by_name[parent] if parent else None, members, pool)
    return mistakes


def _check_one(queue: Queue, by_name: Mapping[QueueName, Queue]) -> list[Mistake]:
    at = f"queues.{queue.name}"
    found = []
    if queue.parent is not None and queue.parent not in by_name:
        found.append(Mistake(f"{at}.parent", "names no queue", queue.parent))
    if _has_cycle(queue, by_name):
        found.append(
            Mistake(f"{at}.parent", "makes a circle; a queue cannot be above itself", str(queue.parent))
        )
    if any(amount < 0 for _, amount in queue.quota.by_type):
        found.append(Mistake(f"{at}.quota", "must not be negative"))
    if queue.reserved < 0:
        found.append(Mistake(f"{at}.reserved", "must not be negative", gpus(queue.reserved)))
    if queue.reserved > queue.quota.total:
        rule = f"must be at most the quota, {gpus(queue.quota.total)}"
        found.append(Mistake(f"{at}.reserved", rule, gpus(queue.reserved)))
    if not queue.weight > 0:
        found.append(Mistake(f"{at}.weight", "must be above zero", str(queue.weight)))
    if queue.limit is not None and queue.limit < queue.quota.total:
        rule = f"must be at least the quota, {gpus(queue.quota.total)}"
        found.append(Mistake(f"{at}.limit", rule, gpus(queue.limit)))
    return found


def _has_cycle(queue: Queue, by_name: Mapping[QueueName, Queue]) -> bool:
    seen: set[QueueName] = set()
    at: Queue | None = queue
    while at is not None:
        if at.name in seen:
            return True
        seen.add(at.name)
        at = by_name.get(at.parent) if at.parent is not None else None
    return False


def _check_sums(parent: Queue | None, children: list[Queue], pool: int | None) -> list[Mistake]:
    """Children's quotas and reserved sum to at most their parent's (at the top: to the pool)."""
    found = []
    quota = sum(queue.quota.total for queue in children)
    reserved = sum(queue.reserved for queue in children)
    names = ", ".join(sorted(queue.name for queue in children))
    if parent is None:
        if pool is not None and quota > pool and not any(queue.oversubscribe for queue in children):
            rule = f"the quotas of {names} sum to {gpus(quota)}, but the pool has {gpus(pool)} GPUs"
            found.append(Mistake("queues", f"{rule}; lower them, or set oversubscribe: true"))
        if pool is not None and reserved > pool:
            rule = f"the reserved GPUs of {names} sum to {gpus(reserved)}, but the pool has {gpus(pool)} GPUs"
            found.append(Mistake("queues", rule))
        return found
    at = f"queues.{parent.name}"
    if quota > parent.quota.total and not parent.oversubscribe:
        rule = f"must be at least the sum of its children's ({names}), {gpus(quota)}"
        found.append(Mistake(f"{at}.quota", rule, gpus(parent.quota.total)))
    if reserved > parent.reserved:
        rule = f"must be at least the sum of its children's ({names}), {gpus(reserved)}"
        found.append(Mistake(f"{at}.reserved", rule, gpus(parent.reserved)))
    return found


def pool_of_quotas(pool: int, before: Iterable[Queue], after: Iterable[Queue]) -> int:
    """What a change of quotas is held against: a pool that has shrunk takes away nothing that was given."""
    given = _quotas(before)
    return max(pool, given) if _quotas(after) <= given else pool


def _quotas(queues: Iterable[Queue]) -> int:
    top = [queue for queue in queues if queue.parent is None and queue.name != DEFAULT_QUEUE]
    # Whoever gave more than there is on purpose has to say so each time.
    return 0 if any(queue.oversubscribe for queue in top) else sum(queue.quota.total for queue in top)


def gpus(amount: int) -> str:
    """Micro-GPUs as people write them: 2, 0.5."""
    return f"{amount / GPU:.6f}".rstrip("0").rstrip(".")
