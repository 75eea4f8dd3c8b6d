"""Cluster state of the loop: the snapshot, the workers, job dependencies, and the times of the next checks.

Lives as long as the loop and is kept up to date one fact at a time; recording a fact costs the same whether
ten jobs are known or a hundred thousand. Only the loop's thread writes here. It never reads the clock, and
never changes anything outside.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from grus.controlplane import cluster_view
from grus.controlplane.artifacts.stores import ArtifactStores
from grus.controlplane.fingerprint.profile_cache import Profiles
from grus.controlplane.jobs import replica_restarts, worker_group_membership
from grus.controlplane.jobs.dependencies import Dependencies
from grus.controlplane.jobs.idle_policy import Policy, policies
from grus.controlplane.jobs.lifecycle import Limits, ending
from grus.controlplane.reconciler.apply_engine_calls import Effect, Forget, Launch
from grus.controlplane.reconciler.clock_jumps import ClockJumps
from grus.controlplane.reconciler.speed_outlook import SpeedOutlook
from grus.controlplane.reconciler.timers import Timers
from grus.controlplane.security import rbac
from grus.controlplane.settings import Settings
from grus.controlplane.workers.worker_launch_spec import Surroundings
from grus.model.activity_labels import Tag
from grus.model.identifiers import DeviceId, JobId, QueueName, UserName, WorkerId
from grus.model.interfaces import User, WorkerState, WorkerStatus
from grus.model.jobs import HOLDING, Job, Phase
from grus.model.nodes import Node
from grus.model.profiles import JobProfile
from grus.model.queues import Queue
from grus.scheduler.preempt.epoch_windows import LASTING, is_news
from grus.scheduler.state.snapshot import Snapshot

OF_THE_SERVER = frozenset({"HOME", "USER", "LOGNAME"})
"""Variables that jobs of other Unix users do not take from the server; the engine knows theirs."""
LATE_FROM_AFAR = 8.0
"""Maximum delay of a worker's reports in a cluster, in seconds: its node sends them every 5 s."""
ORDER = {WorkerState.STARTING: 0, WorkerState.RUNNING: 1, WorkerState.ENDED: 2}
"""Order of a worker's states, which only advance: an earlier state is a late message."""


class ClusterState:
    """Cluster state: all facts that a pass works on."""

    def __init__(
        self,
        settings: Settings,
        leaps: ClockJumps,
        snapshot: Snapshot,
        after: Dependencies,
        profiles: Profiles,
        speed: SpeedOutlook,
        vaults: ArtifactStores,
    ) -> None:
        self._settings = settings
        self.leaps = leaps
        self.snapshot = snapshot
        self.after = after
        self.profiles = profiles
        self._speed = speed
        self.vaults = vaults
        """For any thread."""
        self._ended: dict[JobId, int] = {}
        self.nodes: tuple[Node, ...] = ()
        self.queues: tuple[Queue, ...] = ()
        self._given: tuple[Queue, ...] | None = None
        """Queues as last received, without the default one."""
        self.by_name: dict[QueueName, Queue] = {}
        self.version = 0
        """Counts changes of nodes and queues."""
        self.workers: dict[JobId, dict[WorkerId, WorkerStatus]] = {}
        self.holding: set[JobId] = set()
        self.timers: Timers[str] = Timers()
        self.touched: set[JobId] = set()
        """Jobs to be looked at in this pass."""
        self.rung: set[JobId] = set()
        """Jobs with a worker that has signaled a new report."""
        self.freed: set[JobId] = set()
        """Jobs with a dependency that has ended."""
        self.undecided = True
        """True if something happened since the last decision that could change it."""
        self._device_memory: dict[DeviceId, int] = {}
        self._users: dict[UserName, User] = {}

    # ------------------------------------------------------------------------------------ recording

    def set_pool(self, nodes: tuple[Node, ...], queues: Iterable[Queue]) -> bool:
        """Record the pool and the queues; return whether anything was new."""
        given = tuple(queues)
        if nodes == self.nodes and given == self._given:
            return False  # as nearly always: it is looked at every few seconds
        self._given, complete = given, cluster_view.with_default(given, cluster_view.size(nodes))
        if nodes == self.nodes and complete == self.queues:
            return False
        if nodes != self.nodes:
            self.nodes = nodes
            self.snapshot.nodes = nodes  # rebuilt below, once for both
        self.queues = complete
        self.snapshot.set_queues(complete)
        self.by_name = {queue.name: queue for queue in complete}
        self._speed.set_nodes(nodes)
        self._device_memory = {device.id: device.memory for node in nodes for device in node.devices}
        self.version += 1
        self.undecided = True
        return True

    def set_users(self, users: Iterable[User]) -> None:
        self._users = {user.name: user for user in users}
        limits = {user.name: user.max_gpus for user in self._users.values() if user.max_gpus is not None}
        if limits != self.snapshot.user_limits:
            self.snapshot.set_user_limits(limits)
            self.undecided = True

    def echo(self, job: Job, now: float) -> None:
        """Record a write that the store reported, which may be our own and known already."""
        over = self._ended.get(job.id)
        if over is None:
            self.take(job, now, told=True)
        elif job.version >= over:
            del self._ended[job.id]  # no later message of this job can come

    def take(self, job: Job, now: float, *, told: bool = False) -> None:
        """Record a job as it is stored, unless a newer version is known."""
        if not job.spec.has_workers:
            if job.terminal:
                self.freed |= self.after.ended(job.id)
            return
        known = self.snapshot.job(job.id)
        if known is not None and known.version >= job.version:
            return
        if known is not None:
            self._speed.note_clash(known, job, now)
        self.snapshot.put(job, self.after.note(job))
        self.undecided = self._speed.take(job, known is None) or self.undecided
        self._note_shortage(job, known, now)
        self.touched.add(job.id)
        self.undecided = self.undecided or known is None or _matters(known, job)
        if job.phase in HOLDING:
            self.holding.add(job.id)
        else:
            self.holding.discard(job.id)
        self.leaps.note(job, job.phase in HOLDING)
        self.timers.set(job.id, self.deadline(job, now))
        if job.spec.after and not job.attempt:
            self.freed.add(job.id)
        if job.terminal:
            self.freed |= self.after.ended(job.id)
            if not told:
                self._ended[job.id] = job.version

    def _note_shortage(self, job: Job, before: Job | None, now: float) -> None:
        """Record an out-of-memory size at once, so that no other job of its fingerprint starts with it."""
        short = () if job.sizing is None else job.sizing.short
        new = before is None or before.sizing != job.sizing
        if short and new and self.profiles.settled(job.id) is not None:
            self.profiles.fell_short(job, short, now)

    def recognise(self, tags: Mapping[JobId, Tag], now: float) -> None:
        """Record the tags of jobs, as far as they can matter to a decision; remove tags that are no longer
        reported, or have expired.
        """
        for id_ in sorted(tags.keys() | self.snapshot.tags.keys()):
            tag, told = tags.get(id_), self.snapshot.tags.get(id_)
            if tag is not None and not tag.live(now):
                tag = None
            if self.snapshot.job(id_) is not None and is_news(told, tag, now):
                self.snapshot.note(id_, None if tag is None else replace(tag, expires=LASTING, note=""))
                self.undecided = True
        self.undecided = self._speed.look(tags, now) or self.undecided

    def learn(self, job: Job, line: str, now: float) -> None:
        """Record a running job's reports about its speed."""
        self.undecided = self._speed.learn(job, line, now) or self.undecided

    def hear(self, status: WorkerStatus) -> None:
        """Record the engine's state of a worker, unless a later one is known."""
        own = self.workers.setdefault(status.job, {})
        known = own.get(status.id)
        if known is None or ORDER[known.state] < ORDER[status.state]:
            own[status.id] = status
            self.touched.add(status.job)
        elif known.state is status.state and known.said != status.said:
            own[status.id] = replace(known, said=status.said)
            self.touched.add(status.job)
            self.rung.add(status.job)

    def note_call(self, job: JobId, call: Effect, now: float) -> None:
        """Record what an engine call changes before the engine reports it."""
        if isinstance(call, Launch):
            worker = call.worker
            starting = WorkerStatus(
                id=worker.id, job=job, attempt=worker.attempt, state=WorkerState.STARTING, started_at=now
            )
            self.workers.setdefault(job, {}).setdefault(worker.id, starting)
        elif isinstance(call, Forget):
            self._forget(job, call.worker)

    def _forget(self, job: JobId, worker: WorkerId) -> None:
        own = self.workers.get(job, {})
        own.pop(worker, None)
        if not own:
            self.workers.pop(job, None)

    def recheck(self, job: JobId) -> None:
        """Record that a dependency of a waiting job has ended."""
        found = self.snapshot.job(job)
        if found is not None:
            self.snapshot.put(found, self.after.note(found))
            self.undecided = True

    # -------------------------------------------------------------------------------------- reading

    def statuses(self, job: JobId) -> dict[WorkerId, WorkerStatus]:
        return self.workers.get(job, {})

    def limits(self, job: Job) -> Limits:
        return Limits(
            start_timeout=self._settings.start_timeout,
            max_runtime=cluster_view.max_runtime(job, self.by_name),
            leapt=self.leaps.since(job),
            words_late=LATE_FROM_AFAR if self._settings.containers else 0.0,
        )

    def profile(self, job: Job) -> JobProfile | None:
        """Return the profile of the job's fingerprint; for any thread."""
        return self.profiles.of(job)

    def idle_policies(self, job: Job) -> tuple[Policy, ...]:
        return policies(job, self.by_name)

    def surroundings(self, job: Job) -> Surroundings:
        unix_user = self.unix_user(job.user)
        environment = self._settings.environment
        if unix_user and self._settings.as_submitters:
            environment = tuple(pair for pair in environment if pair[0] not in OF_THE_SERVER)
        return Surroundings(
            environment, self._device_memory, unix_user, self.vaults.stage(job), self.vaults.session(job)
        )

    def unix_user(self, name: UserName) -> str:
        """Return the Unix user that a job of this user runs as; empty for the server's own Unix user."""
        return rbac.unix_user(name, self._users.get(name), self._settings.as_submitters)

    def deadline(self, job: Job, now: float) -> float | None:
        """Return the time at which something about this job may change without any event."""
        if job.phase is Phase.PENDING:
            return job.not_before if job.not_before > now else None
        if job.phase not in HOLDING or ending(job) or job.started_at is None:
            return None
        limits = self.limits(job)
        team = worker_group_membership.next_look(job, self.statuses(job.id), now, limits.start_timeout)
        times = [] if limits.max_runtime is None else [job.started_at + limits.max_runtime + limits.leapt]
        if job.phase is Phase.STARTING:
            up = job.started_at + limits.start_timeout
            # Later than that only while the setup still runs: check again from time to time.
            times.append(up if up > now else now + limits.start_timeout)
        times += [
            status.started_at + limits.start_timeout
            for status in self.statuses(job.id).values()
            if status.state is WorkerState.STARTING and status.started_at is not None
        ]
        replica = replica_restarts.next_look(job, self.statuses(job.id))
        times += [at for at in (team, replica, job.not_before) if at is not None]
        # Timers that are already due are handled now. If the record fails, they are tried again after a
        # pause; a time in the past would be due again at once, in a tight loop.
        return min((at for at in times if at > now), default=None)


def _matters(before: Job, after: Job) -> bool:
    """Return whether this can change a decision. Workers that came up, or a reported metric, cannot."""
    return (
        _places(before) != _places(after)
        or before.desired is not after.desired
        or before.size != after.size
        or before.spec.request != after.spec.request
        or before.saved_at != after.saved_at
        or before.key != after.key  # a stage that was held back until it had one
        or not (before.phase is after.phase or {before.phase, after.phase} == {Phase.STARTING, Phase.RUNNING})
    )


def _places(job: Job) -> list[tuple[object, ...]]:
    """Return its placements, independent of the workers there."""
    return [(seat.role, seat.index, seat.node, seat.devices, seat.share, seat.leaving) for seat in job.seats]
