"""Pool as users see it: nodes, their use and state; and the cordons and drains of administrators."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from grus.controlplane import cluster_view
from grus.controlplane.eta.forecast_service import ForecastAccuracy, Forecaster
from grus.controlplane.facade.job_reader import HIDDEN
from grus.controlplane.jobs.drained_jobs import DrainedJobs, drained_jobs
from grus.controlplane.monitoring.profile_query import Insight
from grus.controlplane.monitoring.telemetry_collector import Watching, holding
from grus.controlplane.notifications.receivers import Notifier
from grus.controlplane.reconciler.loop import ControlLoop
from grus.controlplane.security import audit_records, isolation, rbac
from grus.controlplane.settings import LAST_BACKUP, Settings
from grus.controlplane.visibility import JobVisibility
from grus.model.activity_labels import Tag
from grus.model.errors import NotFound
from grus.model.identifiers import DeviceId, JobId, NodeId
from grus.model.interfaces import CORDONS, USERS, Engine, Store, Usage, User
from grus.model.jobs import HOLDING, Job, Phase
from grus.model.nodes import Cordon, Drain, Node
from grus.model.texts.plural_words import counted
from grus.scheduler.queues.queue_usage_tree import queue_states


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The control plane at a glance."""

    now: float
    started_at: float
    user: User
    nodes: tuple[Node, ...]
    held: int
    """Micro-GPUs."""
    jobs: dict[Phase, int]
    queues: int
    mechanisms: dict[str, str]
    epoch: int
    passes: int
    pass_seconds: float
    """Length of the loop's last pass."""
    drift: int
    warnings: tuple[str, ...]
    forecasts: ForecastAccuracy | None = None
    """Record of the forecasts so far."""
    containers: bool = False
    """Jobs run in containers on other machines: no folder and no PATH of a submitter is there."""


@dataclass(eq=False)
class PoolAdmin:
    """One a server, for any thread that may wait for the disk."""

    _store: Store
    _engine: Engine
    _loop: ControlLoop
    _visible: JobVisibility
    _settings: Settings
    _clock: Callable[[], float]
    _watching: Watching | None
    _insight: Insight | None
    _forecaster: Forecaster | None
    _notifications: Notifier
    _started_at: float

    def nodes(self, user: User) -> tuple[Node, ...]:  # noqa: ARG002 - everybody may see the pool
        return self._loop.picture.nodes

    def tags(self) -> dict[str, Tag]:
        """Return the tags of jobs and GPUs, by `of_job` and `of_gpu`; the caller must filter them by user."""
        return {} if self._insight is None else self._insight.tags()

    def usage(self, user: User) -> tuple[Usage, ...]:
        """Return the measured use of the workers of jobs that this user sees."""
        used = self._engine.usage()
        return tuple(one for one in used if self._visible.job(user, JobId(one.worker.partition(".")[0])))

    def holders(self, user: User) -> dict[DeviceId, list[tuple[JobId, int]]]:
        """Return the holders of each device with their micro-GPUs; a job that this user may not see has an
        empty id.
        """
        found: dict[DeviceId, list[tuple[JobId, int]]] = {}
        for job in self._store.jobs(phases=tuple(HOLDING)):
            id_ = job.id if self._visible.sees(user, job.user, job.spec.queue) else HIDDEN
            for seat in job.seats:
                for device in seat.devices:
                    found.setdefault(device, []).append((id_, seat.share))
        return found

    def drained_jobs(self, user: User) -> Mapping[NodeId, DrainedJobs]:
        """Return the jobs of each drained node that leave, and those that run to their end there."""
        nodes = self._loop.picture.nodes
        if all(node.drain is None for node in nodes):
            return {}
        sees = self._visible.sees
        return drained_jobs(nodes, self.occupants(), lambda job: sees(user, job.user, job.spec.queue))

    def occupants(self) -> list[Job]:
        """Return the jobs that hold GPUs now, from memory; callers that show them must check who sees
        them.
        """
        return holding(self._loop)

    def demand(self) -> tuple[int, int]:
        """Return the demand on the whole pool, for every user: jobs that wait, and micro-GPUs that are held
        or could be used.
        """
        with self._loop.snapshot() as snapshot:
            top = [state for state in queue_states(snapshot, self._clock()) if state.parent is None]
        return sum(state.waiting for state in top), sum(state.demand for state in top)

    def cordon(self, user: User, node: NodeId, cordoned: bool) -> None:
        """Close a node to new work, or open it again; running jobs continue."""
        self._set_node(user, node, Cordon(node) if cordoned else None, "cordon or uncordon nodes")

    def drain(self, user: User, node: NodeId, message: str = "") -> None:
        """Close a node to new work and move the jobs that save; users see the message.

        Jobs that save nothing and non-preemptible jobs run to their end.
        """
        drain = Drain(message=message, by=user.name, at=self._clock())
        self._set_node(user, node, Cordon(node, drain), "drain nodes")

    def _set_node(self, user: User, node: NodeId, cordon: Cordon | None, action: str) -> None:
        rbac.require_admin(user, action)
        cordons = {one.node for one in self._store.find(CORDONS)}
        # A cordoned node may be gone, and is uncordoned for its return.
        if node not in cordons.union(one.id for one in self._loop.picture.nodes):
            raise NotFound(f"there is no node {node}")
        record = audit_records.node_set(user, self._clock(), node, cordon)
        if cordon is None:
            self._store.delete(CORDONS, node, record=record).result()
        else:
            self._store.put(CORDONS, cordon, record=record).result()
        self._loop.refresh()

    def state_disk(self) -> tuple[int, int] | None:
        """Free bytes and size of the disk that holds the state; None where there is no such folder."""
        try:
            usage = shutil.disk_usage(self._settings.state)
        except OSError:
            return None
        return usage.free, usage.total

    def last_backup_at(self) -> float | None:
        """Unix time of the newest backup of the state; None before the first."""
        try:
            return (self._settings.state / LAST_BACKUP).stat().st_mtime
        except OSError:
            return None

    def status(self, user: User) -> Status:
        pulse = self._loop.pulse
        held = cluster_view.usage(self._store.jobs(phases=tuple(HOLDING)))
        return Status(
            now=self._clock(),
            started_at=self._started_at,
            user=user,
            nodes=self._loop.picture.nodes,
            held=sum(held.values()),
            jobs=self._store.count(),
            queues=len(self._loop.picture.queues),
            mechanisms=self._engine.mechanisms(),
            containers=self._settings.containers,
            epoch=pulse.epoch,
            passes=pulse.passes,
            pass_seconds=pulse.seconds,
            drift=self._loop.drift,
            warnings=tuple(text for text in self._warnings() if text),
            forecasts=None if self._forecaster is None else self._forecaster.record,
        )

    def _warnings(self) -> tuple[str, ...]:
        """Return all warnings; empty ones do not apply."""
        pulse, drift = self._loop.pulse, self._loop.drift
        drifted = f"usage on record and usage believed differed {counted(drift, 'time')}; see the log"
        return (
            pulse.stopped,
            pulse.trouble if pulse.troubles else "",
            drifted if drift else "",
            *(() if self._watching is None else self._watching.warnings()),
            *self._notifications.warnings(),
            isolation.exposure(self._settings, self._store.find(USERS)),
        )
