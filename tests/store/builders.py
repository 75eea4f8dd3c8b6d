"""Small builders of what the store's tests write, and how they wait."""

from concurrent.futures import Future
from dataclasses import replace
from itertools import count
from typing import TypeVar

from grus.model.activity_labels import WorkloadKind
from grus.model.artifacts import Artifact
from grus.model.execution_plans import Shortage, Way
from grus.model.identifiers import JobId, NodeId, QueueName, UserName
from grus.model.interfaces import CORDONS, RESULTS, Event, Store
from grus.model.jobs import (
    Affinity,
    Checkpoint,
    Exit,
    ExitCause,
    Idle,
    Job,
    JobType,
    PauseCause,
    Phase,
    Seat,
    Sizing,
    Spec,
)
from grus.model.metrics_history import Reported
from grus.model.nodes import Drain
from grus.model.profiles import BINS, GpuUsage, JobProfile, Pair, ProfiledRun, Speed
from grus.model.resources import GPU, Range, Replica, Request, Role
from grus.model.results import Metric, Result
from grus.model.sweep_search import Trial

T = TypeVar("T")
Heard = list[tuple[Job, Event | None]]
ADA, BOB = UserName("ada"), UserName("bob")
_numbers = count(1)


def a_spec(name: str = "resnet", queue: str = "vision") -> Spec:
    request = Request(roles=(Role("worker", Range(1, 1), Replica(gpus=1)),))
    return Spec(name=name, queue=QueueName(queue), run=("python", "train.py"), request=request)


def a_job(
    id: str | None = None,
    *,
    name: str = "resnet",
    queue: str = "vision",
    user: str = ADA,
    submitted_at: float = 1000.0,
    phase: Phase = Phase.PENDING,
) -> Job:
    return Job(
        id=JobId(id or f"j{next(_numbers):06}"),
        spec=a_spec(name, queue),
        user=UserName(user),
        submitted_at=submitted_at,
        phase=phase,
    )


def an_event(job: Job | None = None, kind: str = "submitted", at: float = 1000.0) -> Event:
    return Event(at=at, kind=kind, text=f"It was {kind}.", job=job.id if job else None)


def a_report(job: str, number: int) -> Reported:
    return Reported(
        job=JobId(job), number=number, attempt=1, at=100.0 + number, figures=(("step", float(number)),)
    )


def done(future: "Future[T]") -> T:
    return future.result(timeout=300)


def stored(store: Store, *jobs: Job) -> list[Job]:
    """The jobs as the store keeps them, each with an event."""
    return [done(future) for future in [store.create(job, an_event(job)) for job in jobs]]


def cordoned(store: Store) -> frozenset[NodeId]:
    return frozenset(one.node for one in store.find(CORDONS))


def drains(store: Store) -> dict[NodeId, Drain]:
    return {one.node: one.drain for one in store.find(CORDONS) if one.drain is not None}


def result_by_key(store: Store, user: UserName, key: str) -> Result | None:
    """The last ended one of this user's that succeeded with this key."""
    found = store.find(RESULTS, user=user, key=key, phase=Phase.SUCCEEDED, limit=1)
    return found[0] if found else None


def a_full_job() -> Job:
    """A value in every field that is empty by default."""
    roles = (
        Role("launcher", Range(1, 1), Replica(gpus=0, cpu=1000), run=("mpirun",)),
        Role(
            "worker",
            Range(2, 8),
            Replica(gpus=0, gpu_memory=12 << 30, types=("A100", "H100"), memory=1 << 35),
        ),
    )
    spec = Spec(
        name="größe „ü“ \U0001f680 \x00 \\ \"'",
        queue=QueueName("vision"),
        run=("/bin/sh", "-c", "echo 'a\nb'"),
        request=Request(roles=roles, sizes=(2, 4, 8), one_node=True, how=("split",)),
        setup=("pip install .",),
        checkpoint=Checkpoint(path="ckpt/", grace=0.1, every=600.0),
        idle=Idle(below=1 / 3),
        max_runtime=3 * 86400.0,
        retries=3,
        after=(JobId("j1"),),
        env=(("PATH", "/bin"), ("EMPTY", "")),
        node_selector=(("zone", "a"),),
        affinity=Affinity(prefer=(("disk", "fast"),), avoid_nodes=("n9",)),
    )
    auto = Request(roles=roles[1:], auto=True, ways=(Way(2, 9 << 30, ("split", "bf16"), 0.75),))
    return Job(
        id=JobId("jfull"),
        spec=spec,
        user=ADA,
        submitted_at=1763000000.1234567,
        seats=(Seat("worker", 0, NodeId("n1"), (), GPU // 3, born=2, leaving=True),),
        started_at=1.1,
        first_started_at=0.1 + 0.2,
        saved_at=2.2,
        paused_by=PauseCause.IDLE,
        backfill_until=5e-324,
        not_before=1e300,
        failures=1,
        size=Range(2, 4),
        sizing=Sizing(asked=auto, why="9GB", short=(Shortage(1, 4 << 30, ("bf16",)),)),
        exit=Exit(ExitCause.SIGNAL, 9, "killed"),
        reason="because",
        progress=(("step", 12.0), ("loss", 1e-9)),
    )


def a_full_profile(fingerprint: str) -> JobProfile:
    """A value in every field."""
    use = GpuUsage(
        type="A100",
        gpus=GPU,
        seconds=10.0,
        busy=7.1,
        levels=(0.5,) * BINS,
        memory=3 << 30,
        how=("split",),
        slice=5,
    )
    run = ProfiledRun(
        job=JobId("j1"),
        at=1.0,
        phase=Phase.SUCCEEDED,
        seconds=1 / 3,
        uses=(use,),
        host_memory=1 << 40,
        cpu=0.1,
        energy=2.5,
        kind=WorkloadKind.TRAINING,
        period=0.1 + 0.2,
        data="d1",
        new_data=True,
    )
    return JobProfile(
        fingerprint=fingerprint,
        program="p",
        name="größe",
        user=ADA,
        command="python train.py",
        image="i",
        count=1,
        runs=(run,),
        speeds=(Speed(type="A100", nodes=1, gpus=2, local=16.0, step=0.25),),
        stall=0.5,
        boot=3.5,
        data=("d1",),
        short=(Shortage(1, 4 << 30), Shortage(2, 1, ("split",))),
        pairs=(Pair(other="f2", gain=1.25, at=3.0),),
        updated_at=4.0,
    )


def a_result(
    job: str,
    *,
    ended_at: float = 10.0,
    user: str = ADA,
    queue: str = "vision",
    name: str = "resnet",
    phase: Phase = Phase.SUCCEEDED,
    key: str = "",
) -> Result:
    return Result(
        job=JobId(job),
        name=name,
        user=UserName(user),
        queue=QueueName(queue),
        type=JobType.TRAIN,
        phase=phase,
        submitted_at=1.0,
        started_at=2.0,
        ended_at=ended_at,
        key=key,
    )


def a_full_result(job: str) -> Result:
    """A value in every field that is empty by default."""
    return replace(
        a_result(job, name="größe „ü“ \x00 \"'", key="k"),
        seconds=1 / 3,
        gpu_seconds=0.1 + 0.2,
        command=("/bin/sh", "-c", "echo 'a\nb'"),
        params=(("lr", 1e-9), ("width", 64), ("act", "relu"), ("bias", True)),
        metrics=(Metric("loss", 0.5, 0.25, 1e300),),
        code="c1",
        data="d1",
        image="i",
        inputs=(Artifact("data", "a" * 64, 1 << 40),),
        outputs=(Artifact("model", "b" * 64, 0),),
        trial=Trial(JobId("jsweep"), 3),
        same_as=JobId("jbefore"),
        fingerprint="f1",
    )
