"""Wire models of jobs: their state and results, in values that users and scripts can read.

Times are RFC 3339 in UTC, GPUs are numbers such as 2 or 0.5. Adding a field is always allowed; none is ever
renamed or given another meaning.
"""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from grus.api.profile_wire import ExpectedOut, TagOut
from grus.api.wire_types.base import Convert, Derived, GpuCount, Out, Source, Timestamp
from grus.model import saving
from grus.model.activity_labels import Tag
from grus.model.artifacts import Input, Output
from grus.model.identifiers import JobId
from grus.model.jobs import Job, Phase, Seat
from grus.model.sweep_search import Value
from grus.model.texts.job_text import request_text, run_text, size_text, status_word
from grus.model.texts.job_warnings import warnings_of
from grus.model.texts.units import gpu_number


class ExitOut(Out):
    cause: str
    code: int | None = None
    text: str = ""


class SeatOut(Out):
    role: str
    index: int
    node: str
    devices: tuple[str, ...] = ()
    gpus: Annotated[GpuCount, Source("held")] = 0
    """GPUs held, whole or a share of one."""
    leaving: bool = False
    joined: Annotated[bool, Derived(lambda seat: seat.joined > 0 and not seat.leaving)] = False
    """True if its worker is a member of the job's worker group."""


class ArtefactOut(Out):
    """Artifact that a job saved under a name."""

    name: str
    digest: str
    """Digest of its content: the same files have the same digest."""
    size: int
    """Bytes."""


class EtaOut(Out):
    """Expected start and end of a job, with a probability of 50% (P50) and of 90% (P90)."""

    at: Timestamp
    """Time of the forecast."""
    start_p50: Timestamp | None = None
    """None for a job that runs, and for times that lie too far away or are unknown."""
    start_p90: Timestamp | None = None
    end_p50: Timestamp | None = None
    end_p90: Timestamp | None = None
    unknown: str = ""
    """Reason why a time is unknown."""


def _request(job: Job) -> str:
    return request_text(job.spec.request) if job.size is None else size_text(job.spec, job.size)


def _nodes(seats: Iterable[Seat]) -> list[str]:
    return list(dict.fromkeys(seat.node for seat in seats))


def _not_before(job: Job) -> float | None:
    return job.not_before if job.not_before and job.phase is Phase.PENDING else None


def _references(inputs: Iterable[Input]) -> dict[str, str]:
    return {one.name: f"{one.job}.{one.output}" for one in inputs}


def _names(outputs: Iterable[Output]) -> list[str]:
    return [one.name for one in outputs]


class JobOut(Out):
    id: str
    name: Annotated[str, Source("spec.name")]
    type: Annotated[str, Source("spec.type")]
    queue: Annotated[str, Source("spec.queue")]
    user: str
    phase: str
    status: Annotated[str, Derived(status_word)]
    """Phase as a word for users: also `stopping`, and `pausing` as soon as a pause is requested."""
    desired: str
    reason: str = ""
    attempt: int = 0
    generation: int = 0
    team: Annotated[int, Derived(lambda job: job.team if job.seats else 0)] = 0
    """Number of the worker group that computes together now; 0 for a program without one."""
    lost: int = 0
    """Workers that were lost and replaced while the others continued."""
    gpus: Annotated[GpuCount, Source("held")] = 0
    """GPUs held now."""
    guest_of: Annotated[str | None, Derived(lambda job: job.guest_of if job.seats else None)] = None
    """Primary job whose GPU it shares, while it does."""
    request: Annotated[str, Derived(_request)] = ""
    """Requested size, or the size that Grus chose: 2..8, 0.5, A100:4."""
    asked: Annotated[str, Derived(lambda job: request_text(job.asked) if job.sizing else "")] = ""
    """Original request, if Grus chose the size: auto."""
    sizing: Annotated[str, Derived(lambda job: job.sizing.why if job.sizing else "")] = ""
    """Reason for its size, if Grus chose it."""
    size: Annotated[str | None, Convert(str)] = None
    """Range set by `scale`; None for the request's own."""
    unscaled: Annotated[str, Derived(lambda job: request_text(job.spec.request) if job.size else "")] = ""
    """Request before `scale` set another size; empty if `scale` was not used."""
    priority: Annotated[int, Source("spec.priority")] = 0
    launch: Annotated[str, Source("spec.launch")] = ""
    resize: Annotated[str, Source("spec.resize")] = ""
    run: Annotated[str, Source("spec"), Convert(run_text)] = ""
    workdir: Annotated[str, Source("spec.workdir")] = ""
    secrets: Annotated[dict[str, str], Source("spec.secrets"), Convert(dict)] = Field(default_factory=dict)
    """Variables that hold secrets, with the names of the secrets; values are never shown."""
    nodes: Annotated[tuple[str, ...], Source("seats"), Convert(_nodes)] = ()
    seats: tuple[SeatOut, ...] = ()
    after: Annotated[tuple[str, ...], Source("spec.after")] = ()
    submitted_at: Timestamp = ""
    first_started_at: Timestamp | None = None
    started_at: Timestamp | None = None
    """Start of the present or last attempt."""
    ended_at: Timestamp | None = None
    saved_at: Timestamp | None = None
    saves: Annotated[bool, Derived(saving.saves)] = True
    """True if it is known to save its work when it is paused; else a pause restarts it from zero."""
    warnings: Annotated[tuple[str, ...], Derived(warnings_of)] = ()
    """Warnings about pitfalls in the request."""
    not_before: Annotated[Timestamp | None, Derived(_not_before)] = None
    """Time until which it waits after a failure."""
    exit: ExitOut | None = None
    failures: int = 0
    retries: Annotated[int, Source("spec.retries")] = 0
    paused_by: str | None = None
    progress: Annotated[dict[str, float], Convert(dict)] = Field(default_factory=dict)
    version: int = 0
    eta: EtaOut | None = None
    """Expected start and end; None once it has ended, and before the first forecast."""
    tag: TagOut | None = None
    """Recognized activity of the running job."""
    data: Annotated[tuple[str, ...], Source("spec.data")] = ()
    """Data that it declares."""
    params: Annotated[dict[str, Value], Source("spec.params"), Convert(dict)] = Field(default_factory=dict)
    """Parameters chosen for this run."""
    sweep: Annotated[str | None, Derived(lambda job: job.spec.trial and job.spec.trial.sweep)] = None
    """Sweep of which it is a trial."""
    trial: Annotated[int | None, Derived(lambda job: job.spec.trial and job.spec.trial.number)] = None
    """Number of the trial."""
    verdict: str = ""
    """Latest verdict of its sweep."""
    graph: Annotated[str, Derived(lambda job: job.spec.graph or "")] = ""
    """First job of its submission; empty for one submitted alone."""
    inputs: Annotated[dict[str, str], Source("spec.inputs"), Convert(_references)] = Field(
        default_factory=dict
    )
    """Inputs: a name → the job whose output it is, and the name there (JOB.OUTPUT)."""
    outputs: Annotated[tuple[str, ...], Source("spec.outputs"), Convert(_names)] = ()
    """Names of its outputs."""
    same_as: str | None = None
    """Earlier job whose outputs it has taken over without running, because nothing has changed since."""
    artefacts: tuple[ArtefactOut, ...] = ()
    """Artifacts of its outputs, once it has succeeded."""


class EventOut(Out):
    seq: int
    at: Timestamp
    kind: str
    text: str
    job: str | None = None
    attempt: int = 0
    generation: int = 0
    """Membership of the attempt from here on; a resize makes the next one."""
    gpus: Annotated[GpuCount | None, Source("held")] = None
    """GPUs that the job holds from here on; null if not recorded."""
    working: GpuCount | None = None
    """GPUs of the workers that compute together from here on; 0 while it does not run."""
    lost: int | None = None
    """Workers lost so far while the others continued."""


class WorkerOut(Out):
    id: str
    job: str
    attempt: int
    state: str
    role: Annotated[str, Derived(lambda worker: (*worker.id.split("."), "", "", "")[2])] = ""
    number: int | None = None
    """Number among the job's workers, as `log?worker=` accepts it."""
    pid: int | None = None
    started_at: Timestamp | None = None
    ended_at: Timestamp | None = None
    exit: ExitOut | None = None


class UsageOut(Out):
    worker: str
    job: Annotated[str, Derived(lambda usage: usage.worker.partition(".")[0])]
    at: Timestamp
    cpu_seconds: float
    memory: int
    gpu_utilisation: float | None = None
    gpu_memory: int | None = None
    disk_read: int | None = None
    disk_write: int | None = None
    network_in: int | None = None
    network_out: int | None = None


class HolderOut(Out):
    job: str
    gpus: float | int


def holders_out(holders: Iterable[tuple[JobId, int]]) -> list[HolderOut]:
    """Return holders of GPUs with their micro-GPUs for the wire."""
    return [HolderOut(job=job, gpus=gpu_number(amount)) for job, amount in holders]


class WhyOut(Out):
    job: str
    phase: str = ""
    code: str
    sentence: str
    holders: Annotated[tuple[HolderOut, ...], Convert(holders_out)] = ()
    """Jobs that hold the resources that this job waits for."""
    change: str = ""
    """Cheapest change that starts it now; empty if there is none."""
    notes: tuple[str, ...] = ()
    """Notes: recognized activity, announced actions, and a smaller request that would be enough."""
    eta: EtaOut | None = None


class AffectedOut(Out):
    job: str
    action: str
    """start, pause, resize or requeue."""
    reason: str = ""


def _affected_out(affected: Iterable[tuple[JobId, str, str]]) -> list[AffectedOut]:
    return [AffectedOut(job=job, action=action, reason=reason) for job, action, reason in affected]


class PlanOut(Out):
    fits: bool
    """True if the job fits into some state of this pool."""
    starts: str
    """now, later or never."""
    sentence: str
    launch: str = ""
    sizing: str = ""
    """Chosen size and the reason, if Grus chooses the size."""
    nodes: Annotated[tuple[str, ...], Source("seats"), Convert(_nodes)] = ()
    seats: tuple[SeatOut, ...] = ()
    affected: Annotated[tuple[AffectedOut, ...], Convert(_affected_out)] = ()
    change: str = ""
    """Cheapest change with which it would start now; empty if there is none."""
    eta: Annotated[EtaOut | None, Source("foreseen")] = None
    expected: ExpectedOut | None = None
    """Expected usage and duration, from earlier runs; None if no similar job has run."""
    warnings: tuple[str, ...] = ()
    """Warnings about pitfalls in the request."""


def job_out(job: Job, eta: object = None, tag: Tag | None = None) -> JobOut:
    """Return a job for the wire, with its forecast and recognized activity if they are known."""
    return JobOut.from_model(job, eta=eta, tag=tag)
