"""Workers of a job, derived from its placements: their nodes, devices and environment. Pure: the same job
gives the same workers.

A worker covers one placement (`per-gpu`, and gangs of several roles), all placements on a node (`per-node`),
or all placements of the job (`once`). Its id is derived from its first placement, so that a repeated start
finds the first one.
"""

import json
import os.path
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grus.api.inputs.pod_template import merged_texts
from grus.controlplane.identity_memo import remembered
from grus.controlplane.workers import artifact_inputs_outputs, session_command
from grus.controlplane.workers.artifact_inputs_outputs import StagingSetup
from grus.controlplane.workers.interpreters import Runner
from grus.model.identifiers import DeviceId, NodeId, WorkerId
from grus.model.interfaces import WorkerSpec
from grus.model.job_spec import is_bundle
from grus.model.jobs import Job, JobType, Launch, Seat, Spec, worker_id, worker_per_seat
from grus.model.queues import gpus
from grus.model.resources import GPU, Role

SETUP = "setup"
LAUNCHER = "launcher"
"""A role of this name decides alone how the job ends."""

HOST = "127.0.0.1"
"""Address at which the workers of a job reach each other: they are all on this machine."""
FIRST_PORT, PORTS = 20_000, 10_000
"""Lowest MASTER_PORT: below the range that Linux assigns by itself (32768 and up)."""

UNBUFFERED = {"PYTHONUNBUFFERED": "1"}
"""Python writes each line at once: `grus logs` shows it, and a kill does not lose it."""


@dataclass(frozen=True, slots=True)
class Member:
    """One worker of the present attempt."""

    id: WorkerId
    role: str
    seats: tuple[Seat, ...]
    rank: int
    """Position among those that stay; those that leave come after them."""
    local_rank: int
    """Position among the workers of its node."""

    @property
    def node(self) -> NodeId:
        return self.seats[0].node

    @property
    def leaving(self) -> bool:
        return self.seats[0].leaving


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Inputs of a worker's start besides the job."""

    environment: tuple[tuple[str, str], ...] = ()
    device_memory: Mapping[DeviceId, int] | None = None
    unix_user: str = ""
    stage: StagingSetup | None = None
    """Arguments of the wrapping program, if the job has inputs or outputs."""
    session: Runner | None = None
    """Interpreter and source of a session's program."""


@remembered
def members(job: Job) -> tuple[Member, ...]:
    """Return the workers of the present attempt, in the order of their ranks; leaving ones last."""
    order = {role.name: place for place, role in enumerate(job.spec.request.roles)}
    seats = sorted(job.seats, key=lambda seat: (seat.leaving, order.get(seat.role, 0), seat.index))
    groups: list[tuple[Seat, ...]]
    if worker_per_seat(job.spec):
        groups = [(seat,) for seat in seats]
    elif job.spec.launch is Launch.PER_NODE:
        by_node: dict[NodeId, list[Seat]] = {}
        for seat in seats:
            by_node.setdefault(seat.node, []).append(seat)
        groups = [tuple(group) for group in by_node.values()]
    else:
        groups = [tuple(seats)] if seats else []
    return tuple(_ranked(job, groups))


def _ranked(job: Job, groups: list[tuple[Seat, ...]]) -> list[Member]:
    on_node: dict[tuple[NodeId, str], int] = {}
    found = []
    for rank, group in enumerate(groups):
        first = group[0]
        local = on_node.get((first.node, first.role), 0)
        on_node[first.node, first.role] = local + 1
        found.append(Member(worker_id(job.id, job.attempt, first), first.role, group, rank, local))
    return found


def setup_member(job: Job) -> Member | None:
    """Return the worker that runs the `setup` lines, on the first node of the job; None if there are none."""
    if not job.spec.setup or not job.seats:
        return None
    node = job.seats[0].node
    seats = tuple(seat for seat in job.seats if seat.node == node)
    return Member(setup_id(job), SETUP, seats, 0, 0)


def setup_id(job: Job) -> WorkerId:
    """Return the setup worker's id: born in round 0, so that it differs from a replica of a role that a user
    calls `setup`.
    """
    return worker_id(job.id, job.attempt, Seat(SETUP, 0, NodeId(""), (), 0, born=0))


def worker_spec(job: Job, member: Member, around: Surroundings) -> WorkerSpec:
    """Return everything that the engine needs to start this worker."""
    first = member.seats[0]
    role = next((role for role in job.spec.request.roles if role.name == first.role), None)
    count = len(member.seats)
    return WorkerSpec(
        id=member.id,
        job=job.id,
        attempt=job.attempt,
        node=first.node,
        argv=_argv(job, member, role, around),
        env=_environment(job, member, around),
        workdir=job.spec.workdir,
        devices=_devices(member),
        visible=_visible(job, member),
        share=_share(job, first),
        gpu_memory=0 if job.spec.request.shares else _gpu_memory(first, role, around),
        memory=role.replica.memory * count if role else 0,
        cpu=role.replica.cpu * count if role else 0,
        grace=job.spec.checkpoint.grace,
        unix_user=around.unix_user,
        image=(role.image if role else "") or job.spec.image,
        pod=merged_texts(job.spec.pod, role.pod if role else ""),
        first=members(job)[0].id,
        user=job.user,
        secrets=job.spec.secrets,
        vault="" if around.stage is None else around.stage.vault,
    )


def _share(job: Job, seat: Seat) -> int:
    """Return the GPU share that the worker is bound to. A job that shares a GPU requested all of it: its
    share may change while it runs, and it must not be killed for memory that it was never asked to spare.
    """
    return GPU if job.spec.request.shares else seat.share


def _devices(member: Member) -> tuple[DeviceId, ...]:
    return tuple(dict.fromkeys(device for seat in member.seats for device in seat.devices))


def _visible(job: Job, member: Member) -> tuple[DeviceId, ...]:
    """A worker with one whole GPU sees those of its peers on the node too, in the order of LOCAL_RANK:
    scripts choose theirs by that number, and the GPUs reach each other directly."""
    if not worker_per_seat(job.spec) or not _is_rank(job, member) or _share(job, member.seats[0]) < GPU:
        return ()
    here = member.seats[0].node
    peers = [one for one in members(job) if one.role == member.role and one.seats[0].node == here]
    if any(len(_devices(one)) != 1 for one in peers):
        return ()
    return tuple(device for one in peers for device in _devices(one))


def _argv(job: Job, member: Member, role: Role | None, around: Surroundings) -> tuple[str, ...]:
    spec = job.spec
    if member.role == SETUP:
        return ("/bin/sh", "-e", "-c", "\n".join(spec.setup))
    own = role.run if role and role.run else spec.run
    if around.session is not None:
        own = session_command.command(around.session, own)
    if around.stage is None:
        return own
    return artifact_inputs_outputs.around(around.stage, job, member.node, own, _keeps(job, member))


def _keeps(job: Job, member: Member) -> bool | None:
    """Return whether this worker keeps the outputs: the one that decides how the job ends, else the first
    one.

    None if workers come and go: the first one is known only at the end, from the worker group.
    """
    if any(role.name == LAUNCHER for role in job.spec.request.roles):
        return member.role == LAUNCHER and member.seats[0].index == 0
    return None if worker_per_seat(job.spec) else member.rank == 0


def keeper(job: Job, team: Sequence[Member]) -> Member | None:
    """Return the member that keeps the outputs, of those that computed together at the end."""
    return next((member for member in team if _keeps(job, member) is not False), None)


def _gpu_memory(seat: Seat, role: Role | None, around: Surroundings) -> int:
    """Bytes of each device that the worker may use: its slice; 0 (all of it) for whole GPUs."""
    if role and role.replica.gpu_memory:
        return role.replica.gpu_memory
    if not seat.devices or seat.share >= GPU:
        return 0
    return (around.device_memory or {}).get(seat.devices[0], 0) * seat.share // GPU


def _environment(job: Job, member: Member, around: Surroundings) -> tuple[tuple[str, str], ...]:
    variables = UNBUFFERED | dict(around.environment) | dict(job.spec.env)
    variables.update(
        GRUS_JOB=job.id,
        GRUS_ATTEMPT=str(job.attempt),
        GRUS_GENERATION=str(job.generation),
        GRUS_WORKER=str(member.rank),
        GRUS_ROLE=member.role,
        GRUS_RESUME="1" if job.attempt > 1 else "0",
        GRUS_GPUS=gpus(sum(_share(job, seat) * len(seat.devices) for seat in job.staying)),
        GRUS_HOST=HOST,
        GRUS_MAX_WORKERS=str(most_workers(job.spec)),
    )
    if _is_rank(job, member):
        variables.update(_distributed(job, member))
    if job.spec.request.how:
        variables["GRUS_STRATEGY"] = " ".join(job.spec.request.how)
    if job.spec.checkpoint.path:
        folder = "" if is_bundle(job.spec.workdir) else job.spec.workdir  # only its node knows the path
        variables["GRUS_CHECKPOINT"] = _checkpoint(os.path.join(folder, job.spec.checkpoint.path), job)
    if job.spec.checkpoint.every is not None:
        variables["GRUS_CHECKPOINT_EVERY"] = f"{job.spec.checkpoint.every:g}"
    if job.spec.params:
        variables["GRUS_PARAMS"] = json.dumps(dict(job.spec.params))
    if (trial := job.spec.trial) is not None:
        variables["GRUS_TRIAL"] = str(trial.number)
        reached = dict(job.progress).get(trial.by, 0.0)
        variables["GRUS_RUNGS"] = json.dumps({"by": trial.by, "at": trial.rungs, "from": reached})
    return tuple(sorted(variables.items()))


def _is_rank(job: Job, member: Member) -> bool:
    """True if Grus starts this worker as one rank of several.

    A program that runs once must not see a rank: Transformers and Accelerate would take it for one process
    of a distributed run, and Lightning would wait for processes that it has to start itself.
    """
    if member.role == SETUP or job.spec.type is JobType.SERVE:
        return False
    roles = job.spec.request.roles
    if any(role.run for role in roles) and sum(role.replicas.high for role in roles) == 1:
        return False  # one role with one worker is a program that runs once
    return worker_per_seat(job.spec) or job.spec.launch is Launch.PER_NODE


def _distributed(job: Job, member: Member) -> dict[str, str]:
    """Variables by which torch.distributed finds the other ranks."""
    return {
        "RANK": str(member.rank),
        "LOCAL_RANK": str(member.local_rank),
        "WORLD_SIZE": str(sum(1 for other in members(job) if not other.leaving)),
        "MASTER_ADDR": HOST,
        "MASTER_PORT": str(master_port(job)),
    }


def _checkpoint(path: str, job: Job) -> str:
    """Return the path to which the job saves: the declared path; a stage adds a name of its own."""
    if not job.saves_as:
        return path
    stem, ending = os.path.splitext(os.path.normpath(path))
    return f"{stem}-{job.saves_as}{ending}"


def most_workers(spec: Spec) -> int:
    """The largest number of workers that the request allows."""
    if not worker_per_seat(spec) and spec.launch is Launch.ONCE:
        return 1
    return sum(role.replicas.high for role in spec.request.roles)


def master_port(job: Job) -> int:
    """Derive the port from the attempt, without probing: a repeated start after a crash must name the same
    port.
    """
    return FIRST_PORT + zlib.crc32(f"{job.id}.{job.attempt}".encode()) % PORTS
