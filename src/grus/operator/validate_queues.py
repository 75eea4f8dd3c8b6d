"""Queue validation. Pure: all GpuQueues + their use → the version in force of each, and its errors.

A queue that is invalid alone, or would break the tree, is not accepted: its last accepted version stays in
force. Changes that need each other (a parent and its child) are accepted in any order that works.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from grus.kubernetes.api_objects.gpu_queues import accepted_spec, read_queue, rooted
from grus.kubernetes.client.resource_kinds import Object
from grus.model.errors import BadInput, Mistake
from grus.model.identifiers import QueueName
from grus.model.queues import DEFAULT_QUEUE, Queue, check_tree
from grus.model.texts.plural_words import counted

Queues = dict[QueueName, Queue]


@dataclass(frozen=True, slots=True)
class QueueValidation:
    """About one object."""

    accepted: dict[str, Any] | None
    """The spec that counts; None for none."""
    mistakes: tuple[str, ...] = ()
    """Why the spec as it is does not; empty if it does."""


def judge(objects: Iterable[Object], in_use: Mapping[QueueName, int]) -> dict[str, QueueValidation]:
    """Return the verdict on each queue; `in_use` has the number of unfinished jobs of each."""
    found = {one["metadata"]["name"]: one for one in objects}
    counting = _counting(found.values())
    verdicts: dict[str, QueueValidation] = {}
    waiting: dict[str, Queue] = {}
    for name, one in sorted(found.items()):
        before = accepted_spec(one)
        spec = one.get("spec") or {}
        try:
            queue = read_queue(name, spec)
        except BadInput as error:
            verdicts[name] = QueueValidation(before, tuple(map(str, error.mistakes)))
            continue
        if counting.get(queue.name) == queue:
            verdicts[name] = QueueValidation(spec)
        else:
            waiting[name] = queue
    while taken := _take_one(waiting, counting, in_use):
        verdicts[taken] = QueueValidation(found[taken].get("spec") or {})
    for name, queue in waiting.items():
        mistakes = tuple(map(str, _broken(queue, counting, in_use)))
        verdicts[name] = QueueValidation(accepted_spec(found[name]), mistakes)
    return verdicts


def beyond_pool(queues: Iterable[Queue], pool: int) -> str:
    """Return by how much the top of the tree exceeds the pool, in words; "" if it does not."""
    tree = [queue for queue in queues if queue.name != DEFAULT_QUEUE]
    return "; ".join(mistake.rule for mistake in check_tree(tree, pool))


def leave(name: QueueName, objects: Iterable[Object], jobs: Iterable[str]) -> str:
    """Why a deleted queue stays for now; "" if it can go."""
    children = [one["metadata"]["name"] for one in objects if (one.get("spec") or {}).get("parent") == name]
    if children:
        return f"it has queues below it: {_list(children)}; it goes when they are deleted"
    users = list(jobs)
    if users:
        return f"it has jobs that have not ended: {_list(users)}; it goes when they have"
    return ""


def _counting(objects: Iterable[Object]) -> Queues:
    kept: Queues = {}
    for one in objects:
        spec = accepted_spec(one)
        if spec is None:
            continue
        try:
            kept[QueueName(one["metadata"]["name"])] = read_queue(one["metadata"]["name"], spec)
        except BadInput:
            continue
    return {queue.name: queue for queue in rooted(kept)}


def _take_one(waiting: dict[str, Queue], counting: Queues, in_use: Mapping[QueueName, int]) -> str:
    """Take the first that fits what counts already; its name, "" if none does."""
    for name, queue in waiting.items():
        if not _broken(queue, counting, in_use):
            counting[queue.name] = queue
            del waiting[name]
            return name
    return ""


def _broken(queue: Queue, counting: Queues, in_use: Mapping[QueueName, int]) -> list[Mistake]:
    if queue.name == DEFAULT_QUEUE and queue.parent is not None:
        return [Mistake("parent", "must be left out: the default queue is at the top", queue.parent)]
    if queue.parent == DEFAULT_QUEUE:
        return [Mistake("parent", "must not be the default queue", DEFAULT_QUEUE)]
    tree = {**counting, queue.name: queue}
    tree.pop(DEFAULT_QUEUE, None)
    mistakes = check_tree(tree.values(), None)
    branch = queue.parent is not None and any(other.parent == queue.parent for other in counting.values())
    if queue.parent is not None and not branch and in_use.get(queue.parent):
        rule = f"has {counted(in_use[queue.parent], 'unfinished job')} and so cannot have queues below it"
        mistakes.append(Mistake("parent", rule, queue.parent))
    return mistakes


def _list(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"
