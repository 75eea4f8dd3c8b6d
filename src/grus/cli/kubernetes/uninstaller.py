"""Complete removal of an installation from a cluster.

The order matters. Jobs go first, while the controller can still end their workers in order. Then the
controller goes, so that nothing is created again. Then everything that is left goes by force: finalizers that
no controller would lift, pods, notes on nodes and on pods that stay. Last go the definitions, the rights and
the namespace. Missing objects are skipped, so that an interrupted removal can be run again.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress

from grus.cli.kubernetes.installer import within
from grus.kubernetes.client import resource_kinds
from grus.kubernetes.client.api import Api, Missing, Object, ResourceKind
from grus.kubernetes.client.versions import budgets_of
from grus.kubernetes.install import rbac
from grus.kubernetes.install.custom_resources import JOBS, QUEUES
from grus.kubernetes.install.foreign_crds import (
    BRAIN_GROUP,
    BRAIN_PLURAL,
    BRAIN_VERSION,
    HOROVOD_GROUP,
    HOROVOD_PLURAL,
    HOROVOD_VERSION,
)
from grus.kubernetes.install.install_options import COMPONENT, PART_OF
from grus.kubernetes.names import ENDED, JOB, MANAGED, PREFIX, RESERVATION
from grus.model.jobs import TERMINAL

OURS = f"{PART_OF}=grus"
FOREIGN = (
    ResourceKind(HOROVOD_GROUP, HOROVOD_VERSION, HOROVOD_PLURAL, True, "ElasticHorovodJob"),
    ResourceKind(BRAIN_GROUP, BRAIN_VERSION, BRAIN_PLURAL, True, "BBJob"),
)
MAKERS = (
    resource_kinds.DEPLOYMENTS,
    resource_kinds.DAEMON_SETS,
    ResourceKind("apps", "v1", "replicasets", True, "ReplicaSet"),
)
"""Kinds that create pods, from the top down."""
IN_NAMESPACE = (
    *(resource_kinds.SERVICES, resource_kinds.NETWORK_POLICIES),
    *(resource_kinds.ROLE_BINDINGS, resource_kinds.ROLES, resource_kinds.SERVICE_ACCOUNTS),
)
CLUSTER_WIDE = (
    *(resource_kinds.ADMISSION_BINDINGS, resource_kinds.ADMISSION_POLICIES),
    *(resource_kinds.CLUSTER_ROLE_BINDINGS, resource_kinds.CLUSTER_ROLES),
)
BUNDLE = f"{PREFIX}code"
"""Label of the config maps that hold code."""
GONE_WITHIN = 120.0
Tell = Callable[[str], None]


def live_jobs(api: Api) -> list[Object]:
    """Those that an uninstall would end."""
    over = {*TERMINAL, "refused"}
    return [
        job
        for job in _all(api, resource_kinds.GPU_JOBS)
        if (job.get("status") or {}).get("phase") not in over
    ]


def remove(api: Api, namespace: str, *, patience: float, tell: Tell) -> Counter[str]:
    """Everything; what was removed, by kind."""
    removed: Counter[str] = Counter()
    _end_jobs(api, namespace, removed, patience, tell)
    _stop_pods(api, namespace, removed, tell)
    _clear_away(api, resource_kinds.GPU_JOBS, removed, tell)
    _clear_workers(api, removed, tell)
    _clear_away(api, resource_kinds.GPU_QUEUES, removed, tell)
    _clean_notes(api, resource_kinds.PODS, removed)
    _clean_notes(api, resource_kinds.NODES, removed)
    _remove_definitions(api, removed, tell)
    _remove_rest(api, namespace, removed, tell)
    return removed


def left(api: Api, namespace: str) -> list[str]:
    """Return the names of the installation's objects that still exist; none after a removal."""
    found = [f"customresourcedefinition/{name}" for name in (JOBS, QUEUES) if _exists(api, name)]
    found += [
        f"{kind.name.lower()}/{one['metadata']['name']}"
        for kind in (resource_kinds.NODES, resource_kinds.PODS)
        for one in _all(api, kind)
        if _notes(one) or _finalizers(one)
    ]
    found += [
        f"{kind.name.lower()}/{one['metadata']['name']}"
        for kind in (*CLUSTER_WIDE, resource_kinds.DEFINITIONS, resource_kinds.NAMESPACES)
        for one in _all(api, kind, labels=OURS)
    ]
    leases = _all(api, resource_kinds.LEASES, namespace)
    return found + [f"lease/{one['metadata']['name']}" for one in leases]


# ---------------------------------------------------------------------------------------------------- jobs


def _end_jobs(api: Api, namespace: str, removed: Counter[str], patience: float, tell: Tell) -> None:
    """Ask for the end of every job, and give the controller time to see to it."""
    for kind in FOREIGN:
        if _is_ours(api, f"{kind.plural}.{kind.group}"):
            for one in _all(api, kind):
                _delete(api, kind, one, removed)
    jobs = _all(api, resource_kinds.GPU_JOBS)
    for job in jobs:
        _delete(api, resource_kinds.GPU_JOBS, job, removed)
    if jobs and _has_controller(api, namespace):
        tell(f"ending {len(jobs)} job{'s' * (len(jobs) != 1)}")
        within(patience, lambda: not _all(api, resource_kinds.GPU_JOBS))


def _has_controller(api: Api, namespace: str) -> bool:
    with suppress(Missing):
        status = api.get(resource_kinds.DEPLOYMENTS, rbac.CONTROLLER, namespace).get("status") or {}
        return bool(status.get("readyReplicas"))
    return False


def _stop_pods(api: Api, namespace: str, removed: Counter[str], tell: Tell) -> None:
    """End controllers and agents before the objects that they use are removed, and before their namespace is.

    Each level is deleted explicitly here, from the top: the cluster's own cascade can take a minute.
    """
    chosen = f"{OURS},{COMPONENT}"
    if not any(_all(api, kind, namespace, labels=chosen) for kind in (*MAKERS, resource_kinds.PODS)):
        return
    tell("stopping the controllers, agents and profilers")
    for kind in (*MAKERS, resource_kinds.PODS):
        for one in _all(api, kind, namespace, labels=chosen):
            _delete(api, kind, one, removed, propagation="Background")
    within(GONE_WITHIN, lambda: not _all(api, resource_kinds.PODS, namespace, labels=chosen))


def _clear_away(api: Api, kind: ResourceKind, removed: Counter[str], tell: Tell) -> None:
    """Remove objects that no controller manages any more: without finalizers, and wait until they are
    gone.
    """
    rest = _all(api, kind)
    if not rest:
        return
    tell(f"removing {len(rest)} {kind.plural}")
    for one in rest:
        _lift(api, kind, one, every=True)
        _delete(api, kind, one, removed)
    within(GONE_WITHIN, lambda: not _all(api, kind))


def _clear_workers(api: Api, removed: Counter[str], tell: Tell) -> None:
    """Pods of workers and reservations, services and code of jobs."""
    for kind in (resource_kinds.PODS, resource_kinds.SERVICES, resource_kinds.CONFIG_MAPS):
        for label in (JOB, ENDED, RESERVATION, BUNDLE):
            rest = _all(api, kind, labels=label)
            if not rest:
                continue
            tell(f"removing {len(rest)} {kind.plural} of jobs")
            for one in rest:
                _lift(api, kind, one)
                _delete(api, kind, one, removed)
            _wait_gone(api, kind, label)


def _wait_gone(api: Api, kind: ResourceKind, label: str) -> None:
    """Wait until the pods are gone; force-delete those of a node that does not answer.

    No kubelet would ever confirm that these are gone.
    """
    if not within(GONE_WITHIN, lambda: not _all(api, kind, labels=label)):
        for one in _all(api, kind, labels=label):
            with suppress(Missing):
                api.delete(kind, one["metadata"]["name"], one["metadata"].get("namespace", ""), grace=0)


# --------------------------------------------------------------------------------------------------- notes


def _clean_notes(api: Api, kind: ResourceKind, removed: Counter[str]) -> None:
    """Labels, annotations and finalizers that Grus wrote on what stays."""
    for one in _all(api, kind):
        notes = _notes(one)
        if notes:
            metadata = one["metadata"]
            body = {"metadata": {part: dict.fromkeys(keys) for part, keys in notes.items()}}
            with suppress(Missing):
                api.patch(kind, metadata["name"], body, metadata.get("namespace", ""))
                removed[f"notes on {kind.plural}"] += sum(map(len, notes.values()))
        _lift(api, kind, one)


def _notes(one: Object) -> dict[str, list[str]]:
    """Names of labels and annotations that are Grus's."""
    metadata = one["metadata"]
    found = {
        part: [name for name in metadata.get(part) or () if name.startswith(PREFIX)]
        for part in ("labels", "annotations")
    }
    return {part: names for part, names in found.items() if names}


def _finalizers(one: Object) -> list[str]:
    return [name for name in one["metadata"].get("finalizers") or () if name.startswith(PREFIX)]


def _lift(api: Api, kind: ResourceKind, one: Object, *, every: bool = False) -> None:
    """Take Grus's finalizers (or every one) off, so that it can go."""
    metadata = one["metadata"]
    present = metadata.get("finalizers") or []
    kept = [] if every else [name for name in present if not name.startswith(PREFIX)]
    if present != kept:
        with suppress(Missing):
            body = {"metadata": {"finalizers": kept or None}}
            api.patch(kind, metadata["name"], body, metadata.get("namespace", ""))


# ---------------------------------------------------------------------------------------------- the rest


def _remove_definitions(api: Api, removed: Counter[str], tell: Tell) -> None:
    """Grus's own, and those of others' jobs that Grus brought."""
    names = [name for name in (JOBS, QUEUES) if _exists(api, name)]
    names += [
        one["metadata"]["name"]
        for one in _all(api, resource_kinds.DEFINITIONS, labels=OURS)
        if one["metadata"]["name"] not in names
    ]
    if not names:
        return
    tell(f"removing {len(names)} definitions")
    for name in names:
        _delete(api, resource_kinds.DEFINITIONS, {"metadata": {"name": name}}, removed)
    within(GONE_WITHIN, lambda: not any(_exists(api, name) for name in names))


def _remove_rest(api: Api, namespace: str, removed: Counter[str], tell: Tell) -> None:
    for kind in (*IN_NAMESPACE, budgets_of(api.release())):
        for one in _all(api, kind, namespace, labels=OURS):
            _delete(api, kind, one, removed)
    for one in _all(api, resource_kinds.LEASES, namespace):
        if one["metadata"]["name"].startswith("grus"):
            _delete(api, resource_kinds.LEASES, one, removed)
    for kind in CLUSTER_WIDE:
        for one in _all(api, kind, labels=OURS):
            _delete(api, kind, one, removed)
    for one in _all(api, resource_kinds.ROLE_BINDINGS, labels=OURS):
        if one["metadata"]["name"] == rbac.JOBS:
            _delete(api, resource_kinds.ROLE_BINDINGS, one, removed)
    for one in _all(api, resource_kinds.NAMESPACES, labels=f"{MANAGED}=true"):
        _delete(api, resource_kinds.NAMESPACES, one, removed)
    within(GONE_WITHIN, lambda: not _all(api, resource_kinds.NAMESPACES, labels=f"{MANAGED}=true"))
    home = _named(api, resource_kinds.NAMESPACES, namespace)
    if home is not None and (home["metadata"].get("labels") or {}).get(PART_OF) == "grus":
        tell(f"removing the namespace {namespace}")
        _delete(api, resource_kinds.NAMESPACES, home, removed)
        within(GONE_WITHIN, lambda: _named(api, resource_kinds.NAMESPACES, namespace) is None)


# -------------------------------------------------------------------------------------------------- calls


def _all(api: Api, kind: ResourceKind, namespace: str = "", *, labels: str = "") -> list[Object]:
    """All of a kind; none where the server does not know it."""
    with suppress(Missing):
        return api.list(kind, namespace, labels=labels)[0]
    return []


def _named(api: Api, kind: ResourceKind, name: str) -> Object | None:
    with suppress(Missing):
        return api.get(kind, name)
    return None


def _exists(api: Api, definition: str) -> bool:
    return _named(api, resource_kinds.DEFINITIONS, definition) is not None


def _is_ours(api: Api, definition: str) -> bool:
    found = _named(api, resource_kinds.DEFINITIONS, definition)
    return found is not None and (found["metadata"].get("labels") or {}).get(PART_OF) == "grus"


def _delete(
    api: Api, kind: ResourceKind, one: Object, removed: Counter[str], *, propagation: str = ""
) -> None:
    """Counted once, however often it takes."""
    metadata = one["metadata"]
    with suppress(Missing):
        api.delete(kind, metadata["name"], metadata.get("namespace", ""), propagation=propagation)
        if not metadata.get("deletionTimestamp"):
            removed[kind.plural] += 1


def summary(removed: Iterable[tuple[str, int]]) -> str:
    words = ", ".join(f"{count} {what}" for what, count in sorted(removed) if count)
    return f"removed: {words}" if words else "there was nothing to remove"
