"""Wire models of jobs: their state and results, in values that users and scripts can read.

Times are RFC 3339 in UTC, GPUs are numbers such as 2 or 0.5. Adding a field is always allowed; none is ever
renamed or given another meaning.
"""

from collections.abc import Iterable

from pydantic import Field

from grus.api.inputs.job_warnings import warnings_of
from grus.api.profile_wire import ExpectedOut, TagOut
from grus.api.units import GpuAsk, gpu_number, render_gpu
from grus.api.wire_types.base import Out
from grus.api.wire_types.timestamps import maybe_rfc3339, rfc3339
from grus.model.artefacts import Artifact
from grus.model.identifiers import JobId
from grus.model.interfaces import Event, Usage, WorkerStatus
from grus.model.jobs import Desired, Exit, Job, JobType, Phase, Seat, Spec
from grus.model.resources import Range, Replica, Request
from grus.model.results import words_of
from grus.model.saving import saves


class ExitOut(Out):
    cause: str
    code: int | None = None
    text: str = ""


class SeatOut(Out):
    role: str
    index: int
    node: str
    devices: tuple[str, ...] = ()
    gpus: float | int = 0
    """GPUs held, whole or a share of one."""
    leaving: bool = False
    joined: bool = False
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

    at: str
    """Time of the forecast."""
    start_p50: str | None = None
    """None for a job that runs, and for times that lie too far away or are unknown."""
    start_p90: str | None = None
    end_p50: str | None = None
    end_p90: str | None = None
    unknown: str = ""
    """Reason why a time is unknown."""


class JobOut(Out):
    id: str
    name: str
    type: str
    queue: str
    user: str
    phase: str
    status: str
    """Phase as a word for users: also `stopping`, and `pausing` as soon as a pause is requested."""
    desired: str
    reason: str = ""
    attempt: int = 0
    generation: int = 0
    team: int = 0
    """Number of the worker group that computes together now; 0 for a program without one."""
    lost: int = 0
    """Workers that were lost and replaced while the others continued."""
    gpus: float | int = 0
    """GPUs held now."""
    guest_of: str | None = None
    """Primary job whose GPU it shares, while it does."""
    request: str = ""
    """Requested size, or the size that Grus chose: 2..8, 0.5, A100:4."""
    asked: str = ""
    """Original request, if Grus chose the size: auto."""
    sizing: str = ""
    """Reason for its size, if Grus chose it."""
    size: str | None = None
    """Range set by `scale`; None for the request's own."""
    unscaled: str = ""
    """Request before `scale` set another size; empty if `scale` was not used."""
    priority: int = 0
    launch: str = ""
    resize: str = ""
    run: str = ""
    workdir: str = ""
    secrets: dict[str, str] = Field(default_factory=dict)
    """Variables that hold secrets, with the names of the secrets; values are never shown."""
    nodes: tuple[str, ...] = ()
    seats: tuple[SeatOut, ...] = ()
    after: tuple[str, ...] = ()
    submitted_at: str = ""
    first_started_at: str | None = None
    started_at: str | None = None
    """Start of the present or last attempt."""
    ended_at: str | None = None
    saved_at: str | None = None
    saves: bool = True
    """True if it is known to save its work when it is paused; else a pause restarts it from zero."""
    warnings: tuple[str, ...] = ()
    """Warnings about pitfalls in the request."""
    not_before: str | None = None
    """Time until which it waits after a failure."""
    exit: ExitOut | None = None
    failures: int = 0
    retries: int = 0
    paused_by: str | None = None
    progress: dict[str, float] = Field(default_factory=dict)
    version: int = 0
    eta: EtaOut | None = None
    """Expected start and end; None once it has ended, and before the first forecast."""
    tag: TagOut | None = None
    """Recognized activity of the running job."""
    data: tuple[str, ...] = ()
    """Data that it declares."""
    params: dict[str, bool | int | float | str] = Field(default_factory=dict)
    """Parameters chosen for this run."""
    sweep: str | None = None
    """Sweep of which it is a trial."""
    trial: int | None = None
    """Number of the trial."""
    verdict: str = ""
    """Latest verdict of its sweep."""
    graph: str = ""
    """First job of its submission; empty for one submitted alone."""
    inputs: dict[str, str] = Field(default_factory=dict)
    """Inputs: a name → the job whose output it is, and the name there (JOB.OUTPUT)."""
    outputs: tuple[str, ...] = ()
    """Names of its outputs."""
    same_as: str | None = None
    """Earlier job whose outputs it has taken over without running, because nothing has changed since."""
    artefacts: tuple[ArtefactOut, ...] = ()
    """Artifacts of its outputs, once it has succeeded."""


class EventOut(Out):
    seq: int
    at: str
    kind: str
    text: str
    job: str | None = None
    attempt: int = 0
    generation: int = 0
    """Membership of the attempt from here on; a resize makes the next one."""
    gpus: float | int | None = None
    """GPUs that the job holds from here on; null if not recorded."""
    working: float | int | None = None
    """GPUs of the workers that compute together from here on; 0 while it does not run."""
    lost: int | None = None
    """Workers lost so far while the others continued."""


class WorkerOut(Out):
    id: str
    job: str
    attempt: int
    state: str
    role: str = ""
    number: int | None = None
    """Number among the job's workers, as `log?worker=` accepts it."""
    pid: int | None = None
    started_at: str | None = None
    ended_at: str | None = None
    exit: ExitOut | None = None


class UsageOut(Out):
    worker: str
    job: str
    at: str
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


class WhyOut(Out):
    job: str
    phase: str = ""
    code: str
    sentence: str
    holders: tuple[HolderOut, ...] = ()
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


class PlanOut(Out):
    fits: bool
    """True if the job fits into some state of this pool."""
    starts: str
    """now, later or never."""
    sentence: str
    launch: str = ""
    sizing: str = ""
    """Chosen size and the reason, if Grus chooses the size."""
    nodes: tuple[str, ...] = ()
    seats: tuple[SeatOut, ...] = ()
    affected: tuple[AffectedOut, ...] = ()
    change: str = ""
    """Cheapest change with which it would start now; empty if there is none."""
    eta: EtaOut | None = None
    expected: ExpectedOut | None = None
    """Expected usage and duration, from earlier runs; None if no similar job has run."""
    warnings: tuple[str, ...] = ()
    """Warnings about pitfalls in the request."""


# ------------------------------------------------------------------------------------------ model to wire


def job_out(job: Job, eta: EtaOut | None = None, tag: TagOut | None = None) -> JobOut:
    spec = job.spec
    return JobOut(
        id=job.id,
        name=spec.name,
        type=spec.type.value,
        queue=spec.queue,
        user=job.user,
        phase=job.phase.value,
        status=status_word(job),
        desired=job.desired.value,
        reason=job.reason,
        attempt=job.attempt,
        generation=job.generation,
        team=job.team if job.seats else 0,
        lost=job.lost,
        gpus=gpu_number(job.held),
        guest_of=job.guest_of if job.seats else None,
        request=request_text(spec.request) if job.size is None else size_text(spec, job.size),
        asked="" if job.sizing is None else request_text(job.sizing.asked),
        sizing="" if job.sizing is None else job.sizing.why,
        size=None if job.size is None else str(job.size),
        unscaled="" if job.size is None else request_text(spec.request),
        priority=spec.priority,
        launch=spec.launch.value,
        resize=spec.resize.value,
        run=run_text(spec),
        workdir=spec.workdir,
        secrets=dict(spec.secrets),
        nodes=tuple(dict.fromkeys(seat.node for seat in job.seats)),
        seats=tuple(map(seat_out, job.seats)),
        after=spec.after,
        submitted_at=rfc3339(job.submitted_at),
        first_started_at=maybe_rfc3339(job.first_started_at),
        started_at=maybe_rfc3339(job.started_at),
        ended_at=maybe_rfc3339(job.ended_at),
        saved_at=maybe_rfc3339(job.saved_at),
        saves=saves(job),
        warnings=warnings_of(job),
        not_before=rfc3339(job.not_before) if job.not_before and job.phase is Phase.PENDING else None,
        exit=exit_out(job.exit),
        failures=job.failures,
        retries=spec.retries,
        paused_by=None if job.paused_by is None else job.paused_by.value,
        progress=dict(job.progress),
        version=job.version,
        eta=eta,
        tag=tag,
        data=spec.data,
        params=dict(spec.params),
        sweep=None if spec.trial is None else spec.trial.sweep,
        trial=None if spec.trial is None else spec.trial.number,
        verdict=job.verdict,
        graph=spec.graph or "",
        inputs={one.name: f"{one.job}.{one.output}" for one in spec.inputs},
        outputs=tuple(output.name for output in spec.outputs),
        same_as=job.same_as,
        artefacts=tuple(map(artefact_out, job.artefacts)),
    )


def artefact_out(artefact: Artifact) -> ArtefactOut:
    return ArtefactOut(name=artefact.name, digest=artefact.digest, size=artefact.size)


def eta_out(
    at: float,
    *,
    start: tuple[float | None, float | None],
    end: tuple[float | None, float | None],
    unknown: str = "",
) -> EtaOut:
    """Return P50 and P90 of start and end."""
    return EtaOut(
        at=rfc3339(at),
        start_p50=maybe_rfc3339(start[0]),
        start_p90=maybe_rfc3339(start[1]),
        end_p50=maybe_rfc3339(end[0]),
        end_p90=maybe_rfc3339(end[1]),
        unknown=unknown,
    )


def status_word(job: Job) -> str:
    """Return the phase in the users' words, including a requested change that is not done yet."""
    if job.terminal:
        return job.phase.value
    if job.desired is Desired.STOP:
        return "stopping"
    if job.desired is Desired.PAUSE and job.phase is not Phase.PAUSED:
        return "pausing"
    return job.phase.value


def request_text(request: Request) -> str:
    """Render a request as it could be written: `A100:2..8`, or by role `launcher 0, worker 2..8 × 1`."""
    if len(request.roles) == 1 and not request.roles[0].run:
        role = request.roles[0]
        if request.auto:
            return render_gpu(GpuAsk(types=role.replica.types, auto=True))
        return _plain_request(role.replicas, role.replica)
    return ", ".join(
        f"{role.name} " + ("" if role.replicas == Range(1, 1) else f"{role.replicas} × ") + _one(role.replica)
        for role in request.roles
    )


def size_text(spec: Spec, size: Range) -> str:
    """Render a size that somebody has set, beside the GPUs that are held. For replicas of a served model that
    do not take one GPU each, add the size of one replica.
    """
    role = spec.request.elastic
    if spec.type is not JobType.SERVE or role is None or role.replica.gpus == 1:
        return str(size)
    return f"{size} × {_one(role.replica)}"


def _plain_request(count: Range, replica: Replica) -> str:
    return render_gpu(GpuAsk(count, types=replica.types)) if replica.gpus else _one(replica)


def _one(replica: Replica) -> str:
    """Render the GPUs of one replica."""
    count = Range(replica.gpus, replica.gpus)
    return render_gpu(GpuAsk(count, replica.share, replica.gpu_memory, replica.types))


def run_text(spec: Spec) -> str:
    """Render the command for users, of each role that has its own."""
    if not spec.run:
        return "; ".join(f"{role.name}: {words_of(role.run)}" for role in spec.request.roles)
    return words_of(spec.run)


def seat_out(seat: Seat) -> SeatOut:
    return SeatOut(
        role=seat.role,
        index=seat.index,
        node=seat.node,
        devices=seat.devices,
        gpus=gpu_number(seat.held),
        leaving=seat.leaving,
        joined=seat.joined > 0 and not seat.leaving,
    )


def exit_out(end: Exit | None) -> ExitOut | None:
    return None if end is None else ExitOut(cause=end.cause.value, code=end.code, text=end.text)


def event_out(event: Event) -> EventOut:
    return EventOut(
        seq=event.seq,
        at=rfc3339(event.at),
        kind=event.kind,
        text=event.text,
        job=event.job,
        attempt=event.attempt,
        generation=event.generation,
        gpus=None if event.held is None else gpu_number(event.held),
        working=None if event.working is None else gpu_number(event.working),
        lost=event.lost,
    )


def worker_out(worker: WorkerStatus, number: int | None = None) -> WorkerOut:
    """Return a worker for the wire; `number` is its number among the job's workers, if the caller
    knows it.
    """
    parts = worker.id.split(".")
    return WorkerOut(
        id=worker.id,
        job=worker.job,
        attempt=worker.attempt,
        state=worker.state.value,
        role=parts[2] if len(parts) > 2 else "",
        number=number,
        pid=worker.pid,
        started_at=maybe_rfc3339(worker.started_at),
        ended_at=maybe_rfc3339(worker.ended_at),
        exit=exit_out(worker.exit),
    )


def usage_out(usage: Usage) -> UsageOut:
    return UsageOut(
        worker=usage.worker,
        job=usage.worker.partition(".")[0],
        at=rfc3339(usage.at),
        cpu_seconds=usage.cpu_seconds,
        memory=usage.memory,
        gpu_utilisation=usage.gpu_utilisation,
        disk_read=usage.disk_read,
        disk_write=usage.disk_write,
        network_in=usage.network_in,
        network_out=usage.network_out,
        gpu_memory=usage.gpu_memory,
    )


def why_out(
    job: Job,
    *,
    code: str,
    sentence: str,
    holders: Iterable[tuple[JobId, int]] = (),
    change: str = "",
    notes: tuple[str, ...] = (),
    eta: EtaOut | None = None,
) -> WhyOut:
    """Return an explanation of the scheduler; holders hold micro-GPUs."""
    return WhyOut(
        job=job.id,
        phase=job.phase.value,
        code=code,
        sentence=sentence,
        holders=tuple(HolderOut(job=holder, gpus=gpu_number(amount)) for holder, amount in holders),
        change=change,
        notes=notes,
        eta=eta,
    )


def plan_out(
    *,
    fits: bool,
    starts: str,
    sentence: str,
    launch: str = "",
    sizing: str = "",
    seats: Iterable[Seat] = (),
    affected: Iterable[tuple[JobId, str, str]] = (),
    change: str = "",
    eta: EtaOut | None = None,
    expected: ExpectedOut | None = None,
    warnings: tuple[str, ...] = (),
) -> PlanOut:
    """Return the plan for a job; `affected` are (job, action, reason)."""
    seats = tuple(seats)
    return PlanOut(
        fits=fits,
        starts=starts,
        sentence=sentence,
        launch=launch,
        sizing=sizing,
        nodes=tuple(dict.fromkeys(seat.node for seat in seats)),
        seats=tuple(map(seat_out, seats)),
        affected=tuple(
            AffectedOut(job=job, action=action, reason=reason) for job, action, reason in affected
        ),
        change=change,
        eta=eta,
        expected=expected,
        warnings=warnings,
    )
