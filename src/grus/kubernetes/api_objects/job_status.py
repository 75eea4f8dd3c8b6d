"""Job status for users in a cluster: the status of its GpuJob, without the record. Pure.

`kubectl get` shows phase and GPUs, `kubectl describe` all of it, `kubectl wait --for=condition=…` the
conditions. Grus never reads any of it back. Empty texts are left out: some API servers treat them as null.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from grus.kubernetes.client.resource_kinds import Object
from grus.kubernetes.names import JOB
from grus.model.jobs import TERMINAL, Job, PauseCause, Phase
from grus.model.texts.job_text import request_text, status_word
from grus.model.texts.units import render_gpus

OWNED = frozenset(
    (
        *("phase", "reason", "request", "startTime", "endTime", "selector", "replicas", "attempt"),
        *("generation", "team", "lost", "gpus", "nodes", "progress"),
    )
)
"""Fields of the status that are written here; besides them, some of the conditions."""


def people(job: Job, now: float) -> Object:
    """Return the present status of a job; its conditions as if all had changed just now (see `merged`)."""
    status: Object = {
        "phase": status_word(job),
        "gpus": render_gpus(job.held),
        "request": request_text(job.spec.request) if job.size is None else str(job.size),
        "nodes": list(dict.fromkeys(seat.node for seat in job.seats)),
        "replicas": replicas(job),
        "selector": f"{JOB}={job.id}",
        "attempt": job.attempt,
        "generation": job.generation,
        "conditions": conditions(job, now),
    }
    if job.reason:
        status["reason"] = job.reason
    if job.seats and job.team:
        status["team"] = job.team
    if job.lost:
        status["lost"] = job.lost
    if job.progress:
        status["progress"] = dict(job.progress)
    if job.first_started_at is not None:
        status["startTime"] = moment(job.first_started_at)
    if job.terminal and job.ended_at is not None:
        status["endTime"] = moment(job.ended_at)
    return status


def replicas(job: Job) -> int:
    """Return the number that `kubectl scale` compares with:
    replicas of the elastic role, or else of all roles.
    """
    elastic = job.spec.request.elastic
    return sum(elastic is None or seat.role == elastic.name for seat in job.staying)


def conditions(job: Job, now: float) -> list[Object]:
    """Admitted, Running, Paused; Complete or Failed at the end, and Finished for whichever end it was."""
    phase, why = job.phase, _word(job)
    ended = job.exit.text if job.exit and job.exit.text else job.reason
    return [
        _condition("Admitted", True, "Recorded", "", now),
        _condition("Running", phase is Phase.RUNNING, why, job.reason, now),
        _condition("Paused", phase is Phase.PAUSED, why, job.reason, now),
        _condition("Complete", phase is Phase.SUCCEEDED, why, job.reason, now),
        _condition("Failed", phase in (Phase.FAILED, Phase.STOPPED), why, ended, now),
        _condition("Finished", phase in TERMINAL, why, ended, now),
    ]


def merged(before: Iterable[Mapping[str, str]], new: Sequence[Object]) -> list[Object]:
    """Merge new conditions over older ones: an unchanged one keeps its time; those of others stay."""
    old = {one.get("type"): one for one in before}
    ours = {one["type"] for one in new}
    return [_kept(old.get(one["type"]), one) for one in new] + [
        dict(one) for kind, one in old.items() if kind not in ours
    ]


def moment(at: float) -> str:
    """Return a time as Kubernetes writes it: to the second,
    UTC. Times beyond its calendar become its first day.
    """
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return "1970-01-01T00:00:00Z"


def _kept(old: Mapping[str, str] | None, new: Object) -> Object:
    if old is None or old.get("status") != new["status"] or "lastTransitionTime" not in old:
        return new
    return {**new, "lastTransitionTime": old["lastTransitionTime"]}


def _condition(kind: str, true: bool, reason: str, message: str, now: float) -> Object:
    said = {"message": message} if message else {}
    status = "True" if true else "False"
    return {"type": kind, "status": status, "reason": reason, **said, "lastTransitionTime": moment(now)}


def _word(job: Job) -> str:
    """Return a reason for machines, in one word as Kubernetes requires."""
    if job.phase is Phase.PAUSED and job.paused_by is PauseCause.SCHEDULER:
        return "Preempted"
    if job.phase is Phase.FAILED and job.exit is not None:
        return "".join(part.capitalize() for part in job.exit.cause.value.split())
    return job.phase.value.capitalize()
