"""Services: everything that users can request, behind every entry point. One object per server, for any
thread.

Each method first checks what this user may do, then reads or writes, and answers with values of the model.
User requests are written to the store and carried out by the loop; nothing here touches a worker. `submit`
and `whoami` are quick enough for a thread that serves all connections; the others may wait for the disk.
"""

import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from subprocess import Popen

from grus.api.inputs.job_schema import JobIn
from grus.controlplane import cluster_view
from grus.controlplane.admission.dry_run import NEVER, SubmissionPlan, plan
from grus.controlplane.admission.spec_checks import NO_SESSIONS
from grus.controlplane.admission.submission import JobRequest, Submission
from grus.controlplane.admission.workflow_graph import Graph, Graphs
from grus.controlplane.admission.workflow_submission import GraphSubmission
from grus.controlplane.eta.forecast_service import Expectation, ForecastAccuracy, Forecaster
from grus.controlplane.event_log import last_seq
from grus.controlplane.facade.queue_admin import QueueChanges
from grus.controlplane.facade.user_deletion import UserRemoval
from grus.controlplane.history.finished_runs import Results
from grus.controlplane.jobs import user_actions
from grus.controlplane.jobs.drained_jobs import DrainedJobs, drained_jobs
from grus.controlplane.jobs.lifecycle import JobChange
from grus.controlplane.monitoring.explain_messages import Remarks
from grus.controlplane.monitoring.profile_query import Insight, Learned
from grus.controlplane.monitoring.series_query import Readings, Whose
from grus.controlplane.monitoring.telemetry_collector import Watching, holding
from grus.controlplane.monitoring.trend_forecast import Prospect, Prospects, Reach
from grus.controlplane.notifications.notifier import Notifier
from grus.controlplane.reconciler.loop import ControlLoop
from grus.controlplane.security import audit_records, isolation, rbac
from grus.controlplane.security.rbac import Owner
from grus.controlplane.security.secret_store import SecretStore
from grus.controlplane.security.user_tokens import Accounts, check_unix_user
from grus.controlplane.settings import LAST_BACKUP, Settings
from grus.controlplane.sweeps.sweep_summary import SweepView, Winner, view_of, winner
from grus.controlplane.sweeps.trial_index import Trials
from grus.controlplane.visibility import JobVisibility
from grus.controlplane.workers import logs
from grus.controlplane.workers.endpoints import Endpoint, endpoints, require_use
from grus.model.activity_labels import Tag
from grus.model.artefacts import Artifact
from grus.model.audit import AuditRecord
from grus.model.errors import Conflict, DoesNotFit, NotAllowed, NotFound, StaleVersion
from grus.model.identifiers import DeviceId, JobId, NodeId, QueueName, UserName, job_id
from grus.model.interfaces import (
    AUDIT,
    CORDONS,
    PROFILES,
    REPORTS,
    USERS,
    Engine,
    Event,
    Store,
    Token,
    Usage,
    User,
    WorkerStatus,
    Written,
)
from grus.model.jobs import HOLDING, Job, JobType, PauseCause, Phase, Spec
from grus.model.metrics_history import Curves, curves
from grus.model.nodes import Cordon, Drain, Node
from grus.model.plural_words import counted
from grus.model.prices import Prices
from grus.model.profiles import JobProfile, ProfiledRun
from grus.model.queues import Queue
from grus.model.resources import Range
from grus.scheduling.explain import Explanation, explain
from grus.scheduling.queues.queue_usage_tree import QueueState, queue_states
from grus.telemetry.samples import Measure

HIDDEN = JobId("")
"""Placeholder for a job that the caller may not know."""
NO_TELEMETRY = "this server records no telemetry"
MOST_TRIES = 20
PAGE = 500


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


class Services:
    """See the module."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        loop: ControlLoop,
        *,
        settings: Settings,
        clock: Callable[[], float] = time.time,
        entropy: Callable[[], int] = lambda: secrets.randbits(50),
        forecaster: Forecaster | None = None,
        watching: Watching | None = None,
        insight: Insight | None = None,
        trials: Trials | None = None,
        notifications: Notifier | None = None,
    ) -> None:
        self._store = store
        self._engine = engine
        self._loop = loop
        self._settings = settings
        self._clock = clock
        self._entropy = entropy
        self._forecaster = forecaster
        self._watching = watching
        self._insight = insight
        self._started_at = clock()
        self._accounts = Accounts(store, clock)
        self._queue_changes = QueueChanges(store, loop, clock, own_users=not settings.containers)
        self._user_removal = UserRemoval(store, self._accounts, self._queue_changes, self.stop)
        self.secrets = SecretStore(settings, lambda: store.find(USERS))
        """Secrets of each user; values go in and never out."""
        self.notifications = notifications or Notifier(store)
        """Receivers of messages about jobs, for administrators."""
        self._submission = Submission(store, loop.picture, settings, self.secrets)
        self._copiers = ThreadPoolExecutor(2, thread_name_prefix="code-copy")
        self._sight = JobVisibility(store, loop.picture)
        self._graphs = Graphs(store, self._sight)
        self._submitting = GraphSubmission(
            store,
            self._submission,
            self._graphs,
            clock=clock,
            entropy=entropy,
            stands=self._stands,
        )
        self._remarks = Remarks(loop, watching)
        self.results = Results(store, self._sight)
        """Results of ended jobs."""
        self._readings = None if watching is None else Readings(watching, self._sight, clock)
        self._prospects = (
            None
            if watching is None or self._readings is None
            else Prospects(self._readings, watching, lambda: loop.picture.nodes, clock)
        )
        self._trials = trials or Trials(store)
        self._last_event = 0
        self._leave = store.subscribe(self._note_events)
        self._last_event = max(self._last_event, last_seq(store))

    def close(self) -> None:
        """Finish copies that are under way. Idempotent."""
        self._leave()
        self._trials.close()
        self._copiers.shutdown()

    # --------------------------------------------------------------------------------- submitting

    def submit(
        self, user: User, spec: Spec, *, key: str | None = None, launch_given: bool = True
    ) -> "Future[Job]":
        """Store a job; the result is durable. Raises NotAllowed, BadInput or DoesNotFit before it is
        stored.
        """
        id_ = job_id(self._entropy())
        request = JobRequest(id=id_, spec=spec, launch_given=launch_given, key=key)
        checked = self._submission.check(user, [request])
        if self._submission.reads_files(user, checked):
            return self._copiers.submit(lambda: self._store_new(user, checked).result())
        return self._store_new(user, checked)

    def _store_new(self, user: User, checked: Sequence[JobRequest]) -> "Future[Job]":
        (new,) = self._submission.jobs(user, checked, self._clock())
        return self._store.create(new.job, new.event, new.key)

    def submit_graph(
        self, user: User, jobs: Sequence[JobIn], *, key: str | None = None, fresh: bool = False
    ) -> list[Job]:
        """Store jobs that name each other, all or none. Raises NotAllowed, BadInput or DoesNotFit."""
        return self._submitting.submit(user, jobs, key=key, fresh=fresh)

    def retry(self, user: User, id_: JobId, *, key: str | None = None) -> list[Job]:
        """Submit a job that did not succeed again, with those that come after it."""
        return self._submitting.retry(user, self.job(user, id_), key=key)

    def _stands(self, job: Job) -> bool:
        """Return whether it has succeeded, and its artifacts are still there."""
        holds = self._loop.picture.vaults.holds
        return job.phase is Phase.SUCCEEDED and all(holds(job.user, one) for one in job.artefacts)

    def home(self, user: User) -> str:
        """Return the default folder for jobs of this user that are written here; "" for the image's own."""
        return self._submission.home(user)

    def plan(self, user: User, spec: Spec, launch_given: bool = True) -> SubmissionPlan:
        """Return what would become of the job, without storing anything. Raises NotAllowed and BadInput."""
        try:
            now = self._clock()
            job = self._submission.planned(user, spec, now, launch_given=launch_given)
        except DoesNotFit as error:
            return SubmissionPlan(fits=False, starts=NEVER, sentence=str(error))
        missing = [other for other in spec.after if self._store.job(other).phase is not Phase.SUCCEEDED]
        blocked = f"waits for {', '.join(missing)} to succeed" if missing else ""
        made = plan(self._loop, job, blocked, now)
        if job.sizing is not None:
            made = replace(made, sizing=job.sizing.why)
        if self._insight is not None:
            made = replace(made, expected=self._insight.of(job).expected)
        if self._forecaster is None:
            return made
        return replace(made, foreseen=self._forecaster.planned(job, tuple(missing), now))

    # ------------------------------------------------------------------------------------ reading

    def job(self, user: User, id_: JobId) -> Job:
        job = self._store.job(id_)
        rbac.require_sight(user, id_, Owner.of(job), self._sight.by_name)
        return job

    def graph(self, user: User, id_: JobId) -> Graph:
        """Return the jobs that were submitted together with this one, and their dependencies."""
        return self._graphs.of(user, self.job(user, id_))

    def jobs(
        self,
        user: User,
        *,
        phases: Sequence[Phase] | None = None,
        queue: QueueName | None = None,
        mine: bool = False,
        limit: int | None = None,
        after: JobId | str | None = None,
    ) -> list[Job]:
        """Return jobs, newest first; `after` is the id of the last one of the page before."""
        queues = self._sight.by_name
        name = user.name if mine else None
        at = None if after is None else self._position(user, JobId(after))
        found: list[Job] = []
        while limit is None or len(found) < limit:
            want = PAGE if limit is None else max(limit - len(found), 1)
            page = self._store.jobs(phases=phases, queue=queue, user=name, limit=want, after=at)
            found += [job for job in page if rbac.sees_job(user, Owner.of(job), queues)]
            if len(page) < want:
                break
            at = (page[-1].submitted_at, page[-1].id)
        return found

    def _position(self, user: User, id_: JobId) -> tuple[float, JobId]:
        job = self.job(user, id_)
        return job.submitted_at, job.id

    def events(
        self, user: User, *, after: int = 0, job: JobId | None = None, limit: int = 1000
    ) -> list[Event]:
        """Return events of jobs that this user sees, ascending."""
        if job is not None:
            self.job(user, job)
            return self._store.events(after=after, job=job, limit=limit)
        found: list[Event] = []
        while len(found) < limit:
            page = self._store.events(after=after, limit=limit)
            found += [event for event in page if self._sight.event(user, event)]
            if len(page) < limit:
                break
            after = page[-1].seq
        return found[:limit]

    def curves(self, user: User, id_: JobId) -> Curves:
        """Return the job's reports over time: a curve of each metric, and its throughput."""
        return self.curves_of(self.job(user, id_))

    def curves_of(self, job: Job) -> Curves:
        """Return the curves of a job that the caller sees."""
        return curves(self._store.find(REPORTS, job=job.id))

    def last_event(self) -> int:
        """Return the number of the newest event."""
        return self._last_event

    def subscribe(self, listener: Callable[[Sequence[Written]], None]) -> Callable[[], None]:
        """Subscribe as to the store: for a server that wakes its streams. Visibility is checked when they
        read.
        """
        return self._store.subscribe(listener)

    def every_job(self, at_once: int = PAGE, phases: Sequence[Phase] | None = None) -> Iterator[list[Job]]:
        """Yield all jobs on record, or all in these phases, newest first, in pages: an index within this
        server.

        Its reader checks `sees` for each.
        """
        at = None
        while page := self._store.jobs(phases=phases, limit=at_once, after=at):
            yield page
            at = (page[-1].submitted_at, page[-1].id)

    def sees(self, user: User, owner: UserName, queue: QueueName) -> bool:
        """Return whether this user sees the jobs of `owner` in that queue."""
        return rbac.sees_job(user, Owner(owner, queue), self._sight.by_name)

    @property
    def oldest_kept(self) -> float:
        """Return the time before which ended jobs are no longer on record, or about to be deleted."""
        return self._clock() - self._settings.job_retention

    def why(self, user: User, id_: JobId) -> Explanation:
        """Explain the state of the job; for a waiting one, the holders of what it needs and the change that
        would start it.
        """
        job = self.job(user, id_)
        return replace(self._why(user, job), notes=self._remarks.of(job, self._clock()))

    def _why(self, user: User, job: Job) -> Explanation:
        id_ = job.id
        waits = job.phase is Phase.PENDING or (
            job.phase is Phase.PAUSED and job.paused_by is PauseCause.SCHEDULER
        )
        if not waits:
            return Explanation(job.phase.value, job.reason, (), "")
        with self._loop.snapshot() as snapshot:
            if snapshot.job(id_) is None:  # written a moment ago, and not received yet
                return Explanation(job.phase.value, job.reason, (), "")
            found = explain(snapshot, id_, self._clock())
        holders = tuple(
            (holder if self._sight.job(user, holder) else HIDDEN, amount) for holder, amount in found.holders
        )
        return replace(found, holders=holders)

    def foreseen(self, job: Job) -> Expectation | None:
        """Return the expected start and end of a job that the caller sees; None if it has ended or has no
        forecast yet.
        """
        if self._forecaster is None or job.terminal:
            return None
        return self._forecaster.of(job.id)

    def starts(self, id_: JobId) -> float | None:
        """Return the time at which a waiting job that the caller sees starts with a probability of 50%."""
        foreseen = None if self._forecaster is None else self._forecaster.of(id_)
        return None if foreseen is None else foreseen.start_p50

    def learned(self, user: User, id_: JobId) -> Learned:
        """Return the profile of the job's fingerprint. Raises NotFound if nothing is kept."""
        return self._known.of(self.job(user, id_))

    def profiles(self, user: User) -> list[JobProfile]:
        """Return one's own profiles, the last updated first; for administrators all."""
        return self._known.profiles(user)

    def profile(self, user: User, fingerprint: str) -> JobProfile:
        """Return the profile with this fingerprint, or a prefix of one."""
        return self._known.profile(user, fingerprint)

    @property
    def _known(self) -> Insight:
        if self._insight is None:
            raise NotFound("this server keeps no profiles")
        return self._insight

    def runs(self) -> dict[JobId, tuple[JobProfile, ProfiledRun]]:
        """Return the kept runs of jobs, with their profiles; the caller must check who may see them."""
        kept = () if self._insight is None else self._store.find(PROFILES)
        return {run.job: (profile, run) for profile in kept for run in profile.runs}

    def now(self) -> float:
        """Return the present time of the server's clock."""
        return self._clock()

    @property
    def prices(self) -> Prices:
        return self._settings.prices

    def tags(self) -> dict[str, Tag]:
        """Return the tags of jobs and GPUs, by `of_job` and `of_gpu`; the caller must filter them by user."""
        return {} if self._insight is None else self._insight.tags()

    def workers(self, user: User, id_: JobId) -> list[WorkerStatus]:
        """Return the states of its present workers, in the order of their ids."""
        self.job(user, id_)
        return sorted(self._loop.picture.statuses(id_).values(), key=lambda status: status.id)

    def endpoints(self, user: User, id_: JobId) -> tuple[Endpoint, ...]:
        """Return the endpoints of the job, one for each worker that is ready; empty while none is.

        For components that forward requests in this user's name: endpoints contain secrets and must not be
        shown to the user. Raises NotFound, and NotAllowed for a session of another user.
        """
        job = self.job(user, id_)
        require_use(user, job)
        if self._settings.containers:  # reports of containers are readable to many, and from other machines
            return ()
        return endpoints(job, self._loop.picture.statuses(id_), self._engine.report)

    def session(self, user: User, id_: JobId) -> tuple[Endpoint, ...]:
        """Return the endpoints of a development session. Raises Conflict for a job that is none, or is
        over.
        """
        job = self.job(user, id_)
        if job.spec.type is not JobType.DEV:
            raise Conflict(f"job {id_} is no development session; `grus dev` starts one")
        if self._settings.containers:
            raise NotAllowed(f"job {id_} {NO_SESSIONS}; `grus stop {id_}` ends it")
        found = self.endpoints(user, id_)
        if job.terminal:
            raise Conflict(f"session {id_} is over ({job.phase.value}): {job.reason}")
        return found

    def log(
        self,
        user: User,
        id_: JobId,
        worker: int | None = None,
        offset: int = 0,
        limit: int = 65536,
        attempt: int | None = None,
    ) -> tuple[bytes, int]:
        """Return bytes of a worker's log and the next offset; worker 0 and the last attempt if none is
        named.
        """
        return logs.read(self._engine, self.job(user, id_), worker or 0, offset, limit, attempt)

    def artefact(self, user: User, id_: JobId, name: str) -> Artifact:
        """Return the job's artifact of this name, for its owner. Raises NotFound if it is gone."""
        job = self.job(user, id_)
        if job.user != user.name and not rbac.is_admin(user):
            raise NotAllowed(f"only {job.user} and administrators may read what job {id_} left behind")
        found = next((one for one in job.artefacts if one.name == name), None)
        if found is None:
            raise NotFound(f"job {id_} has left no {name} behind{_left_words(job)}")
        if not self._loop.picture.vaults.holds(job.user, found):
            raise NotFound(f"what job {id_} left as {name} is not kept any more: run it again")
        return found

    def archive(self, user: User, id_: JobId, name: str, offset: int) -> "tuple[Artifact, Popen[bytes]]":
        """Start a process that writes the artifact as a tar from this byte on; the caller must end it."""
        artefact = self.artefact(user, id_, name)
        return artefact, self._loop.picture.vaults.archive(self._store.job(id_).user, artefact, offset)

    def usage(self, user: User) -> tuple[Usage, ...]:
        """Return the measured use of the workers of jobs that this user sees."""
        return tuple(
            use for use in self._engine.usage() if self._sight.job(user, JobId(use.worker.partition(".")[0]))
        )

    def prospect(
        self, user: User, whose: Whose, name: str, reach: Reach, measure: Measure | None = None
    ) -> Prospect:
        """Return the forecast for the next hour or day of a GPU, a job, a queue or the pool."""
        if self._prospects is None:
            raise NotFound(NO_TELEMETRY)
        if whose is not Whose.JOB:
            return self._prospects.of(user, whose, name, reach, measure)
        job = self.job(user, JobId(name))
        if job.terminal:
            raise Conflict(f"job {name} has ended; there is nothing to foretell")
        foreseen = self.foreseen(job)
        found = self._prospects.of(user, whose, name, reach, measure)
        return found if foreseen is None else replace(found, ends=foreseen.end_p50)

    @property
    def watched(self) -> bool:
        """Return whether telemetry is measured and recorded here."""
        return self._readings is not None

    @property
    def telemetry(self) -> Readings:
        """Return the telemetry; each user sees their own part. Raises NotFound if none is recorded."""
        if self._readings is None:
            raise NotFound(NO_TELEMETRY)
        return self._readings

    def sweep(self, user: User, id_: JobId) -> SweepView:
        """Return a sweep with all its trials. Raises NotFound for a job that is none."""
        job = self.job(user, id_)
        if job.spec.sweep is None:
            raise NotFound(f"job {id_} is no sweep")
        return view_of(job, self._trials, self._clock())

    def best_of(self, user: User, id_: JobId) -> Winner:
        """Return the best trial of a sweep, and the job that runs it again. Raises Conflict while there is
        none.
        """
        return winner(self.sweep(user, id_))

    # ------------------------------------------------------------------------------- user actions

    def stop(self, user: User, id_: JobId) -> Job:
        return self._wish(user, id_, "stop", user_actions.stop)

    def pause(self, user: User, id_: JobId) -> Job:
        return self._wish(user, id_, "pause", user_actions.pause)

    def resume(self, user: User, id_: JobId) -> Job:
        return self._wish(user, id_, "resume", user_actions.resume)

    def scale(self, user: User, id_: JobId, size: Range | None) -> Job:
        """Pin the size of an elastic job or narrow its range; None restores the submitted range."""

        def wish(job: Job, who: UserName, now: float) -> JobChange | None:
            change = user_actions.scale(job, size, who, now)
            if change is not None and size is not None:
                self._submission.require_size(job.spec, size)
            return change

        return self._wish(user, id_, "scale", wish)

    def _wish(
        self, user: User, id_: JobId, verb: str, wish: Callable[[Job, UserName, float], JobChange | None]
    ) -> Job:
        for _ in range(MOST_TRIES):
            job = self.job(user, id_)
            rbac.require_own(user, job, verb)
            change = wish(job, user.name, self._clock())
            if change is None:
                return job
            record = audit_records.job_changed(user, self._clock(), verb, job)
            epoch = self._loop.pulse.epoch
            try:
                return self._store.replace(change.job, change.event, epoch, record=record).result()
            except StaleVersion:
                continue  # the loop was faster; the action is checked against the present state
        raise Conflict(f"job {id_} changes too fast to {verb} it; try again")

    # ------------------------------------------------------------------------------ queues and nodes

    def queues(self, user: User) -> list[QueueState]:
        """Return the metrics of every queue that this user may use, and of those above them."""
        seen = self._sight.queues(user)
        with self._loop.snapshot() as snapshot:
            states = queue_states(snapshot, self._clock())
        return [state for state in states if state.name in seen]

    def queue_settings(self, user: User) -> list[Queue]:
        """Return the settings of the same queues, the default one with the rest that the others leave."""
        seen = self._sight.queues(user)
        return [queue for queue in self._loop.picture.queues if queue.name in seen]

    @property
    def configured_queues(self) -> frozenset[QueueName]:
        """Return the queues that config.toml defines: each start sets them again."""
        return self._settings.configured_queues

    def put_queue(self, user: User, queue: Queue) -> Queue:
        return self._queue_changes.put(user, queue)

    def set_member(self, user: User, name: QueueName, member: UserName, wanted: bool) -> Queue:
        """Add one member to a queue, or remove one; the others stay."""
        return self._queue_changes.set_member(user, name, member, wanted)

    def delete_queue(self, user: User, name: QueueName) -> None:
        self._queue_changes.delete(user, name)

    def nodes(self, user: User) -> tuple[Node, ...]:  # noqa: ARG002 - everybody may see the pool
        return self._loop.picture.nodes

    def holders(self, user: User) -> dict[DeviceId, list[tuple[JobId, int]]]:
        """Return the holders of each device with their micro-GPUs; a job that this user may not see has an
        empty id.
        """
        queues = self._sight.by_name
        found: dict[DeviceId, list[tuple[JobId, int]]] = {}
        for job in self._store.jobs(phases=tuple(HOLDING)):
            id_ = job.id if rbac.sees_job(user, Owner.of(job), queues) else HIDDEN
            for seat in job.seats:
                for device in seat.devices:
                    found.setdefault(device, []).append((id_, seat.share))
        return found

    def drained_jobs(self, user: User) -> Mapping[NodeId, DrainedJobs]:
        """Return the jobs of each drained node that leave, and those that run to their end there."""
        nodes = self._loop.picture.nodes
        if all(node.drain is None for node in nodes):
            return {}
        queues = self._sight.by_name
        return drained_jobs(nodes, self.occupants(), lambda job: rbac.sees_job(user, Owner.of(job), queues))

    def occupants(self) -> list[Job]:
        """Return the jobs that hold GPUs now, from memory; callers that show them must check `sees`."""
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
        self._set_node(user, node, cordoned, None, "cordon or uncordon nodes")

    def drain(self, user: User, node: NodeId, message: str = "") -> None:
        """Close a node to new work and move the jobs that save; users see the message.

        Jobs that save nothing and non-preemptible jobs run to their end.
        """
        drain = Drain(message=message, by=user.name, at=self._clock())
        self._set_node(user, node, True, drain, "drain nodes")

    def _set_node(self, user: User, node: NodeId, cordoned: bool, drain: Drain | None, action: str) -> None:
        rbac.require_admin(user, action)
        cordons = {one.node for one in self._store.find(CORDONS)}
        known = {one.id for one in self._loop.picture.nodes} | cordons
        if node not in known:  # a cordoned node may be gone, and is uncordoned for its return
            raise NotFound(f"there is no node {node}")
        record = audit_records.node_set(user, self._clock(), node, cordoned, drain)
        written = (
            self._store.put(CORDONS, Cordon(node, drain), record=record)
            if cordoned
            else self._store.delete(CORDONS, node, record=record)
        )
        written.result()
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
        now, pulse, nodes = self._clock(), self._loop.pulse, self._loop.picture.nodes
        held = cluster_view.usage(self._store.jobs(phases=tuple(HOLDING)))
        troubles = (pulse.stopped, pulse.trouble if pulse.troubles else "")
        watched = () if self._watching is None else self._watching.warnings()
        shared = isolation.exposure(self._settings, self._store.find(USERS))
        drift = (
            f"usage on record and usage believed differed {counted(self._loop.drift, 'time')}; see the log"
        )
        return Status(
            now=now,
            started_at=self._started_at,
            user=user,
            nodes=nodes,
            held=sum(held.values()),
            jobs=self._store.count(),
            queues=len(self._loop.picture.queues),
            mechanisms=self._engine.mechanisms(),
            containers=self._settings.containers,
            epoch=pulse.epoch,
            passes=pulse.passes,
            pass_seconds=pulse.seconds,
            drift=self._loop.drift,
            warnings=tuple(
                text
                for text in (
                    *troubles,
                    drift if self._loop.drift else "",
                    *watched,
                    *self.notifications.warnings(),
                    shared,
                )
                if text
            ),
            forecasts=None if self._forecaster is None else self._forecaster.record,
        )

    # -------------------------------------------------------------------------------------- users

    def reload_accounts(self) -> None:
        """Read users and tokens again, after a change that did not go through here."""
        self._accounts.refresh()

    def whoami(self, secret: str) -> User:
        """Return the user of a secret. Raises NotLoggedIn. Takes microseconds."""
        return self._accounts.whoami(secret)

    def holder(self, digest: str) -> User:
        """Return the user as `whoami` does, for one who has shown the secret before: the digest alone opens
        nothing.
        """
        return self._accounts.holder(digest)

    def users(self, user: User) -> list[User]:
        return self._accounts.users(user)

    def put_user(
        self, user: User, changed: User, *, accept_shared_account: bool = False, keep_limit: bool = False
    ) -> User:
        """Add or change a user. Raises Conflict if jobs are not isolated, unless that is accepted, now and
        from then on.

        `keep_limit`: leave the user's limit of GPUs as it is.
        """
        rbac.require_admin(user, "add or change users")
        if self._settings.as_submitters:
            check_unix_user(changed.unix_user)
        if accept_shared_account:
            isolation.accept(self._settings, user.name, self._clock())
        isolation.require_apart(self._settings, self._store.find(USERS), changed)
        made = self._accounts.put_user(user, changed, accepted=accept_shared_account, keep_limit=keep_limit)
        self._loop.refresh()
        return made

    def delete_user(self, user: User, name: UserName, *, stop_jobs: bool = False) -> None:
        """Delete a user with its tokens, secrets and memberships. Raises Conflict for live jobs without
        `stop_jobs`.
        """
        self._user_removal.delete(user, name, stop_jobs=stop_jobs)
        self.secrets.delete_all(name)
        self._loop.refresh()

    def audit(
        self,
        user: User,
        *,
        actor: UserName | None = None,
        target: str = "",
        before: int | None = None,
        limit: int = 100,
    ) -> list[AuditRecord]:
        """Return changes of users, tokens, queues, nodes and others' jobs, newest first; for
        administrators.
        """
        rbac.require_admin(user, "read the audit log")
        after = None if before is None else (before,)
        return self._store.find(AUDIT, actor=actor, target=target or None, after=after, limit=limit)

    def tokens(self, user: User) -> list[Token]:
        return self._accounts.tokens(user)

    def new_token(
        self,
        user: User,
        for_user: UserName,
        label: str,
        expires_at: float | None = None,
        *,
        asked_with: str = "",
    ) -> tuple[str, Token]:
        """Create a token; return the secret, shown only once, and its record. Raises Conflict as `put_user`
        does.
        """
        if for_user != user.name and rbac.is_admin(user):
            isolation.require_apart_for_token(self._settings, self._store.find(USERS), for_user)
        return self._accounts.new_token(user, for_user, label, expires_at, asked_with=asked_with)

    def delete_token(self, user: User, digest: str) -> None:
        self._accounts.delete_token(user, digest)

    def _note_events(self, written: Sequence[Written]) -> None:
        self._last_event = max([self._last_event, *(event.seq for _, event in written if event is not None)])


def _left_words(job: Job) -> str:
    names = ", ".join(output.name for output in job.spec.outputs)
    if not names:
        return "; it has no outputs"
    return f"; it has {names}" if job.artefacts else f"; it is {job.phase.value}"
