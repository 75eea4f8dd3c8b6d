"""Ports of Grus: a Store, which keeps data durably, and an Engine, which runs workers.

Each guarantee in prose here is a test in `tests/contracts/`, which every implementation passes.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from grus.model.activity_labels import Tag
from grus.model.audit import AuditRecord
from grus.model.identifiers import DeviceId, JobId, NodeId, QueueName, UserName, WorkerId
from grus.model.jobs import Exit, Job, Phase
from grus.model.metrics_history import Reported
from grus.model.nodes import Cordon, Node
from grus.model.profiles import JobProfile
from grus.model.queues import Queue
from grus.model.results import Result

# ---------------------------------------------------------------------------------------------- store


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened. The log of events is append-only; `seq` orders it without gaps or repeats."""

    at: float
    kind: str
    """Code for machines: submitted, starting, running, pausing, paused, resized, succeeded, …"""
    text: str
    """One sentence for people."""
    job: JobId | None = None
    attempt: int = 0
    seq: int = 0
    """Given by the store."""
    generation: int = 0
    """Membership of the attempt from here on."""
    held: int | None = None
    """Micro-GPUs that the job holds from here on; None where it was not written down."""
    working: int | None = None
    """Micro-GPUs of the workers that compute together from here on; 0 while it does not run."""
    lost: int | None = None
    """Workers lost so far while the others went on."""


Written = tuple[Job, Event | None]
"""A write of the store: the job as it is now, and the event that was recorded with it."""


class AccessRole(StrEnum):
    """Permissions of a user: view; submit, and act on own jobs; everything."""

    VIEWER = "viewer"
    MEMBER = "member"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    name: UserName
    role: AccessRole = AccessRole.MEMBER
    unix_user: str = ""
    """Unix user that the user's jobs run as when the server is root; empty for the server's own."""
    max_gpus: int | None = None
    """Micro-GPUs that the user's jobs may hold together, in all queues; None for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A secret's record: never the secret itself, only its SHA-256."""

    digest: str
    user: UserName
    label: str
    created_at: float
    expires_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Forecast for a job when it was first examined: moments by which it starts and ends, with probabilities.

    It is kept for comparison with the actual times. The probabilities are those of
    `grus.simulator.forecasting.quantiles.LEVELS`.
    """

    job: JobId
    at: float
    """Time of the forecast."""
    start: tuple[float, ...] = ()
    """Empty if it ran already, or no forecast was possible."""
    end: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job that is to be stored, with its first event and the idempotency key of its request."""

    job: Job
    event: Event
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneLimits:
    """Times before which data is dropped from a store."""

    events_before: float
    jobs_before: float
    """Jobs submitted and ended before that go, with all that is kept of them."""
    results_before: float = 0.0
    """Results of jobs that ended before that go once their jobs are no longer on record."""
    keep: Sequence[JobId] = ()
    """Jobs that stay, however old; their old events go."""


MOST_PROFILES = 1000
"""Fingerprints that a store keeps; beyond that the one that was not updated for longest goes."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Collection(Generic[T]):
    """Values of one type in a store, each under a key; with the rules of their writes."""

    name: str
    kind: type[T]
    key: tuple[str, ...]
    """Fields of a value that name it: a second one with the same fields replaces the first."""
    others: tuple[str, ...] = ()
    """Other fields by which values are found."""
    order: tuple[str, ...] = ()
    """Fields by which they are listed; the key if empty."""
    newest_first: bool = False
    missing: str = ""
    """Reason if one that is to be read or deleted is not there; empty if deleting it again is no error."""
    first_stays: bool = False
    """A value with the key of a stored one is dropped."""
    optional: tuple[str, ...] = ()
    """Fields that may be empty; nothing is found by an empty one."""
    of_job: bool = False
    """Values of a job that is not on record are dropped, and those of a job go with it."""
    of_user: bool = False
    """A value of a user who is not there is refused, and those of a user go with it."""

    def key_of(self, value: T) -> tuple[Any, ...]:
        return tuple(getattr(value, field) for field in self.key)

    def place_of(self, value: T) -> tuple[Any, ...]:
        """Return the fields that place a value in a listing, as `after` of the next page needs them."""
        return tuple(getattr(value, field) for field in self.order or self.key)


QUEUES = Collection("queues", Queue, ("name",), missing="there is no queue {}")
USERS = Collection("users", User, ("name",), missing="there is no user {}")
TOKENS = Collection("tokens", Token, ("digest",), ("user",), missing="there is no such token", of_user=True)
CORDONS = Collection("cordoned", Cordon, ("node",))
"""Nodes that a person has taken out of use for new work. A cluster empties its nodes itself: there a drain is
refused with Conflict.
"""
PREDICTIONS = Collection(
    "predictions",
    Prediction,
    ("job",),
    ("at",),
    order=("at", "job"),
    newest_first=True,
    first_stays=True,
    of_job=True,
)
PROFILES = Collection("profiles", JobProfile, ("fingerprint",), ("updated_at",))
"""At most `MOST_PROFILES`: the ones last updated."""
REPORTS = Collection("reports", Reported, ("job", "number"), first_stays=True, of_job=True)
"""Reports of jobs. When a job has more than `MOST_POINTS`, those are dropped whose number is no multiple of
`stride_of` the newest one's, except for the newest itself.
"""
RESULTS = Collection(
    "results",
    Result,
    ("job",),
    ("user", "queue", "name", "phase", "key", "ended_at"),
    order=("ended_at", "job"),
    newest_first=True,
    missing="there is no run {}",
    optional=("key",),
)
"""Results of jobs that have ended. They outlast their jobs."""
AUDIT = Collection("audit", AuditRecord, ("seq",), ("actor", "target"), newest_first=True)
"""Audit records: written with other writes only, never changed or removed."""


class Store(Protocol):
    """Durable store: a log of jobs and their events, and collections of everything else.

    A Future's result means durable: the write survives kill -9 and power loss from then on. Writes of one
    thread take effect in the order given. Writes may share one commit, but succeed or fail one by one: a
    stale one among them never undoes its neighbors. All methods may be called from any thread. A write that
    is given an audit `record` writes both or neither. Jobs can be created together; there is no guarantee
    that two jobs change together.
    """

    def take_over(self) -> int:
        """Begin a new epoch and return it. `replace` under any earlier epoch is refused from now on."""
        ...

    def create(
        self, job: Job, event: Event, key: str | None = None, epoch: int | None = None
    ) -> "Future[Job]":
        """Store a new job with its first event; the result has version 1.

        With a `key` that this user used before, nothing is written and the result is the job stored then, in
        its present state; if that job's spec differs from this one's, the future raises Conflict. Raises
        Fenced if `epoch` (the leader term) is given and a later one has started.
        """
        ...

    def create_all(self, new: Sequence[NewJob], epoch: int | None = None) -> "Future[list[Job]]":
        """Store new jobs, each as `create` does: all of them in one commit, or none of them.

        A job whose key was used before is in the result in its present state, and the others are stored. If
        one is refused the future raises the reason. Raises Conflict if two of them have the same id or key,
        and where no commit can hold several, as in a cluster.
        """
        ...

    def replace(
        self,
        job: Job,
        event: Event | None,
        epoch: int | None = None,
        *,
        record: AuditRecord | None = None,
    ) -> "Future[Job]":
        """Replace the stored job, with the event, if its stored version is still `job.version`.

        The result has the next version. Raises StaleVersion if the job changed meanwhile, NotFound if there
        is none, Fenced if `epoch` (the leader term) is given and a later one has started.
        """
        ...

    def job(self, job: JobId) -> Job:
        """The job as last committed. Raises NotFound."""
        ...

    def jobs(
        self,
        *,
        phases: Sequence[Phase] | None = None,
        queue: QueueName | None = None,
        user: UserName | None = None,
        limit: int | None = None,
        after: tuple[float, JobId] | None = None,
    ) -> list[Job]:
        """Jobs that match, newest submitted first (ties by id, descending); `after` continues a listing.

        `after` is (submitted_at, id) of the last job of the page before.
        """
        ...

    def count(self) -> dict[Phase, int]:
        """Return the number of jobs in each phase (phases without jobs may be missing)."""
        ...

    def events(self, *, after: int = 0, job: JobId | None = None, limit: int = 1000) -> list[Event]:
        """Events with `seq` above `after`, ascending."""
        ...

    def subscribe(self, listener: Callable[[Sequence[Written]], None]) -> Callable[[], None]:
        """Call `listener` after each commit with what it wrote,
        in the order of the log; return the unsubscriber.

        It is called from the store's own thread, after the futures' results are visible to readers: be quick.
        A caller that subscribes and then reads `jobs` misses nothing.
        """
        ...

    def put(self, collection: Collection[T], *values: T, record: AuditRecord | None = None) -> "Future[None]":
        """Store values by the collection's rules: all of them or none.

        Raises BadInput if one could not be read back, NotFound if one belongs to a user who is not there.
        """
        ...

    def get(self, collection: Collection[T], *key: str) -> T:
        """Return the value with this key. Raises NotFound."""
        ...

    def find(
        self,
        collection: Collection[T],
        *,
        limit: int | None = None,
        after: tuple[object, ...] | None = None,
        **fields: str | None,
    ) -> list[T]:
        """Return the values with these fields (None: with any) in the order of the collection.

        `after` continues a listing: `place_of` the last value of the page before.
        """
        ...

    def delete(
        self, collection: Collection[Any], key: str, *, record: AuditRecord | None = None
    ) -> "Future[None]":
        """Delete a value. Raises NotFound if there is none. That no job needs it is the caller's business."""
        ...

    def put_tags(self, tags: Mapping[str, Tag | None]) -> "Future[None]":
        """Store tags under their keys (`grus.model.activity_labels.of_job`, `of_gpu`); None removes one.

        All of them together or none; those of other keys stay. Callers write on change only. Not a
        collection: a tag does not contain its key, and one write both stores and removes.
        """
        ...

    def tags(self) -> dict[str, Tag]:
        """All that are kept, the expired ones too."""
        ...

    def without_result(self, limit: int) -> list[Job]:
        """Jobs on record that have ended and of which no result is kept; so many at most, in any order."""
        ...

    def prune(self, limits: PruneLimits) -> "Future[int]":
        """Drop what is older than the limits; the result is how many events, jobs and results went."""
        ...

    def close(self) -> None:
        """Finish what was given, then stop. Idempotent."""
        ...


# --------------------------------------------------------------------------------------------- engine


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """One process (tree) to run, and what it is bound to."""

    id: WorkerId
    job: JobId
    attempt: int
    node: NodeId
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    """The whole environment that the job should see, but for what the engine adds (CUDA_VISIBLE_DEVICES)."""
    workdir: str
    devices: tuple[DeviceId, ...] = ()
    visible: tuple[DeviceId, ...] = ()
    """Devices that it sees, if more than its own: LOCAL_RANK counts in them; empty for its own."""
    share: int = 0
    """Micro-GPUs held of each device: GPU for whole ones."""
    gpu_memory: int = 0
    """Bytes of GPU memory that it may use on each device; 0 for all of it."""
    memory: int = 0
    """Bytes of host memory that it may use; 0 for no limit."""
    cpu: int = 0
    grace: float = 30.0
    unix_user: str = ""
    image: str = ""
    """The container image to run in, where workers are containers; empty for the engine's own."""
    pod: str = ""
    """The job's pod overrides, where workers are pods: JSON to merge over the pod; empty for none."""
    first: WorkerId | None = None
    """The worker of rank 0, at which the others meet; None if not set."""
    user: UserName | None = None
    """Owner of its job, whose secrets it may have."""
    secrets: tuple[tuple[str, str], ...] = ()
    """Variables that hold a secret, each with the secret's name; the engine finds the values."""
    vault: str = ""
    """Folder of the artifacts that it reads and writes; empty if it has neither inputs nor outputs."""


class WorkerState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    """Every process that it ever started is confirmed dead; its devices are free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """Known status of one worker."""

    id: WorkerId
    job: JobId
    attempt: int
    state: WorkerState
    pid: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    exit: Exit | None = None
    """Exit of its main process; set with ENDED."""
    said: str = ""
    """Last line of its report when it last rang its bell (or was found again); content of the job's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Measured use of one worker's own processes. What cannot be measured is None, never 0."""

    worker: WorkerId
    at: float
    cpu_seconds: float
    """CPU time used so far by the processes alive now and those already ended."""
    memory: int
    """Resident bytes now."""
    gpu_utilisation: float | None = None
    """0 to 1 of what it holds; None where it cannot be measured."""
    gpu_memory: int | None = None
    disk_read: int | None = None
    disk_write: int | None = None
    """Bytes so far that its processes had fetched from disks, and sent to them."""
    network_in: int | None = None
    network_out: int | None = None
    """Bytes so far over its processes' TCP connections, as far as they were seen."""
    network_at: float | None = None
    """Time of the two values: they may be measured less often than the rest."""


class Engine(Protocol):
    """Engine: runs the workers.

    Every engine call can be repeated: starting a worker whose id was started before, or stopping one that has
    ended, changes nothing. A call under a leader term (`epoch`) lower than one seen before raises Fenced.
    Workers outlive the control plane, and a new engine object on the same state finds them again. All methods
    may be called from any thread and none blocks for the length of a grace period.
    """

    def open(self, epoch: int) -> None:
        """Begin to act under this epoch, and re-attach to the workers that are there."""
        ...

    def nodes(self) -> tuple[Node, ...]:
        """The pool as it is now: health, and what is in use outside Grus."""
        ...

    def mechanisms(self) -> dict[str, str]:
        """Return, for people, the mechanisms of enforcement: isolation, memory of slices, telemetry."""
        ...

    def start(self, worker: WorkerSpec) -> None:
        """Start the worker. A failure to start is reported
        as a status ENDED with cause START, never raised.
        """
        ...

    def stop(self, worker: WorkerId, grace: float) -> None:
        """Ask its main process to end (SIGTERM), and after
        `grace` seconds kill all processes that it started.

        A second call can shorten the grace period, never lengthen it.
        """
        ...

    def publish(self, worker: WorkerId, control: str) -> None:
        """Replace the text that the worker's SDK watches (membership, request to pause)."""
        ...

    def workers(self) -> tuple[WorkerStatus, ...]:
        """All workers that are not forgotten."""
        ...

    def subscribe(self, listener: Callable[[WorkerStatus], None]) -> Callable[[], None]:
        """Call `listener` at each change of a worker's state, and from then on only; return the unsubscriber.

        A byte written to the FIFO that its GRUS_BELL names is one too, if the report has a new last line.
        Called from the engine's own thread: be quick. `subscribe`, then `workers`, misses nothing.
        """
        ...

    def forget(self, worker: WorkerId) -> None:
        """Drop what is kept of an ended worker, except its log."""
        ...

    def usage(self) -> tuple[Usage, ...]:
        """Return the usage of the running workers."""
        ...

    def report(self, worker: WorkerId) -> str:
        """Return the last whole line that the worker wrote
        to the file that its GRUS_REPORT names; "" if none.

        It exists until the worker is forgotten. It is the job's own content, and may be anything.
        """
        ...

    def log(self, worker: WorkerId, offset: int = 0, limit: int = 65536) -> tuple[bytes, int]:
        """Bytes of its log from `offset` (counted from the first byte ever written), and the next offset.

        Bytes that rotation removed are skipped. A negative offset counts from the end. Raises NotFound.
        """
        ...

    def logged(self, job: JobId) -> tuple[WorkerId, ...]:
        """Workers of this job that have a log, ended and forgotten ones included, in any order."""
        ...

    def remove_logs(self, job: JobId) -> None:
        """Delete the logs of a job whose record is gone."""
        ...

    def close(self) -> None:
        """Release all resources of the engine; the workers continue."""
        ...
