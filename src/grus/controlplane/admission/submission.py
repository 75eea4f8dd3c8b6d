"""Admission of jobs: check what a user submits, complete it, make the jobs to store and their first events.

The one pipeline for single jobs, workflows, GpuJobs and dry runs. It neither waits for the loop nor writes to
the store.
"""

import os
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grus.api.inputs import pod_field_policy
from grus.controlplane.admission import code_snapshot
from grus.controlplane.admission.fit_check import FitCheck
from grus.controlplane.admission.spec_validation import (
    cluster_mistakes,
    container_mistakes,
    input_problem,
    sweep_mistakes,
)
from grus.controlplane.fingerprint import code_digest
from grus.controlplane.gpu_sizing.memory_sizing import SizedSpec
from grus.controlplane.gpu_sizing.size_selection import JobSizer, with_size
from grus.controlplane.reconciler.cluster_state_cache import ClusterState
from grus.controlplane.security import rbac
from grus.controlplane.security.secret_store import SecretStore
from grus.controlplane.settings import Settings
from grus.model.artifacts import Input
from grus.model.errors import BadInput, DoesNotFit, Mistake, NotAllowed, NotFound
from grus.model.identifiers import JobId, UserName
from grus.model.interfaces import USERS, Event, NewJob, Store, User
from grus.model.job_spec import is_path, resized, with_launch
from grus.model.jobs import Job, JobType, Launch, Spec
from grus.model.queues import Queue
from grus.model.resources import Range

SAME_WORK = (
    "so ended a job with the same code, command and environment variables; what differs in one of them is "
    "other work, and is tried"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """Job that a user asks for. Its id is settled, so that other jobs of the same submission can name it."""

    id: JobId
    spec: Spec
    launch_given: bool = True
    saves_as: str = ""
    """Checkpoint name (`saves_as`) of the job from whose checkpoints it continues."""
    pod_fields: Collection[str] = ()
    """Fields of `pod` that it may set besides those of the settings."""
    key: str | None = None
    """Idempotency key: a second submission with it finds the first job."""


class Submission:
    """Admission pipeline: `check`, then `jobs`."""

    def __init__(
        self, store: Store, picture: ClusterState, settings: Settings, secrets: SecretStore | None = None
    ) -> None:
        self._store = store
        self._secrets = secrets or SecretStore(settings, lambda: store.find(USERS))
        self._picture = picture
        self._settings = settings
        self._fit = FitCheck(picture)
        self._profiles = picture.profiles
        self._sizes = JobSizer(picture.profiles, lambda: picture.nodes, self._fit.never)

    def home(self, user: User) -> str:
        """Return the default folder for jobs: the home of the Unix user that they run as; "" is the image's
        own.
        """
        if self._settings.containers:
            return ""
        return os.path.expanduser(f"~{user.unix_user}" if self._settings.as_submitters else "~")

    def check(self, user: User, requests: Sequence[JobRequest]) -> list[JobRequest]:
        """Return the requests as they will be stored; each may name those before it.

        Raises NotAllowed, or BadInput or DoesNotFit with the errors of all of them.
        """
        coming = {one.id: new_job(one.id, user.name, one.spec, 0.0) for one in requests}
        found: list[JobRequest] = []
        mistakes: list[Mistake] = []
        too_large: list[str] = []
        alone = len(requests) == 1
        for one in requests:
            try:
                found.append(replace(one, spec=self._complete(user, one, coming)))
            except BadInput as error:
                mistakes += error.mistakes if alone else within(one.spec.name, error.mistakes)
            except DoesNotFit as error:
                too_large.append(str(error) if alone else f"{one.spec.name}: {error}")
        if mistakes:
            raise BadInput(mistakes)
        if too_large:
            raise DoesNotFit("; ".join(too_large))
        return found

    def reads_files(self, user: User, checked: Sequence[JobRequest]) -> bool:
        """Return whether `jobs` will read or write files: not for threads that must not block."""
        return any(
            one.spec.snapshot or self._sizes.matters(new_job(one.id, user.name, one.spec, 0.0))
            for one in checked
        )

    def jobs(self, user: User, checked: Sequence[JobRequest], now: float) -> list[NewJob]:
        """Return the jobs to store, with their code copied and their size chosen. Raises DoesNotFit."""
        outputs = [path for one in checked for path in _outputs(one.spec)]
        made = [self._job(user, one, outputs, now) for one in checked]
        return [NewJob(job, submitted(job), one.key) for job, one in zip(made, checked, strict=True)]

    def _job(self, user: User, request: JobRequest, outputs: Sequence[str], now: float) -> Job:
        job = new_job(request.id, user.name, request.spec, now)
        if job.spec.graph is not None and job.spec.outputs:
            # A tree that is too large to read matches no earlier one.
            job = replace(job, files=code_digest.files(self._store, job, outputs) or job.id)
        if job.spec.snapshot:
            job = replace(job, spec=self._with_code(user, request))
        return replace(self._sized(job), saves_as=request.saves_as)

    def _complete(self, user: User, request: JobRequest, coming: Mapping[JobId, Job]) -> Spec:
        """Return the spec as it will be stored; `coming` are the jobs of the same submission."""
        spec = request.spec
        rbac.require_member(user, "submit jobs")
        self._require_unix_user(user, spec)
        queues = {queue.name: queue for queue in self._picture.queues}
        if spec.queue in queues:
            rbac.require_queue(user, spec.queue, queues)
        mistakes = [
            *self._queue_mistakes(user, spec, queues.get(spec.queue)),
            *self._after_mistakes(user, spec, queues, coming),
            *sweep_mistakes(spec, containers=self._settings.containers),
            *(
                self._cluster_mistakes(spec, request.pod_fields)
                if self._settings.containers
                else container_mistakes(spec)
            ),
            *self._runner_mistakes(user, spec),
            *self._place_mistakes(user, spec),
            *self._secrets.mistakes(user, spec),
        ]
        if mistakes:
            raise BadInput(mistakes)
        complete = self._settled(spec, request.launch_given)
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
        return self._fit.above_limit(spec, user.max_gpus)

    def _sized(self, job: Job) -> Job:
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

    def planned(self, user: User, spec: Spec, now: float, *, launch_given: bool) -> Job:
        """Return the job that a submission would store; nothing is kept. Raises as a submission does."""
        request = JobRequest(id=JobId("plan"), spec=spec, launch_given=launch_given)
        (checked,) = self.check(user, [request])
        name = JobId(f"{request.id} {threading.get_ident()}")
        try:
            return replace(self._sized(new_job(name, user.name, checked.spec, now)), id=request.id)
        finally:
            self._profiles.forget(name)

    def _require_unix_user(self, user: User, spec: Spec) -> None:
        """Raise if a server that is root would run a job as root for a user who is no administrator."""
        if not self._settings.as_submitters:
            return
        if not user.unix_user and not rbac.is_admin(user):
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
        return self._fit.never(spec)

    def require_size(self, spec: Spec, size: Range) -> None:
        """Raises DoesNotFit if no state of the pool could run the elastic job at this size."""
        if sentence := self._fit.never_at(spec, size):
            raise DoesNotFit(sentence)

    def _cluster_mistakes(self, spec: Spec, pod_fields: Collection[str]) -> list[Mistake]:
        allowed = pod_field_policy.fields_for(spec.queue, self._settings.allowed_pod_fields)
        return [*cluster_mistakes(spec), *pod_field_policy.refused_of_spec(spec, allowed.union(pod_fields))]

    def _queue_mistakes(self, user: User, spec: Spec, queue: Queue | None) -> list[Mistake]:
        if queue is None:
            queues = self._picture.by_name
            names = ", ".join(name for name in queues if rbac.sees_queue(user, name, queues))
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
        self, user: User, spec: Spec, queues: rbac.Queues, coming: Mapping[JobId, Job]
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
            if rule := input_problem(user, one, job) or self._gone(one, job):
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

    def _visible(self, user: User, id_: JobId, queues: rbac.Queues) -> Job | None:
        try:
            job = self._store.job(id_)
        except NotFound:
            return None
        return job if rbac.sees_job(user, rbac.Owner.of(job), queues) else None

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

    def _with_code(self, user: User, request: JobRequest) -> Spec:
        """Return the spec with its workdir copied."""
        source = Path(request.spec.workdir)
        content, names = code_snapshot.fingerprint(source, self._settings.max_snapshot_bytes)
        key = request.key if request.key is not None else request.id
        target = self._settings.code / code_snapshot.folder_name(user.name, key, content)
        code_snapshot.copy(source, names, target)
        return replace(request.spec, workdir=str(target))


def _first_size(spec: Spec) -> Range | None:
    """Return the initial size of a served model: its minimum number of GPUs, until somebody scales it."""
    role = spec.request.elastic if spec.type is JobType.SERVE else None
    return None if role is None else Range(role.replicas.low, role.replicas.low)


def new_job(id_: JobId, user: UserName, spec: Spec, now: float) -> Job:
    """A job as it is first stored."""
    return Job(
        id=id_,
        spec=spec,
        user=user,
        submitted_at=now,
        size=_first_size(spec),
        reason="waits for its turn; `grus why` says for what",
    )


def submitted(job: Job) -> Event:
    """The first event of a new job."""
    why = "" if job.sizing is None else f"; it takes {job.sizing.why}"
    text = f"{job.user} submitted {job.spec.name} to queue {job.spec.queue}{why}"
    return Event(at=job.submitted_at, kind="submitted", text=text, job=job.id)


def within(name: str, mistakes: Sequence[Mistake]) -> list[Mistake]:
    """Return the errors with the name of their job, which has others beside it."""
    return [replace(one, field=f"{name}.{one.field}") for one in mistakes]


def _outputs(spec: Spec) -> list[str]:
    """Return absolute paths in the workdir to which the job declares that it writes."""
    paths = [output.path for output in spec.outputs if output.path]
    paths += [spec.checkpoint.path] if spec.checkpoint.path else []
    return [f"{spec.workdir.rstrip('/')}/{path}" if not path.startswith("/") else path for path in paths]
