"""Kubernetes queues: GpuQueue objects, read from memory, written to the cluster."""

import logging
import threading
from collections.abc import Callable

from grus.api.parsing.validation_errors import read
from grus.api.wire_types.pool import QueueIn, to_queue
from grus.kubernetes.client.api import Api, Object
from grus.kubernetes.client.errors import Conflicts, Exists, Invalid, Missing
from grus.kubernetes.client.informer import Reflector
from grus.kubernetes.client.resource_kinds import GPU_QUEUES
from grus.model.errors import BadInput, Mistake, NotFound, StoreFailed
from grus.model.jobs import Idle
from grus.model.queues import ANY, Queue
from grus.model.texts.units import gpu_number, render_percent
from grus.store import codec

TRIES = 10

log = logging.getLogger(__name__)


def form(queue: Queue) -> Object:
    """Return the spec of its object, as a user would write it."""
    by_type = {kind: gpu_number(amount) for kind, amount in queue.quota.by_type}
    wanted: Object = {
        "parent": queue.parent,
        "quota": by_type[ANY] if set(by_type) == {ANY} else by_type,
        "reserved": gpu_number(queue.reserved) or None,
        "weight": queue.weight,
        "limit": None if queue.limit is None else gpu_number(queue.limit),
        "nodes": list(queue.nodes) or None,
        "members": list(queue.members) or None,
        "max_priority": queue.max_priority,
        "max_runtime": queue.max_runtime,
        "dev_limit": queue.dev_limit,
        "idle": None if queue.idle is None else _idle(queue.idle),
        "oversubscribe": queue.oversubscribe or None,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _idle(one: Idle) -> Object:
    return {"below": render_percent(one.below), "for": one.seconds, "action": one.action}


def queue_of(item: Object) -> Queue:
    """Return the queue of an object. Raises BadInput if it breaks a rule that the cluster's schema cannot
    express.
    """
    spec = {name: value for name, value in item["spec"].items() if name in QueueIn.model_fields}
    return to_queue(item["metadata"]["name"], read(QueueIn, spec, whole="queue"))


class Queues:
    """Queues of a cluster. `on_change` is also called for changes by others."""

    def __init__(self, api: Api, on_change: Callable[[], None]) -> None:
        self._api = api
        self._on_change = on_change
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, Queue | None]] = {}
        """Last read version and the queue, by uid; None if it is no valid queue."""
        self._deleted: set[str] = set()
        """Uids of those deleted here, whose deletion the cluster has not reported yet."""
        self.reflector = Reflector(api, GPU_QUEUES, on_change=self._changed)

    def all(self) -> list[Queue]:
        """Return the queues by name. An invalid object is left out: its conditions say so."""
        with self._lock:
            there = [one for one in self.reflector.all() if one["metadata"]["uid"] not in self._deleted]
            found = [self._read(one) for one in there]
        return sorted((queue for queue in found if queue is not None), key=lambda queue: queue.name)

    def put(self, queue: Queue) -> None:
        codec.QUEUE.encode(queue)
        for _ in range(TRIES):
            try:
                self.reflector.note(self._put(queue))
                return
            except (Conflicts, Exists, Missing):  # it changed, came or went meanwhile
                continue
            except Invalid as error:
                raise BadInput([Mistake("queue", error.text, queue.name)]) from error
        raise StoreFailed(f"queue {queue.name} is being changed all the time; try again")

    def delete(self, name: str) -> None:
        try:
            item = self._api.get(GPU_QUEUES, name)
            self._api.delete(GPU_QUEUES, name, uid=item["metadata"]["uid"])
        except Missing as error:
            raise NotFound(f"there is no queue {name}") from error
        with self._lock:
            self._deleted.add(item["metadata"]["uid"])

    def close(self) -> None:
        self.reflector.close()

    def _put(self, queue: Queue) -> Object:
        try:
            item = self._api.get(GPU_QUEUES, queue.name)
        except Missing:
            return self._api.create(GPU_QUEUES, {"metadata": {"name": queue.name}, "spec": form(queue)})
        others = {name: value for name, value in item["spec"].items() if name not in QueueIn.model_fields}
        return self._api.replace(GPU_QUEUES, {**item, "spec": {**others, **form(queue)}})

    def _read(self, item: Object) -> Queue | None:
        uid, version = item["metadata"]["uid"], item["metadata"]["resourceVersion"]
        known = self._known.get(uid)
        if known is None or known[0] != version:
            known = self._known[uid] = version, self._judged(item)
        return known[1]

    def _judged(self, item: Object) -> Queue | None:
        try:
            return queue_of(item)
        except BadInput as error:
            log.warning("GpuQueue %s is not used: %s", item["metadata"]["name"], error)
            return None

    def _changed(self, what: str, item: Object) -> None:
        if what == "DELETED":
            with self._lock:
                self._deleted.discard(item["metadata"]["uid"])
                self._known.pop(item["metadata"]["uid"], None)
        self._on_change()
