"""A job as the simulator knows it: when it comes, what it asks for, and how much it has to do.

Unlike the scheduler, the simulator knows how long a job will run. It must never tell.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.jobs import PRIORITIES, Checkpoint, Job, JobType, Launch, Resizing, Spec
from grus.model.queues import DEFAULT_QUEUE
from grus.model.resources import GPU, Range, Replica, Request, Role
from grus.scheduler.state.gpu_footprint import Footprint

WORKER = "worker"
NOBODY = UserName("")


class Speedup(Protocol):
    """Speed of a job on a number of GPUs, relative to one."""

    def __call__(self, gpus: float, /) -> float: ...


@dataclass(frozen=True, slots=True)
class Linear:
    """Each GPU after the first adds the same part of one GPU's speed; a slice is as fast as it is large."""

    efficiency: float = 0.9

    def __call__(self, gpus: float, /) -> float:
        return gpus if gpus <= 1 else 1 + (gpus - 1) * self.efficiency


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """One job of a trace. `duration` is seconds of undisturbed work on `gpus` GPUs, starts not counted."""

    id: JobId
    submit: float
    duration: float
    gpus: float = 1
    """Whole GPUs, or a fraction of one."""
    size: Range | None = None
    """The numbers of GPUs that it can use, if it is elastic."""
    queue: QueueName = DEFAULT_QUEUE
    user: UserName = NOBODY
    priority: int = PRIORITIES["train"]
    type: JobType = JobType.TRAIN
    one_node: bool = True
    """A rigid job's GPUs are all on one node; false where it asks for more than a node has."""
    speedup: Speedup = field(default=Linear())
    reports: bool = True
    """True if it reports its speed and progress, if it is elastic, as `grus.report` permits."""
    types: tuple[tuple[str, float], ...] = ()
    """Its speed on types of GPU, relative to the one that its duration was measured on; others are as fast
    as the costs of the simulation say."""
    footprint: Footprint | None = None
    """Its use of its GPU, if it may share that: both of a pair then run at half of their gain each."""
    save_every: float | None = None
    """Seconds between the checkpoints that it writes by itself."""
    grace: float = 30.0
    max_runtime: float | None = None
    spec: Spec | None = None
    """The submitted spec, if it is known; else a spec is made of the above."""
    line: int | None = None
    """Its line in its file."""

    @property
    def low(self) -> float:
        return self.size.low if self.size else self.gpus

    @property
    def high(self) -> float:
        return self.size.high if self.size else self.gpus

    def rate(self, gpus: float) -> float:
        """Seconds of its work done in one second on so many GPUs."""
        return 1.0 if self.size is None or gpus == self.gpus else self.speedup(gpus) / self.speedup(self.gpus)

    @property
    def gpu_seconds(self) -> float:
        """Return its GPU-seconds at the size at which it was measured."""
        return self.duration * self.gpus

    def alone(self, gpus: float) -> float:
        """Seconds that it would take alone on so many GPUs; with fewer than it needs it has them in turns."""
        if gpus >= self.low:
            return self.duration / self.rate(min(gpus, self.high))
        return self.duration / self.rate(self.low) * self.low / gpus

    def job(self) -> Job:
        """The job that a user would have submitted."""
        spec = self.spec or spec_of(
            self.queue,
            self.gpus,
            self.size,
            self.priority,
            self.type,
            self.one_node,
            self.grace,
            self.save_every,
            self.max_runtime,
            self.footprint is not None,
        )
        return Job(id=self.id, spec=spec, user=self.user, submitted_at=self.submit)


@lru_cache(maxsize=65536)
def spec_of(
    queue: QueueName,
    gpus: float,
    size: Range | None,
    priority: int,
    kind: JobType,
    one_node: bool,
    grace: float,
    every: float | None,
    max_runtime: float | None,
    shares: bool = False,
) -> Spec:
    """Return the spec of a request; equal requests share one value, as a trace has many of few sorts."""
    if gpus < 1:
        role = Role(WORKER, Range(1, 1), Replica(gpus=0, share=round(gpus * GPU)))
    else:
        role = Role(WORKER, size or Range(int(gpus), int(gpus)), Replica())
    together = one_node and size is None
    return Spec(
        name=WORKER,
        queue=queue,
        run=("true",),
        request=Request((role,), one_node=together, shares=shares),
        type=kind,
        launch=Launch.ONCE if together else Launch.PER_GPU,
        priority=priority,
        checkpoint=Checkpoint(grace=grace, every=every),
        resize=Resizing.AUTO if size is None else Resizing.LIVE,
        max_runtime=max_runtime,
    )
