"""Submission: everything that is checked and settled before a job is written to the store.

Nothing here waits for the loop: whether a request can ever fit is checked on a snapshot without jobs, which
is rebuilt only when nodes or queues have changed.
"""

import os
import threading
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from grus.api.inputs import pod_allow_list
from grus.api.inputs.job_spec import is_path, resized
from grus.api.wire import is_bundle, with_launch
from grus.controlplane.admission import code_snapshot
from grus.controlplane.fingerprint import code_digest
from grus.controlplane.gpu_sizing.memory_sizing import SizedSpec
from grus.controlplane.gpu_sizing.size_selection import JobSizer, with_size
from grus.controlplane.reconciler.cluster_state import ClusterState
from grus.controlplane.security import authorization
from grus.controlplane.security.secret_store import SecretStore
from grus.controlplane.settings import Settings
from grus.model.artefacts import Input
from grus.model.errors import BadInput, DoesNotFit, Mistake, NotAllowed, NotFound
from grus.model.identifiers import JobId
from grus.model.jobs import Job, JobType, Launch, Spec
from grus.model.ports import Event, Store, User
from grus.model.queues import Queue
from grus.model.resources import Range
from grus.scheduling.placement.feasibility import above_limit, never_fits, never_fits_at
from grus.scheduling.state.snapshot import Snapshot
from grus.tuning import samplers

MOST_REMEMBERED = 1000
_NONE: Mapping[JobId, Job] = {}
NO_SESSIONS = (
    "starts a development session, which a pool on Kubernetes cannot open: its server does not reach into"
    " pods. Run `grus dev` on a machine with its own Grus server, or submit a job with the same image and"
    " use kubectl exec"
)
SAME_WORK = (
    "so ended a job with the same code, command and environment variables; what differs in one of them is "
    "other work, and is tried"
)


class Fitting:
    """Feasibility check of requests against the pool; remembers answers until the pool changes."""

    def __init__(self, picture: ClusterState) -> None:
        self._picture = picture
        self._lock = threading.Lock()
        self._version = -1
        self._empty = Snapshot()
        self._answers: dict[object, str] = {}

    def never(self, spec: Spec) -> str:
        """Explain why it can never run here, with the nearest request that could; empty if it can."""
        key = (spec.queue, spec.request, spec.type, spec.priority, spec.node_selector, spec.affinity)
        with self._lock:
            self._refresh()
            if key not in self._answers:
                if len(self._answers) >= MOST_REMEMBERED:
                    self._answers.clear()
                self._answers[key] = never_fits(self._empty, spec)
            return self._answers[key]

    def above_limit(self, spec: Spec, limit: int) -> str:
        """Reason that a user with this limit of GPUs could never run it; "" if it could."""
        with self._lock:
            self._refresh()
            return above_limit(self._empty, spec, limit)

    def never_at(self, spec: Spec, size: Range) -> str:
        """Explain the same for an elastic job that must keep this size."""
        with self._lock:
            self._refresh()
            return never_fits_at(self._empty, spec, size)

    def _refresh(self) -> None:
        if self._version != self._picture.version:
            self._version = self._picture.version
            self._empty = Snapshot(self._picture.nodes, self._picture.queues)
            self._answers = {}


class Submission:
    """Checks and completes what users submit."""

    def __init__(
        self, store: Store, picture: ClusterState, settings: Settings, secrets: SecretStore | None = None
    ) -> None:
        self._store = store
        self._secrets = secrets or SecretStore(settings, store.users)
        self._picture = picture
        self._settings = settings
        self._fitting = Fitting(picture)
        self._profiles = picture.profiles
        self._sizes = JobSizer(picture.profiles, lambda: picture.nodes, self._fitting.never)

    def home(self, user: User) -> str:
        """Return the default folder for jobs: the home of the Unix user that they run as; "" is the image's
        own.
        """
        if self._settings.containers:
            return ""
        return os.path.expanduser(f"~{user.unix_user}" if self._settings.as_submitters else "~")

    def complete(
        self,
        user: User,
        spec: Spec,
        *,
        launch_given: bool,
        coming: Mapping[JobId, Job] = _NONE,
        pod_fields: Collection[str] = (),
    ) -> Spec:
        """Return the spec as it will be stored. Raises NotAllowed, BadInput or DoesNotFit.

        `coming` are jobs that will be stored before it; `pod_fields` are allowed besides the settings' own.
        """
        authorization.require_member(user, "submit jobs")
        self._require_unix_user(user, spec)
        queues = {queue.name: queue for queue in self._picture.queues}
        if spec.queue in queues:
            authorization.require_queue(user, spec.queue, queues)
        mistakes = [
            *self._queue_mistakes(user, spec, queues.get(spec.queue)),
            *self._after_mistakes(user, spec, queues, coming),
            *_sweep_mistakes(spec, containers=self._settings.containers),
            *(
                self._cluster_mistakes(spec, pod_fields)
                if self._settings.containers
                else _container_mistakes(spec)
            ),
            *self._runner_mistakes(user, spec),
            *self._place_mistakes(user, spec),
            *self._secrets.mistakes(user, spec),
        ]
        if mistakes:
            raise BadInput(mistakes)
        complete = self._settled(spec, launch_given)
        if not spec.request.auto and (sentence := self.never_fits(complete)):
            raise DoesNotFit(sentence)
        if sentence := self._above_limit(user, complete):
            raise DoesNotFit(sentence)
        grow = "" if spec.sweep is None else spec.sweep.grow
        if grow and (sentence := self.never_fits(resized(complete, grow))):
            raise DoesNotFit(f"sweep.grow: {sentence}")
        return complete

    def _above_limit(self, user: User, spec: Spec) -> str:
        """Reason that the user's limit of GPUs never lets it run; "" if it could."""
        if user.max_gpus is None or not spec.has_workers or spec.request.auto:
            return ""
        return self._fitting.above_limit(spec, user.max_gpus)

    def reads_code(self, job: Job) -> bool:
        """Return whether `sized` will read its code: not for threads that must not block."""
        return self._sizes.matters(job)

    def sized(self, job: Job) -> Job:
        """Return the job with the size that Grus chooses, if that differs from the request.

        Raises DoesNotFit if nothing would be enough, as far as that is known for exactly the same work.
        """
        if not self._sizes.matters(job):
            return job
        digests = code_digest.read(self._store, job, containers=self._settings.containers)
        self._profiles.settle(job, *digests)
        found = self._sizes.of(job)
        if isinstance(found, SizedSpec):
            return with_size(job, found) if found.spec != job.spec else job
        if job.asked.auto or self._sizes.exact(job):
            self._profiles.forget(job.id)
            raise DoesNotFit(found.why if job.asked.auto else f"{found.why}; {SAME_WORK}")
        return job

    def planned(self, job: Job) -> Job:
        """Complete the spec of a job that is only planned and not remembered."""
        name = JobId(f"{job.id} {threading.get_ident()}")
        try:
            return replace(self.sized(replace(job, id=name)), id=job.id)
        finally:
            self._profiles.forget(name)

    def _require_unix_user(self, user: User, spec: Spec) -> None:
        """Raise if a server that is root would run a job as root for a user who is no administrator."""
        if not self._settings.as_submitters:
            return
        if not user.unix_user and not authorization.is_admin(user):
            raise NotAllowed(
                f"the server runs as root, and nobody has said whom the jobs of {user.name} run as; an "
                f"administrator does so with `grus user set {user.name} --unix-user NAME`"
            )
        if user.unix_user and spec.snapshot:
            rule = "must be false here: the server is root and would copy what you may not read"
            raise BadInput([Mistake("snapshot", rule, "true")])

    def _place_mistakes(self, user: User, spec: Spec) -> list[Mistake]:
        """Return errors for folders of the server's state, except one's own code: a job there would see what
        its sandbox hides.
        """
        if self._settings.containers:
            return []
        state = os.path.realpath(self._settings.state)
        named = (("workdir", spec.workdir), ("checkpoint.path", spec.checkpoint.path))
        found = [
            Mistake(field, "must not be in the server's state folder; choose another one", path)
            for field, path in named
            if path and Path(os.path.realpath(path)).is_relative_to(state)
        ]
        return [] if found and self._is_own_code(user, spec) else found

    def _is_own_code(self, user: User, spec: Spec) -> bool:
        """True if it runs, and saves, in the copy of code of an earlier job of the same user."""
        inside = not spec.checkpoint.path or Path(spec.checkpoint.path).is_relative_to(spec.workdir)
        return inside and any(job.spec.workdir == spec.workdir for job in self._store.jobs(user=user.name))

    def never_fits(self, spec: Spec) -> str:
        return self._fitting.never(spec)

    def require_size(self, spec: Spec, size: Range) -> None:
        """Raises DoesNotFit if no state of the pool could run the elastic job at this size."""
        if sentence := self._fitting.never_at(spec, size):
            raise DoesNotFit(sentence)

    def _cluster_mistakes(self, spec: Spec, pod_fields: Collection[str]) -> list[Mistake]:
        allowed = pod_allow_list.fields_for(spec.queue, self._settings.allowed_pod_fields)
        return [*_cluster_mistakes(spec), *pod_allow_list.refused_of_spec(spec, allowed.union(pod_fields))]

    def _queue_mistakes(self, user: User, spec: Spec, queue: Queue | None) -> list[Mistake]:
        if queue is None:
            queues = self._picture.by_name
            names = ", ".join(name for name in queues if authorization.sees_queue(user, name, queues))
            return [Mistake("queue", f"names no queue; there are {names or 'none'}", spec.queue)]
        children = [other.name for other in self._picture.queues if other.parent == queue.name]
        if children:
            rule = f"must be a queue without others below it, such as {children[0]}"
            return [Mistake("queue", rule, spec.queue)]
        if spec.priority > queue.max_priority:
            rule = f"must be at most {queue.max_priority} in queue {queue.name}"
            return [Mistake("priority", rule, str(spec.priority))]
        return []

    def _after_mistakes(
        self, user: User, spec: Spec, queues: authorization.Queues, coming: Mapping[JobId, Job]
    ) -> list[Mistake]:
        known = {other: coming.get(other) or self._visible(user, other, queues) for other in spec.after}
        asked = {one.job for one in spec.inputs}
        found = [
            Mistake(f"after[{index}]", "names no job", other)
            for index, other in enumerate(spec.after)
            if known[other] is None and other not in asked
        ]
        for one in spec.inputs:
            job = known[one.job]
            if rule := _input_problem(user, one, job) or self._gone(one, job):
                found.append(Mistake(f"inputs.{one.name}", rule, f"{one.job}.{one.output}"))
        return found

    def _gone(self, one: Input, job: Job | None) -> str:
        """Explain why a job's output is no longer available; empty if it is, or is yet to be made."""
        kept = next((left for left in job.artefacts if left.name == one.output), None) if job else None
        if job is None or kept is None or self._picture.vaults.has(job.user, kept):
            return ""
        return f"is not kept any more: run {job.spec.name} again"

    def _runner_mistakes(self, user: User, spec: Spec) -> list[Mistake]:
        if not (spec.inputs or spec.outputs) or self._picture.vaults.runner(user.unix_user) is not None:
            return []
        rule = (
            f"needs a Python 3.11 or newer that {user.unix_user} may run, and the server's own is closed to "
            "others: install one in /usr/bin"
        )
        return [Mistake("inputs" if spec.inputs else "outputs", rule)]

    def _visible(self, user: User, id_: JobId, queues: authorization.Queues) -> Job | None:
        try:
            job = self._store.job(id_)
        except NotFound:
            return None
        return job if authorization.sees_job(user, authorization.Owner.of(job), queues) else None

    def _settled(self, spec: Spec, launch_given: bool) -> Spec:
        if not launch_given:
            spec = with_launch(spec, self._launch(spec))
        if self._settings.containers:  # code in an image or a bundle is a copy already
            return replace(spec, snapshot=False)
        workdir = os.path.abspath(spec.workdir or ".")
        path = spec.checkpoint.path and os.path.join(workdir, spec.checkpoint.path)
        data = tuple(os.path.join(workdir, one) if is_path(one) else one for one in spec.data)
        return replace(spec, workdir=workdir, checkpoint=replace(spec.checkpoint, path=path), data=data)

    def _launch(self, spec: Spec) -> Launch:
        """Choose the launch: one process if one node can have it all, else a worker per GPU; a range always
        has a worker per GPU.
        """
        if spec.request.elastic is not None:
            return Launch.PER_GPU
        largest = max((len(node.devices) for node in self._picture.nodes), default=0)
        wanted = sum(role.replicas.high * role.replica.gpus for role in spec.request.roles)
        return Launch.PER_GPU if wanted > largest else Launch.ONCE

    def with_code(self, user: User, spec: Spec, key: str | None, id_: JobId) -> Spec:
        """Return the spec with its workdir copied. Reads and writes files: not for threads that must not
        block.
        """
        source = Path(spec.workdir)
        content, names = code_snapshot.fingerprint(source, self._settings.max_snapshot_bytes)
        name = code_snapshot.folder_name(user.name, key if key is not None else id_, content)
        target = self._settings.code / name
        code_snapshot.copy(source, names, target)
        return replace(spec, workdir=str(target))


def _sweep_mistakes(spec: Spec, *, containers: bool) -> list[Mistake]:
    """Return reasons why a sweep cannot be created here."""
    if spec.sweep is None:
        return []
    if containers:
        rule = "is not available on Kubernetes yet: submit the trials as jobs of their own"
        return [Mistake("sweep", rule)]
    lacking = samplers.missing(spec.sweep.sampler)
    return [Mistake("sweep.sampler", lacking, spec.sweep.sampler)] if lacking else []


def _container_mistakes(spec: Spec) -> list[Mistake]:
    """Return errors for features that only a pool on Kubernetes has."""
    rule = "is only for a pool on Kubernetes; here jobs run in their workdir, with their own PATH"
    said = [("", spec.image, spec.pod)]
    said += [(f"roles.{role.name}.", role.image, role.pod) for role in spec.request.roles]
    found = [Mistake(f"{at}image", rule, image) for at, image, _ in said if image]
    found += [Mistake(f"{at}pod", rule) for at, _, pod in said if pod]
    if is_bundle(spec.workdir):
        found.append(Mistake("workdir", rule, spec.workdir))
    return found


def _cluster_mistakes(spec: Spec) -> list[Mistake]:
    """Return errors for features that a pool on Kubernetes lacks."""
    served = "serve is not available in a pool on Kubernetes yet: its server does not reach into pods"
    found = [Mistake("type", served, spec.type.value)] if spec.type is JobType.SERVE else []
    if spec.request.shares:
        rule = (
            "is not available in a pool on Kubernetes yet: a pod gets whole GPUs or a slice; ask for a slice"
            " (gpu: 0.5 or gpu: 12GB) instead"
        )
        found.append(Mistake("resources.share", rule, "auto"))
    if _is_session(spec):
        found.append(Mistake("run", NO_SESSIONS))
    rule = "are not for a pool on Kubernetes yet: hand data on through a volume (pod: {spec: {volumes: …}})"
    both = (("inputs", spec.inputs), ("outputs", spec.outputs))
    return found + [Mistake(name, rule) for name, there in both if there]


def _is_session(spec: Spec) -> bool:
    return spec.type is JobType.DEV and any("grus.interactive.session" in word for word in spec.run)


def _input_problem(user: User, one: Input, job: Job | None) -> str:
    """Explain why this job cannot provide inputs; empty if it can."""
    if job is None:
        return "names no job"
    if job.user != user.name:
        return "is of another user: only what one's own jobs leave can be taken"
    names = [output.name for output in job.spec.outputs]
    if one.output not in names:
        return f"{job.spec.name} leaves no such output; " + (
            f"it leaves {', '.join(names)}" if names else "it has none"
        )
    return ""


def _first_size(spec: Spec) -> Range | None:
    """Return the initial size of a served model: its minimum number of GPUs, until somebody scales it."""
    role = spec.request.elastic if spec.type is JobType.SERVE else None
    return None if role is None else Range(role.replicas.low, role.replicas.low)


def new_job(id_: JobId, user: User, spec: Spec, now: float) -> Job:
    """A job as it is first stored."""
    return Job(
        id=id_,
        spec=spec,
        user=user.name,
        submitted_at=now,
        size=_first_size(spec),
        reason="waits for its turn; `grus why` says for what",
    )


def submitted(job: Job) -> Event:
    """The first event of a new job."""
    why = "" if job.sizing is None else f"; it takes {job.sizing.why}"
    text = f"{job.user} submitted {job.spec.name} to queue {job.spec.queue}{why}"
    return Event(at=job.submitted_at, kind="submitted", text=text, job=job.id)
