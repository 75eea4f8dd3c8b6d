"""Admission: turns a GpuJob into the job to record, or returns every reason against it.

It reads known data and writes nothing.

The checks are those of every other API (`JobIn`, `Submission`), and one more: whether the namespace may use
the queue. Names in `after` are those of other GpuJobs of the namespace.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.api.inputs.secrets import looks_secret
from grus.api.parsing.validation_errors import read
from grus.api.wire_types.timestamps import parse_time
from grus.controlplane.admission.submission import JobRequest, Submission
from grus.controlplane.jobs import user_actions
from grus.controlplane.jobs.lifecycle import JobChange
from grus.kubernetes.api_objects.job_namespaces import system_mistake
from grus.kubernetes.client.resource_kinds import Object
from grus.model.errors import BadInput, Conflict, DoesNotFit, GrusError, Mistake, NotAllowed
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.interfaces import AccessRole, Event, User
from grus.model.jobs import Job, Spec
from grus.model.queues import DEFAULT_QUEUE
from grus.operator.namespaces import Openness, refused
from grus.operator.reconcile_next_step import asked, document, id_of, size

KUBECTL = UserName("kubectl")
"""User name that events give for changes of objects."""
MANAGER = User(name=KUBECTL, role=AccessRole.ADMIN)
RECENT = 5.0
"""Seconds: an object younger than that was submitted when it is first seen, which is finer than its own
time."""


class Refusal(Exception):
    """The object does not become a job as it is. Never
    final: the object, the queues or the pool may change.
    """

    def __init__(self, reason: str, mistakes: list[Mistake]) -> None:
        self.reason = reason
        self.mistakes = mistakes
        super().__init__("; ".join(str(mistake) for mistake in mistakes))


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Data that admission depends on."""

    queues: Callable[[], Mapping[QueueName, Openness]]
    labels: Callable[[str], Mapping[str, str]]
    """Labels of a namespace, by its name."""
    jobs: Callable[[str], Mapping[str, JobId]]
    """The ids of a namespace's GpuJobs by their names."""
    pod_fields: Callable[[Spec, str], Collection[str]] = lambda *_: ()
    """Fields of `pod` that an administrator allows to a job in a namespace."""
    system: str = ""
    """The controller's own namespace."""


class Admission:
    """Admission of GpuJob objects: accepts or refuses them."""

    def __init__(self, submission: Submission, around: Surroundings) -> None:
        self._submission = submission
        self._around = around

    def judge(self, found: Object, now: float) -> JobChange:
        """Return the job to store, with its first event. Raises Refusal with all errors."""
        namespace = found["metadata"]["namespace"]
        if (system := system_mistake(namespace, self._around.system)) is not None:
            raise Refusal("NotAllowed", [system])
        mistakes = self._queue_mistakes(found, namespace)
        given, more = _read(found)
        mistakes += more
        if given is None:
            raise Refusal("BadInput", mistakes)
        spec = self._spec(given, namespace, mistakes)
        user = User(name=UserName(namespace))
        checked = None if spec is None else self._check(user, spec, given, id_of(found), mistakes)
        if mistakes or checked is None:
            raise Refusal("BadInput", mistakes)
        job = self._job(user, checked, _submitted(found, now))
        why = "" if job.sizing is None else f"; it takes {job.sizing.why}"
        text = f"{namespace}/{found['metadata']['name']} was submitted to queue {job.spec.queue}{why}"
        text += _exposed(job.spec)
        event = Event(at=job.submitted_at, kind="submitted", text=text, job=job.id)
        return JobChange(self._as_wished(found, job, now), event)

    def _queue_mistakes(self, found: Object, namespace: str) -> list[Mistake]:
        queue = (found.get("spec") or {}).get("queue") or DEFAULT_QUEUE
        why = refused(QueueName(str(queue)), namespace, self._around.labels(namespace), self._around.queues())
        return [] if why is None else [why]

    def _spec(self, given: JobIn, namespace: str, mistakes: list[Mistake]) -> Spec | None:
        try:
            return to_spec(given, after=self._around.jobs(namespace) if given.after else {})
        except BadInput as error:
            mistakes += error.mistakes
            return None

    def _check(
        self, user: User, spec: Spec, given: JobIn, id_: JobId, mistakes: list[Mistake]
    ) -> JobRequest | None:
        fields = self._around.pod_fields(spec, user.name)
        request = JobRequest(id=id_, spec=spec, launch_given=given.launch_given, pod_fields=fields)
        try:
            return self._submission.check(user, [request])[0]
        except BadInput as error:
            told = {mistake.field for mistake in mistakes}
            mistakes += [mistake for mistake in error.mistakes if mistake.field not in told]
        except (DoesNotFit, NotAllowed) as error:
            if not mistakes:
                raise Refusal(_word(error), [Mistake("spec", str(error))]) from None
            mistakes.append(Mistake("spec", str(error)))
        return None

    def _job(self, user: User, checked: JobRequest, submitted_at: float) -> Job:
        try:
            return self._submission.jobs(user, [checked], submitted_at)[0].job
        except DoesNotFit as error:
            raise Refusal(_word(error), [Mistake("spec", str(error))]) from None

    def _as_wished(self, found: Object, job: Job, now: float) -> Job:
        """Pause or pin the job from the beginning, if the object requests it."""
        want = asked(found)
        mistakes = []
        if want.replicas is not None:
            try:
                change = user_actions.scale(job, size(want.replicas), KUBECTL, now)
                job = replace(job, size=change.job.size) if change is not None else job
            except (BadInput, Conflict) as error:
                mistakes.append(Mistake("replicas", str(error), str(want.replicas)))
        if mistakes:
            raise Refusal("BadInput", mistakes)
        if not want.paused:
            return job
        paused = user_actions.pause(job, KUBECTL, now)
        return paused.job if paused is not None else job


def _read(found: Object) -> tuple[JobIn | None, list[Mistake]]:
    try:
        return read(JobIn, document(found)), []
    except BadInput as error:
        return None, error.mistakes


def _exposed(spec: Spec) -> str:
    """A warning of variables that are probably secrets, for the job's first event; empty for none."""
    names = [name for name, _ in spec.env if looks_secret(name)]
    if not names:
        return ""
    return f"; everybody who sees the job can read {', '.join(names)} in env: use secrets"


def _word(error: GrusError) -> str:
    return "DoesNotFit" if isinstance(error, DoesNotFit) else "NotAllowed"


def _submitted(found: Object, now: float) -> float:
    """Its age, which decides its place: the object's own time has whole seconds only."""
    made = parse_time(found["metadata"]["creationTimestamp"])
    return now if abs(now - made) < RECENT else made
