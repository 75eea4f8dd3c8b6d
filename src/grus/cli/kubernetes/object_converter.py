"""GpuJobs and pods of the API server as the values that the command prints.

The control plane's record of a job is in its object's status. An object that the control plane has not read
yet, or has refused, is shown by its request.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.api.parsing.validation_errors import read
from grus.api.wire_types.job import EventOut, ExitOut, JobOut, WorkerOut, job_out
from grus.controlplane.admission.submission import new_job
from grus.kubernetes.client.api import Api
from grus.kubernetes.client.resource_kinds import PODS, Object
from grus.kubernetes.names import ENDED, JOB, WAS, WORKER
from grus.model.errors import BadInput
from grus.model.identifiers import UserName
from grus.model.job_spec import with_launch
from grus.model.jobs import Job, Launch
from grus.operator.reconcile_next_step import document, id_of
from grus.store.kubernetes.job_status_codec import found

NOT_SEEN = "no controller has looked at it yet; `kubectl -n grus-system get pods` shows whether one runs"
SETUP = "setup"
PHASES = {"Pending": "starting", "Running": "running", "Succeeded": "ended", "Failed": "ended"}


def job_of(item: Object) -> Job | None:
    """The job on record; None before it is admitted."""
    known = found(item)
    return None if known is None else known.job


def as_asked(item: Object) -> Job | None:
    """The job that an object not yet admitted asks for; None if its spec is no job."""
    try:
        given = read(JobIn, {**document(item), "after": []})
        spec = to_spec(given)
    except BadInput:
        return None
    if spec.request.elastic is not None and not given.launch_given:
        spec = with_launch(spec, Launch.PER_GPU)
    return new_job(id_of(item), UserName(item["metadata"]["namespace"]), spec, 0.0)


def shown(item: Object) -> JobOut:
    """The job as `grus ps` shows it."""
    job = job_of(item)
    if job is not None:
        out = job_out(job)
        leaving = item["metadata"].get("deletionTimestamp") and not job.terminal
        return out.model_copy(update={"status": "stopping"}) if leaving else out
    spec, status = item.get("spec") or {}, item.get("status") or {}
    refused = status.get("phase") == "refused"
    return JobOut(
        id=id_of(item),
        name=item["metadata"]["name"],
        type=spec.get("type", "train"),
        queue=spec.get("queue", "default"),
        user=item["metadata"]["namespace"],
        phase="failed" if refused else "pending",
        status="refused" if refused else "pending",
        desired="run",
        reason=status.get("reason") or NOT_SEEN,
        request=str((spec.get("resources") or {}).get("gpu", "")),
        run=_command(spec.get("run")),
        submitted_at=item["metadata"].get("creationTimestamp", ""),
    )


def _command(run: object) -> str:
    return " ".join(map(str, run)) if isinstance(run, list) else str(run or "")


def events_of(item: Object) -> list[EventOut]:
    """The last things that happened to it, oldest first; their numbers are the job's versions."""
    known = found(item)
    if known is None:
        return []
    return [
        EventOut.from_model(replace(event, seq=version, job=known.job.id)) for version, event in known.events
    ]


# ------------------------------------------------------------------------------------------------- workers


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker's pod, and what its id says: which attempt, role and number."""

    id: str
    attempt: int
    role: str
    index: int
    born: int
    pod: Object

    @property
    def is_setup(self) -> bool:
        return self.role == SETUP and not self.born


def pods_of(api: Api, item: Object) -> list[Object]:
    """Return the pods of a job: running ones, and ended ones that are kept for their logs."""
    namespace, id_ = item["metadata"]["namespace"], shown(item).id
    return [pod for label in (JOB, ENDED) for pod in api.list(PODS, namespace, labels=f"{label}={id_}")[0]]


def workers_of(pods: Iterable[Object], roles: Iterable[str] = (), attempt: int | None = None) -> list[Worker]:
    """The workers of an attempt (the newest one), by their numbers; the one of the setup lines first."""
    known = [worker for pod in pods if (worker := _worker(pod)) is not None]
    chosen = attempt or max((worker.attempt for worker in known), default=0)
    order = {name: place for place, name in enumerate(roles)}
    return sorted(
        (worker for worker in known if worker.attempt == chosen),
        key=lambda worker: (
            not worker.is_setup,
            order.get(worker.role, 0),
            worker.role,
            worker.index,
            worker.born,
        ),
    )


def _worker(pod: Object) -> Worker | None:
    notes = pod["metadata"].get("annotations") or {}
    id_ = notes.get(WORKER) or notes.get(WAS, "")
    parts = id_.split(".")
    if len(parts) != 5:
        return None
    return Worker(id_, int(parts[1]), parts[2], int(parts[3]), int(parts[4]), pod)


def worker_out(worker: Worker, job: str, number: int | None) -> WorkerOut:
    status = worker.pod.get("status") or {}
    ended = _terminated(status)
    return WorkerOut(
        id=worker.id,
        job=job,
        attempt=worker.attempt,
        state=PHASES.get(status.get("phase", ""), "starting"),
        role=worker.role,
        number=number,
        started_at=status.get("startTime"),
        ended_at=ended.get("finishedAt"),
        exit=_exit(ended),
    )


def _terminated(status: Mapping[str, Any]) -> Mapping[str, Any]:
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated")
        if ended:
            return dict(ended)
    return {}


def _exit(ended: Mapping[str, Any]) -> ExitOut | None:
    if not ended:
        return None
    code = int(ended.get("exitCode", 0))
    return ExitOut(cause="exit code" if code else "done", code=code, text=ended.get("message", ""))
