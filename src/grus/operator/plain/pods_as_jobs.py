"""A pod as a job, and as the worker of that job. Pure."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from grus.api.wire_types.timestamps import parse_time
from grus.engines.kubernetes.nodes import SCHEDULER, terminal
from grus.engines.kubernetes.quantities import asked
from grus.kubernetes.client.resource_kinds import Object
from grus.kubernetes.names import DEVICES, JOB, RESERVATION
from grus.model.errors import Mistake
from grus.model.identifiers import DeviceId, JobId, NodeId, QueueName, UserName, job_id
from grus.model.interfaces import WorkerState, WorkerStatus
from grus.model.jobs import (
    PRIORITIES,
    Affinity,
    Checkpoint,
    Desired,
    Exit,
    ExitCause,
    Job,
    JobType,
    Phase,
    Seat,
    Spec,
    worker_id,
)
from grus.model.queues import DEFAULT_QUEUE
from grus.model.resources import GPU, Range, Replica, Request, Role

QUEUE = "grus.dev/queue"
PRIORITY = "grus.dev/priority"
"""Labels of a plain pod: its queue, and a priority in Grus's words or as a number."""
ROLE = "pod"
GRACE = 30.0


def is_plain(pod: Mapping[str, Any]) -> bool:
    labels = pod["metadata"].get("labels") or {}
    mine = (pod.get("spec") or {}).get("schedulerName") == SCHEDULER
    return mine and JOB not in labels and RESERVATION not in labels


def is_plain_id(job: str) -> bool:
    """Return whether this is the id of a plain pod's job or worker."""
    return job.startswith("p")


def plain_id(pod: Mapping[str, Any]) -> JobId:
    """Return a job id made of the pod's uid; ids of other jobs start with another letter."""
    bits = int(re.sub(r"[^0-9a-f]", "", pod["metadata"]["uid"].lower()), 16) & ((1 << 50) - 1)
    return JobId("p" + job_id(bits)[1:])


def spec_of(pod: Object, resource: str) -> tuple[Spec, list[Mistake]]:
    """Return the pod's request, and the parts of it that Grus does not support."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    labels = metadata.get("labels") or {}
    priority, mistakes = _priority(labels.get(PRIORITY, ""))
    selector, more = _selector(spec)
    replica = Replica(gpus=asked(pod, resource), cpu=asked(pod, "cpu", 1000), memory=asked(pod, "memory"))
    grace = spec.get("terminationGracePeriodSeconds")
    found = Spec(
        name=re.sub(r"[^a-z0-9-]+", "-", metadata["name"])[:63],
        queue=QueueName(labels.get(QUEUE) or DEFAULT_QUEUE),
        run=(ROLE,),
        request=Request((Role(ROLE, Range(1, 1), replica),), one_node=True),
        type=JobType.TRAIN,
        priority=priority,
        checkpoint=Checkpoint(grace=GRACE if grace is None else float(grace)),
        node_selector=selector,
        affinity=Affinity(),
    )
    return found, mistakes + more


def job_of(pod: Object, spec: Spec, arrived: int) -> Job:
    """The job that the pod is. `arrived` orders pods that were made in the same second."""
    made = parse_time(pod["metadata"]["creationTimestamp"])
    job = Job(
        id=plain_id(pod),
        spec=spec,
        user=UserName(pod["metadata"]["namespace"]),
        submitted_at=made + (arrived % 900_000) / 1e6,
        version=1,
        reason="waits for its turn",
    )
    seats = seats_of(pod)
    if not seats:
        return job
    return _placed(job, seats, made, leaving="deletionTimestamp" in pod["metadata"])


def seats_of(pod: Mapping[str, Any]) -> tuple[Seat, ...]:
    """Return the placement that Grus chose; empty while the pod waits, or if another scheduler placed it."""
    node = (pod.get("spec") or {}).get("nodeName")
    said = (pod["metadata"].get("annotations") or {}).get(DEVICES)
    if not node or said is None:
        return ()
    devices = tuple(DeviceId(name) for name in said.split(",") if name)
    return (Seat(ROLE, 0, NodeId(node), devices, GPU),)


def status_of(pod: Object, job: Job, now: float, *, gone: bool = False) -> WorkerStatus | None:
    """The pod as the worker of its job; None while it is nowhere."""
    if not job.seats:
        return None
    over = gone or terminal(pod)
    return WorkerStatus(
        id=worker_id(job.id, job.attempt, job.seats[0]),
        job=job.id,
        attempt=job.attempt,
        state=WorkerState.ENDED if over else WorkerState.RUNNING,
        started_at=job.started_at,
        ended_at=now if over else None,
        exit=_exit(pod) if over else None,
    )


def _placed(job: Job, seats: tuple[Seat, ...], at: float, *, leaving: bool) -> Job:
    return replace(
        job,
        phase=Phase.RUNNING,
        desired=Desired.STOP if leaving else Desired.RUN,
        attempt=1,
        generation=1,
        seats=seats,
        started_at=at,
        first_started_at=at,
        reason="runs",
    )


def _exit(pod: Object) -> Exit:
    status = pod.get("status") or {}
    if status.get("phase") == "Succeeded":
        return Exit(ExitCause.DONE, 0, "")
    if "deletionTimestamp" in pod["metadata"] or status.get("phase") != "Failed":
        return Exit(ExitCause.STOPPED, None, "its pod was deleted")
    text = status.get("message") or status.get("reason") or "its pod has failed"
    return Exit(ExitCause.CODE, 1, str(text)[:500])


def _priority(said: str) -> tuple[int, list[Mistake]]:
    default = PRIORITIES["train"]
    if not said:
        return default, []
    if said in PRIORITIES:
        return PRIORITIES[said], []
    if re.fullmatch(r"[0-9]{1,3}", said) and int(said) <= max(PRIORITIES.values()):
        return int(said), []
    words = ", ".join(PRIORITIES)
    return default, [Mistake(f"label {PRIORITY}", f"must be one of {words}, or a number from 0 to 125", said)]


def _selector(spec: Mapping[str, Any]) -> tuple[tuple[tuple[str, str], ...], list[Mistake]]:
    """Return labels that its node must have, from its selector and the equivalent part of its affinity."""
    wanted = dict(spec.get("nodeSelector") or {})
    mistakes: list[Mistake] = []
    affinity = spec.get("affinity") or {}
    needed = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = needed.get("nodeSelectorTerms") or ()
    simple = len(terms) <= 1 and all(_single(term) for term in terms)
    if not simple:
        rule = "only one term of the form `key In [value]` is understood for pods outside a GpuJob"
        mistakes.append(Mistake("spec.affinity.nodeAffinity", rule))
    for term in terms if simple else ():
        wanted.update({one["key"]: one["values"][0] for one in term.get("matchExpressions") or ()})
    for kind in ("podAffinity", "podAntiAffinity"):
        if (affinity.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution"):
            mistakes.append(Mistake(f"spec.affinity.{kind}", "is not understood for pods outside a GpuJob"))
    return tuple(sorted(wanted.items())), mistakes


def _single(term: Mapping[str, Any]) -> bool:
    return not term.get("matchFields") and all(
        one.get("operator") == "In" and len(one.get("values") or ()) == 1
        for one in term.get("matchExpressions") or ()
    )
