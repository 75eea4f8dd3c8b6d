"""Adding, changing and deleting queues: what an administrator may, and what the tree and its jobs allow."""

from grus.controlplane import access, pool
from grus.controlplane.loop import ControlLoop
from grus.model.errors import BadInput, Conflict, Mistake, NotFound
from grus.model.identifiers import QueueName
from grus.model.jobs import TERMINAL, Job, Phase
from grus.model.ports import Store, User
from grus.model.queues import DEFAULT_QUEUE, Queue, Quota, check_tree, gpus, pool_of_quotas


class QueueChanges:
    """One a server, for any thread."""

    def __init__(self, store: Store, loop: ControlLoop) -> None:
        self._store = store
        self._loop = loop

    def put(self, user: User, queue: Queue) -> Queue:
        access.require_admin(user, "add or change queues")
        nodes, before = self._loop.picture.nodes, self._store.queues()
        known = {other.name: other for other in before} | {queue.name: queue}
        tree = [other for other in known.values() if other.name != DEFAULT_QUEUE]
        mistakes = check_tree(tree, pool_of_quotas(pool.size(nodes), before, tree))
        if queue.parent == DEFAULT_QUEUE:
            mistakes = [
                Mistake(f"queues.{queue.name}.parent", "must not be the default queue", DEFAULT_QUEUE)
            ]
        made = {one.name: one for one in pool.with_default(known.values(), pool.size(nodes))}[queue.name]
        if queue.name == DEFAULT_QUEUE and queue.quota not in (Quota(), made.quota):
            rule = (
                f"is what the other queues leave, {gpus(made.quota.total)} now; set theirs, or leave it out"
            )
            mistakes = [Mistake(f"queues.{queue.name}.quota", rule, gpus(queue.quota.total))]
        if mistakes:
            raise BadInput(mistakes)
        if queue.parent is not None and (jobs := self._unfinished(queue.parent)):
            raise Conflict(f"queue {queue.parent} has jobs and so cannot have queues below it: {_list(jobs)}")
        self._store.put_queue(queue).result()
        self._loop.refresh()
        return made

    def delete(self, user: User, name: QueueName) -> None:
        access.require_admin(user, "delete queues")
        if name == DEFAULT_QUEUE:
            raise Conflict("the default queue takes what names no queue, and cannot be deleted")
        queues = self._store.queues()
        if all(queue.name != name for queue in queues):
            raise NotFound(f"there is no queue {name}")
        if children := [queue.name for queue in queues if queue.parent == name]:
            raise Conflict(f"queue {name} has queues below it: {', '.join(children)}; delete them first")
        if jobs := self._unfinished(name):
            raise Conflict(f"queue {name} has jobs that have not ended: {_list(jobs)}; stop them first")
        self._store.delete_queue(name).result()
        self._loop.refresh()

    def _unfinished(self, queue: QueueName) -> list[Job]:
        phases = [phase for phase in Phase if phase not in TERMINAL]
        return self._store.jobs(phases=phases, queue=queue)


def _list(jobs: list[Job]) -> str:
    shown = ", ".join(job.id for job in jobs[:10])
    return shown if len(jobs) <= 10 else f"{shown} and {len(jobs) - 10} more"
