"""Queues: their use and settings; add, change and delete them, with the rules about rights, the tree and its
jobs.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from grus.controlplane import cluster_view
from grus.controlplane.reconciler.loop import ControlLoop
from grus.controlplane.security import audit_records, rbac
from grus.controlplane.visibility import JobVisibility
from grus.model.errors import BadInput, Conflict, Mistake, NotFound
from grus.model.identifiers import QueueName, UserName
from grus.model.interfaces import QUEUES, USERS, Store, User
from grus.model.jobs import TERMINAL, Job, Phase
from grus.model.queues import DEFAULT_QUEUE, Queue, Quota, check_tree, gpus, pool_of_quotas
from grus.scheduler.queues.queue_usage_tree import QueueState, queue_states


@dataclass(eq=False)
class QueueAdmin:
    """One a server, for any thread."""

    _store: Store
    _loop: ControlLoop
    _visible: JobVisibility
    _clock: Callable[[], float]
    _own_users: bool
    """Members must be users of this server; in a cluster its own API knows the users."""
    _changing: threading.RLock = field(default_factory=threading.RLock)
    """Held while the rules of the tree are checked and the change is written."""

    def states(self, user: User) -> list[QueueState]:
        """Return the metrics of every queue that this user may use, and of those above them."""
        seen = self._visible.queues(user)
        with self._loop.snapshot() as snapshot:
            states = queue_states(snapshot, self._clock())
        return [state for state in states if state.name in seen]

    def settings(self, user: User) -> list[Queue]:
        """Return the settings of the same queues, the default one with the rest that the others leave."""
        seen = self._visible.queues(user)
        return [queue for queue in self._loop.picture.queues if queue.name in seen]

    def put(self, user: User, queue: Queue) -> Queue:
        rbac.require_admin(user, "add or change queues")
        with self._changing:
            return self._put(user, queue)

    def set_member(self, user: User, name: QueueName, member: UserName, wanted: bool) -> Queue:
        """Add one member, or remove one; the others stay. Raises NotFound, BadInput or Conflict."""
        rbac.require_admin(user, "change the members of queues")
        with self._changing:
            queue = self._stored(name)
            if wanted == (member in queue.members):
                if wanted:
                    return queue
                raise NotFound(f"{member} is not a member of queue {name}")
            if not wanted and len(queue.members) == 1:
                raise Conflict(
                    f"{member} is the last member of queue {name}; without members it would be open to all; "
                    f"`grus queue set {name} --member none` opens it"
                )
            others = tuple(one for one in queue.members if one != member)
            return self._put(user, replace(queue, members=(*others, member) if wanted else others))

    def _stored(self, name: QueueName) -> Queue:
        """Return the queue as it was set; the default queue without a quota, which is the rest that the
        others leave.
        """
        found = next((one for one in self._store.find(QUEUES) if one.name == name), None)
        if name == DEFAULT_QUEUE:
            return Queue(name=DEFAULT_QUEUE) if found is None else replace(found, quota=Quota())
        if found is None:
            raise NotFound(f"there is no queue {name}")
        return found

    def require_other_members(self, member: UserName) -> None:
        """Raise Conflict if a queue would be open to all without this member."""
        alone = [queue.name for queue in self._store.find(QUEUES) if queue.members == (member,)]
        if alone:
            raise Conflict(
                f"{member} is the only member of {', '.join(alone)}; without members a queue is open to all. "
                f"Add another (`grus queue add-member {alone[0]} NAME`), or open it "
                f"(`grus queue set {alone[0]} --member none`), then delete the user"
            )

    def forget_member(self, user: User, member: UserName) -> None:
        """Remove a user from all queues. Raises Conflict for the last member of one."""
        with self._changing:
            for queue in self._store.find(QUEUES):
                if member in queue.members:
                    self.set_member(user, queue.name, member, wanted=False)

    def _put(self, user: User, queue: Queue) -> Queue:
        nodes, before = self._loop.picture.nodes, self._store.find(QUEUES)
        known = {other.name: other for other in before} | {queue.name: queue}
        tree = [other for other in known.values() if other.name != DEFAULT_QUEUE]
        mistakes = check_tree(tree, pool_of_quotas(cluster_view.size(nodes), before, tree))
        if queue.parent == DEFAULT_QUEUE:
            mistakes = [
                Mistake(f"queues.{queue.name}.parent", "must not be the default queue", DEFAULT_QUEUE)
            ]
        made = {one.name: one for one in cluster_view.with_default(known.values(), cluster_view.size(nodes))}[
            queue.name
        ]
        if queue.name == DEFAULT_QUEUE and queue.quota not in (Quota(), made.quota):
            rule = (
                f"is what the other queues leave, {gpus(made.quota.total)} now; set theirs, or leave it out"
            )
            mistakes = [Mistake(f"queues.{queue.name}.quota", rule, gpus(queue.quota.total))]
        former = next((one for one in before if one.name == queue.name), None)
        mistakes += self._unknown_members(queue, former)
        if mistakes:
            raise BadInput(mistakes)
        if queue.parent is not None and (jobs := self._unfinished(queue.parent)):
            raise Conflict(
                f"queue {queue.parent} has jobs and so cannot have queues below it: {list_jobs(jobs)}"
            )
        record = audit_records.queue_set(user, self._clock(), former, queue)
        self._store.put(QUEUES, queue, record=record).result()
        self._loop.refresh()
        return made

    def _unknown_members(self, queue: Queue, former: Queue | None) -> list[Mistake]:
        """Return members that are no users. Former members may stay: a user may have been deleted."""
        known = {user.name for user in self._store.find(USERS)} if self._own_users else set(queue.members)
        known.update(() if former is None else former.members)
        return [
            Mistake(f"queues.{queue.name}.members", _no_user(member, known), member)
            for member in queue.members
            if member not in known
        ]

    def delete(self, user: User, name: QueueName) -> None:
        rbac.require_admin(user, "delete queues")
        if name == DEFAULT_QUEUE:
            raise Conflict("the default queue takes what names no queue, and cannot be deleted")
        queues = self._store.find(QUEUES)
        if all(queue.name != name for queue in queues):
            raise NotFound(f"there is no queue {name}")
        if children := [queue.name for queue in queues if queue.parent == name]:
            raise Conflict(f"queue {name} has queues below it: {', '.join(children)}; delete them first")
        if jobs := self._unfinished(name):
            raise Conflict(f"queue {name} has jobs that have not ended: {list_jobs(jobs)}; stop them first")
        record = audit_records.queue_deleted(user, self._clock(), name)
        self._store.delete(QUEUES, name, record=record).result()
        self._loop.refresh()

    def _unfinished(self, queue: QueueName) -> list[Job]:
        phases = [phase for phase in Phase if phase not in TERMINAL]
        return self._store.jobs(phases=phases, queue=queue)


def _no_user(name: UserName, known: set[UserName]) -> str:
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"`grus user set {name}` adds one"
    return f"is no user; {hint}"


def list_jobs(jobs: list[Job]) -> str:
    shown = ", ".join(f"{job.id} ({job.spec.name}, {job.user})" for job in jobs[:10])
    return shown if len(jobs) <= 10 else f"{shown} and {len(jobs) - 10} more"
