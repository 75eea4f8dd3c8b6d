"""Worker state derived from its pod: starting, running or ended, and the cause of the end. Pure.

Clocks of nodes differ, so timestamps of a kubelet decide nothing; they are only passed on. Waiting times are
counted from the first observation (`Moments`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from signal import Signals
from typing import Any

from grus.engines import gpu_memory
from grus.engines.kubernetes.nodes import terminal
from grus.engines.kubernetes.quantities import amount
from grus.kubernetes.client.resource_kinds import Object
from grus.kubernetes.names import ATTEMPT, JOB, KILL_AT, OVER, READ, SAID, VERDICT, VOLUME, WORKER
from grus.model.identifiers import JobId, WorkerId
from grus.model.interfaces import WorkerState, WorkerStatus
from grus.model.jobs import Exit, ExitCause

LAST_WORD = 5.0
"""Seconds to wait for the node agent's last report: the agent may be down, or its node."""
STUCK = {
    "InvalidImageName": 0.0,
    "ErrImageNeverPull": 0.0,
    "CreateContainerError": 5.0,
    "RunContainerError": 5.0,
    "CreateContainerConfigError": 10.0,
    "ErrImagePull": 60.0,
    "ImagePullBackOff": 60.0,
}
"""Why a container may wait, and for how many seconds that may be a passing trouble."""
_KUBELET = frozenset(
    {
        "UnexpectedAdmissionError",
        "TopologyAffinityError",
        "NodeAffinity",
        "NodeShutdown",
        "NodeLost",
        "Preempting",
        "Shutdown",
        "Terminated",
    }
)
"""Reasons of whole pods that are not their programs' fault, besides OutOf…: the node failed."""
_CANNOT_START = frozenset({"StartError", "ContainerCannotRun", "RunContainerError", "CreateContainerError"})
_LAST_SIGNAL = 64


@dataclass(frozen=True, slots=True)
class Moments:
    """Times of the first observation of facts about a pod."""

    over: float | None = None
    """First observation that nothing of it runs any more."""
    stuck: float | None = None
    """First observation that it cannot start."""


@dataclass(frozen=True, slots=True)
class PodState:
    """State of a pod at a moment."""

    status: WorkerStatus
    moments: Moments = Moments()
    doomed: Exit | None = None
    """Exit to record when the engine ends it, because it cannot start or has used too much."""
    again: float | None = None
    """Time of the next check although nothing has changed."""


def worker_of(pod: Mapping[str, Any]) -> WorkerId | None:
    found = (pod["metadata"].get("annotations") or {}).get(WORKER)
    return WorkerId(found) if found else None


def job_of(pod: Mapping[str, Any], worker: WorkerId) -> JobId:
    return JobId((pod["metadata"].get("labels") or {}).get(JOB) or worker.partition(".")[0])


def view(pod: Object, moments: Moments, now: float, gone: str = "") -> PodState:
    """Return the view of the pod; `gone` is the reason why its node will never return, "" if it may."""
    worker = worker_of(pod)
    assert worker is not None
    notes = pod["metadata"].get("annotations") or {}
    main = _main(pod)
    started = _moment(main, "startedAt")
    status = WorkerStatus(
        id=worker,
        job=job_of(pod, worker),
        attempt=amount(notes.get(ATTEMPT) or 1),
        state=WorkerState.RUNNING if started or _runs(main) or notes.get(SAID) else WorkerState.STARTING,
        started_at=started,
        said=notes.get(SAID, ""),
    )
    if gone and not terminal(pod):
        return PodState(_ended(status, Exit(ExitCause.LOST, None, gone), now))
    if terminal(pod):
        over = now if moments.over is None else moments.over
        due = over + LAST_WORD
        if not gone and now < due and _has_more_to_say(pod):
            return PodState(status, replace(moments, over=over), again=due)
        at = _moment(main, "finishedAt") or over
        return PodState(_ended(status, how(pod), max(at, started or at)), replace(moments, over=over))
    doomed = _over(pod) if KILL_AT not in notes else None
    if doomed is not None:
        return PodState(status, moments, doomed)
    return _view_of_stuck(pod, main, status, moments, now)


def how(pod: Object) -> Exit:
    """Return the exit of a pod of which nothing runs any more."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    notes = metadata.get("annotations") or {}
    decided = _verdict(notes)
    if decided is not None:
        return decided
    end = (_main(pod).get("state") or {}).get("terminated") or {}
    if KILL_AT in notes:
        return _stopped(end)
    if status.get("reason"):
        return _by_kubelet(status)
    failed = _failed_before(status)
    if failed is not None:
        return failed
    if metadata.get("deletionTimestamp"):
        text = "its pod was deleted by somebody else (a drain, an eviction, kubectl delete)"
        return Exit(ExitCause.LOST, None, text)
    return _by_itself(end)


def with_log(found: Exit, tail: bytes) -> Exit:
    """The same in the light of the end of its log."""
    verdict = gpu_memory.verdict(tail) if may_be_gpu_memory(found) else ""
    if not verdict:
        return found
    code = found.code if found.cause is ExitCause.CODE else None
    return Exit(ExitCause.GPU_MEMORY, code, verdict)


def may_be_gpu_memory(found: Exit) -> bool:
    """Return whether the log may show more about this exit."""
    return found.cause in (ExitCause.CODE, ExitCause.SIGNAL)


def removed(pod: Object) -> Exit:
    """Return the exit of a pod that no longer exists, by its last observed state."""
    if terminal(pod):
        return how(pod)
    notes = pod["metadata"].get("annotations") or {}
    if _verdict(notes) is None and KILL_AT not in notes:
        return Exit(ExitCause.LOST, None, "its pod was removed by somebody else")
    return _verdict(notes) or _stopped({})


def verdict(exit_: Exit) -> str:
    """Return the exit as text for an annotation, which is read when the pod's end is examined."""
    return json.dumps({"cause": exit_.cause.name, "text": exit_.text})


def _verdict(notes: Mapping[str, str]) -> Exit | None:
    try:
        said = json.loads(notes.get(VERDICT) or "null")
        return Exit(ExitCause[said["cause"]], None, str(said["text"])) if said else None
    except (ValueError, KeyError, TypeError):  # only Grus writes it, except by accident
        return None


def _main(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status of the container that is the worker; empty before it has one."""
    name = pod["spec"]["containers"][0]["name"]
    found = (pod.get("status") or {}).get("containerStatuses") or ()
    return next((one for one in found if one.get("name") == name), {})


def _runs(main: Mapping[str, Any]) -> bool:
    return "running" in (main.get("state") or {})


def _moment(main: Mapping[str, Any], name: str) -> float | None:
    """`startedAt` or `finishedAt` of the container, in Unix seconds; never of one that could not start."""
    state = main.get("state") or {}
    part = state.get("running") or state.get("terminated") or {}
    if not part.get(name) or part.get("reason") in _CANNOT_START:
        return None
    at = datetime.fromisoformat(part[name]).timestamp()
    return at if at > 0 else None  # kubelets write 1970 for missing times


def _ended(status: WorkerStatus, exit_: Exit, at: float) -> WorkerStatus:
    return replace(status, state=WorkerState.ENDED, exit=exit_, ended_at=at)


def _has_more_to_say(pod: Object) -> bool:
    """Return whether the node agent will still write the last line of its report."""
    if READ in (pod["metadata"].get("annotations") or {}):
        return False
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    ran = _moment(_main(pod), "startedAt") is not None
    return ran and any(volume.get("name") == VOLUME for volume in volumes)


def _over(pod: Object) -> Exit | None:
    text = (pod["metadata"].get("annotations") or {}).get(OVER)
    return Exit(ExitCause.GPU_MEMORY, None, text) if text else None


def _view_of_stuck(
    pod: Object, main: Mapping[str, Any], status: WorkerStatus, moments: Moments, now: float
) -> PodState:
    first = (pod.get("status") or {}).get("initContainerStatuses") or ()
    waits = [(one.get("state") or {}).get("waiting") or {} for one in (*first, main)]
    stuck = next((wait for wait in waits if wait.get("reason") in STUCK), None)
    if stuck is None:
        return PodState(status, replace(moments, stuck=None))
    since = now if moments.stuck is None else moments.stuck
    due = since + STUCK[stuck["reason"]]
    if now < due:
        return PodState(status, replace(moments, stuck=since), again=due)
    text = stuck.get("message") or stuck["reason"]
    return PodState(status, replace(moments, stuck=since), Exit(ExitCause.START, None, text))


def _stopped(end: Mapping[str, Any]) -> Exit:
    """Return the exit after a stop request: the code as a shell would show it, 128 + number for a signal."""
    if not end:
        return Exit(ExitCause.STOPPED, None, "stopped before it started")
    if _unseen(end):
        return Exit(ExitCause.STOPPED, None, "ended when asked to stop; its node cannot say how")
    code = int(end.get("exitCode") or 0)
    if code == 128 + Signals.SIGKILL:
        return Exit(ExitCause.STOPPED, code, "killed when its grace was over")
    if code == 128 + Signals.SIGTERM:
        return Exit(ExitCause.STOPPED, code, "ended by SIGTERM")
    return Exit(ExitCause.STOPPED, code, f"ended with exit code {code} when asked to stop")


def _by_kubelet(status: Mapping[str, Any]) -> Exit:
    """Return the exit of a whole pod that the kubelet ended, or never admitted."""
    reason = str(status["reason"])
    text = f"{reason}: {status['message']}" if status.get("message") else reason
    if reason == "Evicted":
        greedy = "exceeds" in text or "exceeded" in text
        return Exit(ExitCause.MEMORY if greedy else ExitCause.LOST, None, text)
    if reason == "DeadlineExceeded":
        return Exit(ExitCause.TIME, None, text)
    lost = reason in _KUBELET or reason.startswith("OutOf")
    return Exit(ExitCause.LOST if lost else ExitCause.START, None, text)


def _failed_before(status: Mapping[str, Any]) -> Exit | None:
    """Return the exit if one of the containers that prepare the worker has failed."""
    for one in status.get("initContainerStatuses") or ():
        end = (one.get("state") or {}).get("terminated") or {}
        if end.get("exitCode"):
            why = (end.get("message") or end.get("reason") or f"exit code {end['exitCode']}").strip()
            return Exit(ExitCause.START, None, f"{one.get('name')}: {why}")
    return None


def _unseen(end: Mapping[str, Any]) -> bool:
    """Return whether the kubelet lost the container before it read its exit; its 137 then means nothing."""
    return not end.get("finishedAt") or end.get("reason") == "ContainerStatusUnknown"


def _by_itself(end: Mapping[str, Any]) -> Exit:
    reason, code = end.get("reason"), int(end.get("exitCode") or 0)
    if _unseen(end):
        return Exit(ExitCause.LOST, None, "nobody saw it end: its node was restarted, or lost it")
    if reason in _CANNOT_START:
        return Exit(ExitCause.START, None, end.get("message") or reason)
    if reason == "OOMKilled":
        return Exit(ExitCause.MEMORY, None, "used more than its limit of host memory; killed by the kernel")
    if code == 0:
        return Exit(ExitCause.DONE, 0, "")
    if 128 < code <= 128 + _LAST_SIGNAL:
        return Exit(ExitCause.SIGNAL, code - 128, f"killed by signal {code - 128} ({_name(code - 128)})")
    return Exit(ExitCause.CODE, code, f"exit code {code}")


def _name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return "real-time"
