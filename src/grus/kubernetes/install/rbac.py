"""RBAC roles in a cluster that Grus runs in: for its own accounts, and for its users. Pure.

Each line below is a call that is really made; a right that no call needs is not listed. Users' rights are not
bindings of their own: they join the cluster's `view`, `edit` and `admin`, so that a user who may make pods in
a namespace may make jobs there. Queues belong to the cluster: everybody sees them, its administrators change
them.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from grus.kubernetes.install.custom_resources import GROUP
from grus.kubernetes.install.foreign_crds import HOROVOD_DISCOVERY, PLURALS
from grus.kubernetes.install.install_options import PART_OF

Object = dict[str, Any]

CONTROLLER = "grus-controller"
AGENT = "grus-agent"
PROFILER = "grus-profiler"
JOBS = "grus-jobs"
QUEUE_READER = "grus-queue-reader"
RBAC = "rbac.authorization.k8s.io"

_READ = ("get", "list", "watch")
_WRITE = ("create", "update", "patch", "delete")


class Right(NamedTuple):
    """One line of a role."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    """Names of the only objects that it covers; empty for all."""

    def rule(self) -> Object:
        only = {"resourceNames": list(self.names)} if self.names else {}
        return {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            **only,
            "verbs": list(self.verbs),
        }


def controller_rights(*, converters: bool) -> tuple[Right, ...]:
    """Everywhere in the cluster: no pod can be made or changed with these."""
    own = (
        Right(GROUP, ("gpujobs", "gpuqueues"), (*_READ, *_WRITE)),
        Right(GROUP, ("gpujobs/status", "gpuqueues/status"), ("get", "update", "patch")),
        # Clusters that check owners (OpenShift does) ask for this before a pod may belong to a job.
        Right(GROUP, ("gpujobs/finalizers", "gpuqueues/finalizers"), ("update",)),
        Right("", ("pods",), _READ),
        Right("", ("nodes",), (*_READ, "patch")),
        Right("", ("namespaces",), (*_READ, "create")),
        # The rights of jobs, and no others, in the namespaces that have some (`JOB_RIGHTS`).
        Right(RBAC, ("rolebindings",), ("create",)),
        Right(RBAC, ("clusterroles",), ("bind",), (JOBS,)),
        Right("", ("events",), ("create", "patch")),
        Right("apiextensions.k8s.io", ("customresourcedefinitions",), ("get",)),
    )
    foreign = tuple(
        right
        for group, plural in PLURALS
        for right in (
            Right(group, (plural,), _READ),
            Right(group, (f"{plural}/status",), ("get", "patch")),
            Right(group, (f"{plural}/finalizers",), ("update",)),
        )
    )
    prepared = Right("", ("configmaps",), ("get",), (HOROVOD_DISCOVERY,))
    return own + ((*foreign, prepared) if converters else ())


JOB_RIGHTS = (
    Right("", ("pods",), (*_READ, *_WRITE)),
    Right("", ("pods/binding",), ("create",)),
    Right("", ("pods/status",), ("patch",)),
    Right("", ("pods/log",), ("get",)),
    Right("", ("services",), ("get", "list", "create", "delete")),
    Right("", ("configmaps",), ("get", "list", "patch")),
    Right("", ("serviceaccounts",), ("create",)),
    Right("", ("serviceaccounts",), ("patch",), ("default",)),
)
"""The controller's, in its own namespace and in each that has jobs; a role that it binds there itself."""
LEADER_RIGHTS = (Right("coordination.k8s.io", ("leases",), (*_READ, "create", "update", "patch")),)
"""Rights of leader election, in its own namespace."""
# Annotations can be written through the status too, and then what a pod runs, or whether a node takes work,
# cannot be changed with the same right.
AGENT_RIGHTS = (
    Right("", ("pods",), ("list", "watch")),
    Right("", ("pods/status",), ("patch",)),
)
"""A node cannot be named in a role: `admission_policies` binds the agent to its node on newer clusters."""
PROFILER_RIGHTS = (
    Right("", ("pods",), ("list", "watch")),
    Right("", ("nodes",), ("get",)),
    Right("", ("pods/status", "nodes/status"), ("patch",)),
)


def user_rights(*, write: bool, converters: bool) -> tuple[Right, ...]:
    """Return the rights that join `view`, or (`write`) `edit` and `admin`."""
    verbs = (*_READ, *_WRITE) if write else _READ
    resources = ("gpujobs", "gpujobs/scale") if write else ("gpujobs", "gpujobs/status", "gpujobs/scale")
    foreign = tuple(Right(group, (plural,), verbs) for group, plural in PLURALS) if converters else ()
    return (Right(GROUP, resources, verbs), *foreign)


# ---------------------------------------------------------------------------------------------- as objects


def roles(namespace: str, *, converters: bool) -> list[Object]:
    """Accounts, roles and bindings."""
    return [
        account(CONTROLLER, namespace),
        account(AGENT, namespace),
        account(PROFILER, namespace),
        cluster_role(CONTROLLER, controller_rights(converters=converters)),
        cluster_binding(CONTROLLER, CONTROLLER, [_subject(CONTROLLER, namespace)]),
        cluster_role(AGENT, AGENT_RIGHTS),
        cluster_binding(AGENT, AGENT, [_subject(AGENT, namespace)]),
        cluster_role(PROFILER, PROFILER_RIGHTS),
        cluster_binding(PROFILER, PROFILER, [_subject(PROFILER, namespace)]),
        cluster_role(JOBS, JOB_RIGHTS),
        jobs_binding(namespace, namespace),
        _leader_role(namespace),
        _leader_binding(namespace),
        cluster_role("grus-view", user_rights(write=False, converters=converters), joins=("view",)),
        cluster_role("grus-edit", user_rights(write=True, converters=converters), joins=("edit", "admin")),
        cluster_role(QUEUE_READER, (Right(GROUP, ("gpuqueues",), _READ),)),
        cluster_binding(
            QUEUE_READER,
            QUEUE_READER,
            [{"kind": "Group", "name": "system:authenticated", "apiGroup": RBAC}],
        ),
    ]


def account(name: str, namespace: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
    }


def cluster_role(name: str, rights: Iterable[Right], *, joins: tuple[str, ...] = ()) -> Object:
    labels = {f"{RBAC}/aggregate-to-{role}": "true" for role in joins}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, **({"labels": labels} if labels else {})},
        "rules": [right.rule() for right in rights],
    }


def cluster_binding(name: str, role: str, subjects: list[Object]) -> Object:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": subjects,
    }


def jobs_binding(namespace: str, own: str) -> Object:
    """The rights of jobs in a namespace, for the controller whose own namespace is `own`."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": JOBS, "namespace": namespace, "labels": {PART_OF: "grus"}},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": JOBS},
        "subjects": [_subject(CONTROLLER, own)],
    }


def _leader_role(namespace: str) -> Object:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "Role",
        "metadata": {"name": CONTROLLER, "namespace": namespace},
        "rules": [right.rule() for right in LEADER_RIGHTS],
    }


def _leader_binding(namespace: str) -> Object:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": CONTROLLER, "namespace": namespace},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": CONTROLLER},
        "subjects": [_subject(CONTROLLER, namespace)],
    }


def _subject(name: str, namespace: str) -> Object:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}
