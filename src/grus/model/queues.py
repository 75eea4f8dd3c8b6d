"""Queues: a tree of teams and projects, each with its deserved, reserved and maximum number of GPUs.

`quota` is the deserved number: a request inside it starts as soon as borrowed GPUs can be reclaimed.
`reserved` is the part of it that is never lent; `weight` shares the GPUs that the quotas leave; `limit` is
never exceeded.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from grus.model.errors import Mistake
from grus.model.identifiers import QueueName, UserName
from grus.model.jobs import Idle
from grus.model.resources import GPU
from grus.model.texts.plural_words import counted

ANY = "any"
"""Key in a quota by type: all types without a number of their own."""
DEFAULT_QUEUE = QueueName("default")


@dataclass(frozen=True, slots=True)
class Quota:
    """Deserved GPUs in micro-GPUs, by type; a plain number is all under `any`."""

    by_type: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, gpus: float | Mapping[str, float]) -> "Quota":
        """Return the quota from user input: a number of GPUs, or a number by type."""
        numbers = gpus if isinstance(gpus, Mapping) else {ANY: gpus}
        return cls(tuple(sorted((kind, round(number * GPU)) for kind, number in numbers.items())))

    @property
    def total(self) -> int:
        return sum(amount for _, amount in self.by_type)

    @property
    def typed(self) -> bool:
        """True if any type has a number of its own."""
        return any(kind != ANY for kind, _ in self.by_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Queue of a team or project. All amounts in micro-GPUs."""

    name: QueueName
    parent: QueueName | None = None
    quota: Quota = Quota()
    reserved: int = 0
    weight: float = 1.0
    limit: int | None = None
    nodes: tuple[str, ...] = ()
    """Nodes that only this branch may use."""
    members: tuple[UserName, ...] = ()
    """Users who may submit here; empty for everybody with the role of member."""
    max_priority: int = 125
    max_runtime: float | None = None
    dev_limit: float | None = None
    """Seconds that a development session may last here."""
    idle: Idle | None = None
    """Idle policy for its jobs, besides those that the jobs set themselves."""
    oversubscribe: bool = False
    """Its quota may exceed the pool; the guarantee of a start inside the quota is void then."""


SET_OVERSUBSCRIBE = "set oversubscribe: true"
"""Way out of quotas above the pool; the command line names its own option instead."""


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
        size = counted(gpus(pool or 0), "GPU")
        if pool is not None and quota > pool and not any(queue.oversubscribe for queue in children):
            rule = f"the quotas of {names} sum to {gpus(quota)}, but the pool has {size}"
            found.append(Mistake("queues", f"{rule}; lower them, or {SET_OVERSUBSCRIBE}"))
        if pool is not None and reserved > pool:
            rule = f"the reserved GPUs of {names} sum to {gpus(reserved)}, but the pool has {size}"
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
    """Return the pool size that a change of quotas is checked against.

    A pool that has shrunk removes no quota that was granted.
    """
    given = _quotas(before)
    return max(pool, given) if _quotas(after) <= given else pool


def _quotas(queues: Iterable[Queue]) -> int:
    top = [queue for queue in queues if queue.parent is None and queue.name != DEFAULT_QUEUE]
    # An administrator who grants more than the pool on purpose has to confirm it each time.
    return 0 if any(queue.oversubscribe for queue in top) else sum(queue.quota.total for queue in top)


def gpus(amount: int) -> str:
    """Micro-GPUs as people write them: 2, 0.5."""
    return f"{amount / GPU:.6f}".rstrip("0").rstrip(".")
