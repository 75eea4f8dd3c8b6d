"""Jobs: the user's submission (`Spec`) and its state (`Job`).

A `Job` is a value. It changes only by being replaced in the store, one job at a time, with the event that
gives the reason. `desired` is the state that the user wants, `phase` the actual one; the control loop brings
them together.

    pending → starting → running → (pausing → paused → starting …) → succeeded | failed | stopped

Terminal phases are final. A resize is not a phase: it is a new rendezvous round (`generation`) of the running
attempt.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from grus.model.artifacts import Artifact, Input, Output
from grus.model.backoff import backoff
from grus.model.execution_plans import Shortage
from grus.model.identifiers import DeviceId, JobId, NodeId, QueueName, UserName, WorkerId
from grus.model.phases import HOLDING as HOLDING
from grus.model.phases import NEXT as NEXT
from grus.model.phases import TERMINAL as TERMINAL
from grus.model.phases import Phase as Phase
from grus.model.resources import Range, Request
from grus.model.sweep_search import Params, Sweep, Trial


class JobType(StrEnum):
    TRAIN = "train"
    DEV = "dev"
    SWEEP = "sweep"
    """Job without workers of its own: it submits trials."""
    SERVE = "serve"
    """Answers requests until it is stopped."""


class Launch(StrEnum):
    ONCE = "once"
    """One process sees all the GPUs, which are on one node."""
    PER_GPU = "per-gpu"
    PER_NODE = "per-node"


class Resizing(StrEnum):
    """Effect of a change of its size on a running job."""

    AUTO = "auto"
    """Live if its workers have formed a worker group, else a restart."""
    LIVE = "live"
    """Workers come and go by themselves while the others run."""
    RESTART = "restart"
    """The job saves, ends, and starts again with its new size."""


class Desired(StrEnum):
    """State that the user wants for a job."""

    RUN = "run"
    PAUSE = "pause"
    STOP = "stop"


class PauseCause(StrEnum):
    """Cause of a pause. A pause by the scheduler ends by itself; the others end by `resume`."""

    SCHEDULER = "scheduler"
    PERSON = "person"
    IDLE = "idle"
    SWEEP = "sweep"
    """For a trial whose sweep is paused, or changes its size; its sweep resumes it."""
    RUNG = "rung"
    """For a trial that waits for its sweep to decide whether it continues."""


class ExitCause(StrEnum):
    """Why a worker, or an attempt, ended."""

    DONE = "done"
    CODE = "exit code"
    SIGNAL = "signal"
    MEMORY = "out of memory"
    """Killed for going beyond its host memory."""
    GPU_MEMORY = "CUDA out of memory"
    """Out of memory (OOM) on its GPU, or in its slice: it reported that itself, or was killed for it."""
    START = "could not start"
    PREEMPTED = "preempted"
    STOPPED = "stopped"
    TIME = "ran too long"
    LOST = "lost"
    """Its node, device or supervisor is gone; its end was not observed."""


NEVER_CHARGED = frozenset({ExitCause.PREEMPTED, ExitCause.STOPPED, ExitCause.LOST})
"""Ends that do not count against `retries`."""
FIRST_BACK_OFF = 1.0
"""Seconds before the next start after an attempt that was lost, or failed for the first time."""
LONGEST_BACK_OFF = 300.0


def job_backoff(failures: int) -> float:
    """Seconds to wait after that many failures: 1, 2, 4, … up to five minutes."""
    return backoff(failures, FIRST_BACK_OFF, LONGEST_BACK_OFF)


@dataclass(frozen=True, slots=True)
class Exit:
    """Exit of a worker or job: the cause, the number that goes with it, and a sentence for people."""

    cause: ExitCause
    code: int | None = None
    """Exit code, or the number of the signal."""
    text: str = ""


NEVER_PREEMPTED = 100
"""Priorities from here on are non-preemptible."""

PRIORITIES = {"inference": 125, "dev": 100, "dev-preemptible": 75, "train": 50}
USUAL_PRIORITY = {
    JobType.TRAIN: "train",
    JobType.DEV: "dev",
    JobType.SWEEP: "train",
    JobType.SERVE: "inference",
}
"""Priority class of jobs that set none, by type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    path: str = ""
    grace: float = 30.0
    """Seconds from the request to pause to the kill."""
    every: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """Policy for a job whose GPUs idle."""

    below: float = 0.10
    seconds: float = 1800.0
    action: str = "notify"


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """Node affinity: preferred labels (soft), and nodes or jobs to stay away from."""

    prefer: tuple[tuple[str, str], ...] = ()
    avoid_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """Specification of a job as the user submitted it, validated and with defaults filled in.

    It never changes after submit, except for the request: where Grus chose the size, or a larger one after an
    out-of-memory (OOM) end on a GPU, the request is that. The user's own request is kept in `Job.sizing`.
    """

    name: str
    queue: QueueName
    run: tuple[str, ...]
    """The command as arguments; a command line is ("/bin/sh", "-c", line)."""
    request: Request
    type: JobType = JobType.TRAIN
    launch: Launch = Launch.ONCE
    resize: Resizing = Resizing.AUTO
    setup: tuple[str, ...] = ()
    priority: int = PRIORITIES["train"]
    checkpoint: Checkpoint = Checkpoint()
    idle: Idle | None = None
    max_runtime: float | None = None
    retries: int = 0
    after: tuple[JobId, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    workdir: str = ""
    snapshot: bool = False
    data: tuple[str, ...] = ()
    """Data that it works on: paths, or names. Used only to
    distinguish the same work on new data from a repeat.
    """
    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: Affinity = Affinity()
    image: str = ""
    """Image of its containers, on Kubernetes; empty for the engine's own."""
    pod: str = ""
    """Its pod overrides on Kubernetes: JSON, merged over the engine's pod; empty for none."""
    params: Params = ()
    """Parameters chosen for this run; its program reads them by `grus.params()`."""
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    after_failure: bool = False
    """True if it starts when the jobs that it comes after have ended in any way, not only successfully."""
    sweep: Sweep | None = None
    """Search of a job of type sweep; the rest of this spec is the template of its trials."""
    trial: Trial | None = None
    graph: JobId | None = None
    """The first job of its submission, itself if it is that one; None for one submitted alone."""
    fresh: bool = False
    """True if it runs even if an earlier run has left the same outputs."""
    secrets: tuple[tuple[str, str], ...] = ()
    """Variables that hold a secret, each with the secret's name. Values are never part of a job."""

    @property
    def never_preempted(self) -> bool:
        return self.priority >= NEVER_PREEMPTED

    @property
    def has_workers(self) -> bool:
        """True if it runs workers itself; if not, the scheduler never sees it."""
        return self.type is not JobType.SWEEP


def worker_per_seat(spec: Spec) -> bool:
    """Return whether each placement has a worker of its own.

    Placements can then come and go while the others run.
    """
    roles = spec.request.roles
    return spec.launch is Launch.PER_GPU or len(roles) > 1 or any(role.run for role in roles)


def adapts(spec: Spec) -> bool:
    """Return whether it is known already that its workers can come and go while the others run."""
    return worker_per_seat(spec) and spec.resize is Resizing.LIVE


@dataclass(frozen=True, slots=True)
class Seat:
    """The place of one replica: a node and, on it, devices or a share of one."""

    role: str
    index: int
    """Number of the replica in its role; stable as long as the replica lives."""
    node: NodeId
    devices: tuple[DeviceId, ...]
    share: int
    """Micro-GPUs held of each of the devices."""
    born: int = 1
    """Rendezvous round (`Job.generation`) that added it."""
    leaving: bool = False
    """True if it was released, but its processes are not confirmed dead yet: still allocated, soon free."""
    address: str = ""
    """Address at which its worker can be joined, once
    reported; empty while it boots, or if never reported.
    """
    ready_at: float | None = None
    """Time at which the address was received."""
    joined: int = 0
    """Number of the worker group that admitted its worker; 0 before."""
    tries: int = 0
    """Workers in a row that ended here before they joined."""
    lost: int = 0
    """Members of a worker group that were lost here."""
    cut: bool = False
    """Its worker is being killed, because it hung or did not get ready; the next one starts afterwards."""

    @property
    def held(self) -> int:
        """Micro-GPUs allocated to this placement."""
        return self.share * len(self.devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """The user's own request, for a job whose request Grus chose; and the reason for the choice."""

    asked: Request
    why: str = ""
    short: tuple[Shortage, ...] = ()
    """Out-of-memory (OOM) shortages in its attempts so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job's present record. `version` counts its writes: a write must name the one that it has seen."""

    id: JobId
    spec: Spec
    user: UserName
    submitted_at: float
    version: int = 0
    phase: Phase = Phase.PENDING
    desired: Desired = Desired.RUN
    attempt: int = 0
    """Number of the present or last attempt; 0 before the first."""
    generation: int = 0
    """Membership of the present attempt; a resize makes the next one."""
    team: int = 0
    """Number of the present worker group, whose workers compute together; 0 while none was requested."""
    team_at: float | None = None
    """Time at which it was formed."""
    broken: int = 0
    """Number of the newest worker group formed because a member was lost; older ones can only be left."""
    lost: int = 0
    """Members lost without ending the attempt, in all attempts."""
    boot: float | None = None
    """Seconds from the start of a worker until it joined a worker group, as last measured."""
    seats: tuple[Seat, ...] = ()
    started_at: float | None = None
    """Start of the present (or last) attempt."""
    first_started_at: float | None = None
    ended_at: float | None = None
    saved_at: float | None = None
    """Last checkpoint that the job reported."""
    paused_by: PauseCause | None = None
    guest_of: JobId | None = None
    """Primary job on whose GPU this secondary job runs; None once it has the GPU for itself.

    A secondary job has no right of its own to that GPU.
    """
    made_room_for: JobId | None = None
    """Job for which the scheduler last paused or shrank this one, which does not compete with that job."""
    backfill_until: float | None = None
    """Set on a job that was backfilled ahead of a reservation:
    when that reservation is due, the job is paused.
    """
    not_before: float = 0.0
    """Back-off: not to be started, or grown, earlier."""
    failures: int = 0
    """Ends charged to the user so far."""
    size: Range | None = None
    """Range set by `scale`, in replicas of the elastic role; None for the spec's own."""
    sizing: Sizing | None = None
    """None where the request is as the user wrote it."""
    exit: Exit | None = None
    reason: str = ""
    """One sentence: why the job is where it is."""
    progress: tuple[tuple[str, float], ...] = field(default=())
    """Metrics that the job last reported (step, epoch, total, …)."""
    diverged: tuple[str, ...] = ()
    """Metrics that were no numbers any more (NaN, infinite) in its last report."""
    verdict: str = ""
    """Reason why a trial's sweep last paused, resumed, grew or ended it."""
    grown: bool = False
    """True if a trial's sweep allows it more GPUs than the others."""
    key: str = ""
    """Key of everything that its outputs depend on, once known; see `grus.model.results.Result.key`."""
    artefacts: tuple[Artifact, ...] = ()
    """Its outputs, once they are kept."""
    files: str = ""
    """Digest of what lay in its workdir beside the code when it was submitted; of stages only."""
    saves_as: str = ""
    """Suffix of a stage's checkpoint name, so that the stage never resumes from checkpoints that other data
    or other code has left there. It is made of the stage's key; a retry has that of the job that it repeats.
    """
    near: tuple[NodeId, ...] = ()
    """Nodes that have most of a stage's inputs already, as of its comparison with earlier runs."""
    same_as: JobId | None = None
    """Earlier job whose outputs it has reused, because nothing has changed since; it never ran."""

    @property
    def asked(self) -> Request:
        """Request as the user wrote it."""
        return self.spec.request if self.sizing is None else self.sizing.asked

    @property
    def terminal(self) -> bool:
        return self.phase in TERMINAL

    @property
    def staying(self) -> tuple[Seat, ...]:
        """Placements of the present rendezvous round (`generation`)."""
        return tuple(seat for seat in self.seats if not seat.leaving)

    @property
    def held(self) -> int:
        """Micro-GPUs that the job holds, the leaving ones included."""
        return sum(seat.held for seat in self.seats)


def resizes_live(job: Job) -> bool:
    """Return whether its size can change now without a restart."""
    in_a_team = worker_per_seat(job.spec) and job.spec.resize is Resizing.AUTO and job.team > 0
    return adapts(job.spec) or in_a_team


def worker_id(job: JobId, attempt: int, seat: Seat) -> WorkerId:
    """Deterministic, so that a repeated start finds the first one instead of making a second."""
    return WorkerId(f"{job}.{attempt}.{seat.role}.{seat.index}.{seat.born}")
