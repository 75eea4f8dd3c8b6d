"""The tree of queues as a page prints it: words, numbers, and bars in thousandths of a common scale. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from grus.model.identifiers import QueueName
from grus.model.queues import Queue
from grus.model.resources import GPU
from grus.model.texts.plural_words import counted
from grus.model.texts.units import gpu_number, render_seconds
from grus.scheduler.queues.queue_usage_tree import QueueState

FULL = 1000
"""Length of a bar."""
BADGES = {
    "in quota": "plain badge-running",
    "over quota": "plain badge-pending",
    "over fair share": "plain badge-failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Bar of a queue. Places and lengths from 0 to `FULL`; None if there is nothing to draw."""

    quota: int
    held: int
    """The held part within the quota."""
    borrowed: int
    """The part after the quota."""
    reserved: int | None
    share: int
    limit: int | None
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTableRow:
    """A queue."""

    name: str
    depth: int
    rules: str
    """Other settings, in words."""
    state: str
    badge: str
    held: str
    quota: str
    reserved: str
    borrowed: str
    share: str
    limit: str
    wanted: str
    running: str
    waiting: str
    bar: Bar


def rows(queues: Sequence[Queue], states: Iterable[QueueState]) -> list[QueueTableRow]:
    """Every queue that has figures, those below another right after it."""
    by_name = {state.name: state for state in states}
    below: dict[QueueName | None, list[Queue]] = {}
    for queue in sorted(queues, key=lambda queue: queue.name):
        if queue.name in by_name:
            below.setdefault(queue.parent, []).append(queue)
    scale = _scale(by_name)
    found: list[QueueTableRow] = []
    waiting = [(queue, 0) for queue in reversed(below.get(None, ()))]
    while waiting:
        queue, depth = waiting.pop()
        found.append(_row(queue, by_name[queue.name], depth, scale))
        waiting += [(child, depth + 1) for child in reversed(below.get(queue.name, ()))]
    return found


def _scale(states: Mapping[QueueName, QueueState]) -> int:
    """Micro-GPUs of a full bar: the most that any queue has of anything but its limit."""
    most = [max(one.held, one.quota, one.reserved, one.fair_share) for one in states.values()]
    return max([GPU, *most])


def _row(queue: Queue, state: QueueState, depth: int, scale: int) -> QueueTableRow:
    return QueueTableRow(
        name=queue.name,
        depth=depth,
        rules=_rules(queue),
        state=state.state,
        badge=BADGES.get(state.state, ""),
        held=_gpus(state.held),
        quota=_quota(state),
        reserved=_gpus(state.reserved) if state.reserved else "–",
        borrowed=_gpus(state.borrowed) if state.borrowed else "–",
        share=_gpus(state.fair_share),
        limit="–" if state.limit is None else _gpus(state.limit),
        wanted=_gpus(state.demand),
        running=f"{state.running:,}",
        waiting=f"{state.waiting:,}",
        bar=_bar(state, scale),
    )


def _quota(state: QueueState) -> str:
    """Return the quota as it was set, and its effective value while too few GPUs are healthy."""
    if state.effective_quota == state.quota:
        return _gpus(state.quota)
    return f"{_gpus(state.effective_quota)} of {_gpus(state.quota)}"


def _rules(queue: Queue) -> str:
    told = []
    if queue.weight != 1:
        told.append(f"weight {queue.weight:g}")
    if queue.quota.typed:
        told.append(", ".join(f"{kind} {gpu_number(amount)}" for kind, amount in queue.quota.by_type))
    if queue.members:
        told.append(f"for {', '.join(queue.members)}")
    if queue.nodes:
        told.append(f"has {', '.join(queue.nodes)} to itself")
    if queue.max_runtime is not None:
        told.append(f"jobs up to {render_seconds(queue.max_runtime)}")
    if queue.dev_limit is not None:
        told.append(f"sessions up to {render_seconds(queue.dev_limit)}")
    if queue.oversubscribe:
        told.append("may promise more than there is")
    return " · ".join(told)


def _bar(state: QueueState, scale: int) -> Bar:
    def place(amount: int) -> int:
        return min(FULL, round(FULL * amount / scale))

    within = place(state.held - state.borrowed)
    limit = None if state.limit is None or state.limit > scale else place(state.limit)
    return Bar(
        quota=place(state.effective_quota),
        held=within,
        borrowed=place(state.held) - within,
        reserved=place(state.reserved) if state.reserved else None,
        share=place(state.fair_share),
        limit=limit,
        label=f"holds {counted(_gpus(state.held), 'GPU')} of a quota of {_gpus(state.effective_quota)}, "
        f"{_gpus(state.borrowed)} of them borrowed; fair share {_gpus(state.fair_share)}",
    )


def _gpus(amount: int) -> str:
    return f"{gpu_number(amount):,}"
