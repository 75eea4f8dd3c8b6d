"""The node agent as a DaemonSet on the real nodes of a test cluster, and a worker's pod by hand."""

import sys
from typing import Any

from grus.kubernetes.client.api import Api
from grus.kubernetes.client.errors import Refused
from grus.kubernetes.client.resource_kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DAEMON_SETS,
    NAMESPACES,
    PODS,
    SERVICE_ACCOUNTS,
    Object,
    ResourceKind,
)
from grus.kubernetes.install.rbac import AGENT_RIGHTS
from grus.kubernetes.names import AGENT, BELL_FILE, CONTROL_FILE, FOLDER, JOB, REPORT_FILE, VOLUME
from tests.kubernetes.clusters import until
from tests.kubernetes.objects import a_pod

SYSTEM = "grus-system"
NAME = "grus-agent"
RBAC = "rbac.authorization.k8s.io"


def install(api: Api, nodes: int) -> None:
    """Have an agent run on each node. Repeatable, also by several processes at once."""
    for kind, one in objects():
        until(lambda kind=kind, one=one: applied(api, kind, one), f"{kind.name} is taken")  # type: ignore[misc]  # mypy cannot infer lambdas with defaults
    until(lambda: running(api) == nodes, "the agents run")


def applied(api: Api, kind: ResourceKind, one: Object) -> bool:
    """Not while another process makes the same."""
    metadata = one["metadata"]
    try:
        api.patch(kind, metadata["name"], one, metadata.get("namespace", ""), how="apply", force=True)
    except Refused as refusal:
        if refusal.number != 409:
            raise
        return False
    return True


def running(api: Api) -> int:
    found, _ = api.list(PODS, SYSTEM, labels=AGENT)
    return sum(one["status"].get("phase") == "Running" for one in found)


def objects() -> list[tuple[ResourceKind, Object]]:
    home = {"name": NAME, "namespace": SYSTEM}
    rules = [right.rule() for right in AGENT_RIGHTS]
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": NAME}
    return [
        (NAMESPACES, {"metadata": {"name": SYSTEM}}),
        (SERVICE_ACCOUNTS, {"metadata": home}),
        (CLUSTER_ROLES, {"metadata": {"name": NAME}, "rules": rules}),
        (
            CLUSTER_ROLE_BINDINGS,
            {
                "metadata": {"name": NAME},
                "roleRef": role,
                "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": SYSTEM}],
            },
        ),
        (
            DAEMON_SETS,
            {
                "metadata": home,
                "spec": {
                    "selector": {"matchLabels": {AGENT: "true"}},
                    "template": {"metadata": {"labels": {AGENT: "true"}}, "spec": pod_spec()},
                },
            },
        ),
    ]


def pod_spec() -> Object:
    """The agent's pod, with the programs and the Python of this machine."""
    spec = spec_of(a_pod(NAME, sys.executable, "-m", "grus.kubernetes.agent", "--gpus", "pretend"))
    for name in ("nodeName", "schedulerName", "restartPolicy"):
        spec.pop(name, None)
    container = spec["containers"][0]
    for name, path in (
        ("GRUS_NODE", "spec.nodeName"),
        ("GRUS_POD", "metadata.name"),
        ("GRUS_NAMESPACE", "metadata.namespace"),
    ):
        container["env"].append({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
    container["securityContext"] = {"capabilities": {"add": ["SYS_PTRACE"]}}
    for name, path in (("pods", "/var/lib/kubelet/pods"), ("cgroup", "/sys/fs/cgroup")):
        container["volumeMounts"].append({"name": name, "mountPath": path})
        spec["volumes"].append({"name": name, "hostPath": {"path": path}})
    return {**spec, "hostPID": True, "serviceAccountName": NAME, "tolerations": [{"operator": "Exists"}]}


def a_worker(
    name: str, line: str, *, node: str, gpus: int = 0, notes: dict[str, str] | None = None
) -> Object:
    """The pod of a worker that runs a shell line, with everything that the agent looks for."""
    spec = spec_of(a_pod(name, "sh", "-c", line, node=node, gpus=gpus))
    mount = {"name": VOLUME, "mountPath": FOLDER}
    spec["shareProcessNamespace"] = True
    spec["volumes"].append({"name": VOLUME, "emptyDir": {}})
    main = spec["containers"][0]
    main["volumeMounts"].append(mount)
    command = [sys.executable, "-m", "grus.kubernetes.prepare"]
    spec["initContainers"] = [{**main, "name": "prepare", "command": command, "resources": {}}]
    main["env"] = [
        *main["env"],
        *(
            {"name": f"GRUS_{file.upper()}", "value": f"{FOLDER}/{file}"}
            for file in (CONTROL_FILE, REPORT_FILE, BELL_FILE)
        ),
    ]
    metadata = {"name": name, "labels": {JOB: "j1"}, "annotations": notes or {}}
    return {"metadata": metadata, "spec": spec}


def spec_of(pod: Any) -> Object:
    found: Object = pod.to_dict()["spec"]
    return found
