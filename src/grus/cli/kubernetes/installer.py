"""Installation into a cluster: apply every object, wait until it works, or report the problem.

Applying is server-side: values that another tool has set are not overwritten silently, and a second run
changes only what differs. Each `AppliedObject` is reported when it is done.
"""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from grus.kubernetes.client import resource_kinds
from grus.kubernetes.client.api import Api, Conflicts, Missing, Object, ResourceKind
from grus.kubernetes.client.versions import budgets_of
from grus.kubernetes.install import rbac
from grus.kubernetes.install.foreign_crds import PLURALS
from grus.kubernetes.install.install_options import PART_OF
from grus.model.errors import Conflict, GrusError

FIELD_MANAGER = "grus-install"
EVERY = 0.5
"""Seconds between two looks at what the cluster does in its own time."""
DEFINED_WITHIN = 60.0

_KINDS = {
    (kind.api_version, kind.name): kind
    for kind in vars(resource_kinds).values()
    if isinstance(kind, resource_kinds.ResourceKind)
}


class NotReady(GrusError):
    """It was applied, but does not work yet."""

    code = "not_ready"


@dataclass(frozen=True, slots=True)
class AppliedObject:
    """One object, and what was done with it: created, changed, unchanged or left."""

    kind: str
    name: str
    done: str

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name} {self.done}"


def kind_of(one: Object) -> ResourceKind:
    return _KINDS[one["apiVersion"], one["kind"]]


def disruption_version(api: Api) -> str:
    """policy/v1 since Kubernetes 1.21."""
    return budgets_of(api.release()).api_version


def takes_policies(api: Api) -> bool:
    """True if the server has ValidatingAdmissionPolicies."""
    return api.serves(resource_kinds.ADMISSION_POLICIES)


def apply(
    api: Api, objects: Iterable[Object], *, force: bool, tell: Callable[[AppliedObject], None]
) -> list[AppliedObject]:
    """All of them, in their order; definitions are waited for, since what follows may need them."""
    steps = []
    for one in objects:
        step = _apply_one(api, one, force=force)
        if one["kind"] == "CustomResourceDefinition" and step.done != "left":
            _wait_defined(api, one["metadata"]["name"])
        tell(step)
        steps.append(step)
    return steps


def _apply_one(api: Api, one: Object, *, force: bool) -> AppliedObject:
    kind, metadata = kind_of(one), one["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace", "")
    try:
        before: Object | None = api.get(kind, name, namespace)
    except Missing:
        before = None
    if before is not None and _is_of_others(one, before):
        return AppliedObject(one["kind"], name, "left")
    if before is not None and before["metadata"].get("deletionTimestamp"):
        raise Conflict(
            f"{one['kind'].lower()}/{name} is just being removed; wait until it is gone, and try again"
        )
    try:
        after = api.patch(kind, name, one, namespace, how="apply", manager=FIELD_MANAGER, force=force)
    except Conflicts as refused:
        raise Conflict(
            f"{one['kind'].lower()}/{name} was changed by others, and is left as it is: {refused.text}."
            " `--force` takes the fields over"
        ) from refused
    if before is None:
        return AppliedObject(one["kind"], name, "created")
    same = before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
    return AppliedObject(one["kind"], name, "unchanged" if same else "changed")


def _is_of_others(one: Object, before: Object) -> bool:
    """A definition of another system's jobs that was there before us stays that system's."""
    foreign = {f"{plural}.{group}" for group, plural in PLURALS}
    labels = before["metadata"].get("labels") or {}
    return one["metadata"]["name"] in foreign and labels.get(PART_OF) != "grus"


def _wait_defined(api: Api, name: str) -> None:
    def defined() -> bool:
        conditions = (api.get(resource_kinds.DEFINITIONS, name).get("status") or {}).get("conditions") or ()
        refused = [one for one in conditions if one["type"] == "NamesAccepted" and one["status"] == "False"]
        if refused:
            raise Conflict(
                f"customresourcedefinition/{name} was not accepted: {refused[0].get('message', '')}"
            )
        return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)

    if not within(DEFINED_WITHIN, defined):
        raise NotReady(f"customresourcedefinition/{name} was applied, but the server does not serve it yet")


def within(seconds: float, true: Callable[[], bool]) -> bool:
    """Wait for the condition; return whether it became true in that time."""
    end = time.monotonic() + seconds
    never = threading.Event()
    while not true():
        if time.monotonic() >= end:
            return False
        never.wait(EVERY)
    return True


# --------------------------------------------------------------------------------------------------- ready


@dataclass(frozen=True, slots=True)
class InstallationHealth:
    """Progress of an installation: the missing parts, and the reasons that the cluster reports."""

    waiting: tuple[str, ...]
    troubles: tuple[str, ...]


def health(api: Api, namespace: str) -> InstallationHealth:
    """Return the installation's present health."""
    deployment = api.get(resource_kinds.DEPLOYMENTS, rbac.CONTROLLER, namespace)
    behind = [_behind(deployment)]
    for name, what in ((rbac.AGENT, "agent"), (rbac.PROFILER, "profiler")):
        behind.append(_daemons_behind(api.get(resource_kinds.DAEMON_SETS, name, namespace), what))
    waiting = tuple(text for text in behind if text)
    if not waiting:
        return InstallationHealth((), ())
    pods, _ = api.list(resource_kinds.PODS, namespace, labels=f"{PART_OF}=grus")
    events, _ = api.list(resource_kinds.EVENTS, namespace, fields="type=Warning")
    return InstallationHealth(waiting, tuple(troubles(deployment, pods, events)))


def _behind(deployment: Object) -> str:
    status, wanted = deployment.get("status") or {}, deployment["spec"]["replicas"]
    if status.get("observedGeneration", 0) < deployment["metadata"]["generation"]:
        return "the controller's Deployment has not been looked at yet"
    ready = min(status.get("updatedReplicas", 0), status.get("readyReplicas", 0))
    return "" if ready >= wanted else f"{ready} of {wanted} controllers are ready"


def _daemons_behind(daemons: Object, what: str) -> str:
    status = daemons.get("status") or {}
    if status.get("observedGeneration", 0) < daemons["metadata"]["generation"]:
        return f"the {what}s' DaemonSet has not been looked at yet"
    wanted = status.get("desiredNumberScheduled", 0)
    ready = min(status.get("updatedNumberScheduled", 0), status.get("numberReady", 0))
    return "" if ready >= wanted else f"{ready} of {wanted} node {what}s are ready"


def troubles(deployment: Object, pods: list[Object], events: list[Object]) -> list[str]:
    """Return why it does not start, in the cluster's own words, without repetitions. Pure."""
    found = [
        one.get("message", "")
        for one in (deployment.get("status") or {}).get("conditions") or ()
        if one["type"] == "ReplicaFailure" and one["status"] == "True"
    ]
    for pod in pods:
        found += [f"{pod['metadata']['name']}: {text}" for text in _pod_troubles(pod)]
    found += [
        f"{event['involvedObject'].get('name', '')}: {event.get('message', '')}"
        for event in events
        if event.get("reason") in ("FailedCreate", "FailedMount", "FailedScheduling")
    ]
    return list(dict.fromkeys(text.strip() for text in found if text.strip()))


def _pod_troubles(pod: Object) -> Iterable[str]:
    status = pod.get("status") or {}
    for one in status.get("conditions") or ():
        if one["type"] == "PodScheduled" and one["status"] == "False":
            yield f"no node takes it: {one.get('message', one.get('reason', ''))}"
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        waiting = state.get("waiting") or {}
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            yield f"{waiting['reason']}: {waiting.get('message', 'no more is said')}"
        ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated")
        if ended and ended.get("exitCode"):
            said = f": {ended['message'].strip()}" if ended.get("message") else ""
            yield f"it ended with code {ended['exitCode']} ({ended.get('reason', '')}){said}"


def wait_ready(api: Api, namespace: str, seconds: float, tell: Callable[[str], None]) -> None:
    """Raises NotReady with what is missing and why."""
    seen = InstallationHealth((), ())
    told = ""

    def ready() -> bool:
        nonlocal seen, told
        seen = health(api, namespace)
        words = "; ".join(seen.waiting)
        if words and words != told:
            tell(words)
            told = words
        return not seen.waiting

    if not within(seconds, ready):
        lines = [f"after {seconds:g} s {'; '.join(seen.waiting)}", *seen.troubles]
        raise NotReady("\n  ".join(lines))
