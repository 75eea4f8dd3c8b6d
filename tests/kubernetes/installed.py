"""A whole installation on real nodes, as the manifests say, but with the Python of this machine."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import yaml

from grus.cli.kubernetes import installer
from grus.kubernetes.client.api import Api
from grus.kubernetes.install.install_options import Settings
from grus.kubernetes.install.manifests import objects
from tests.kubernetes.clusters import Cluster, name_of
from tests.kubernetes.objects import ROOT, host_folders
from tools.kubernetes.node import IMAGE
from tools.kubernetes.settings import base

Object = dict[str, Any]

RANDOM_USER = 1_000_670_000
"""As OpenShift chooses them: no entry in passwd, group 0."""
FIRST_USER = 1_000_680_000
"""The first of those that workers may have."""
PATIENCE = 300.0


def pod_security(system: str = "grus-system") -> list[Object]:
    """Restricted for everybody, with user ids that the cluster chooses; for Grus's own namespace anything.

    By the means of 1.20, which later releases no longer have. Of the host, workers see what these tests need.
    """
    anything = {"rule": "RunAsAny"}
    privileged = {
        **dict.fromkeys(("privileged", "allowPrivilegeEscalation", "hostPID"), True),
        "allowedCapabilities": ["*"],
        "volumes": ["*"],
        **dict.fromkeys(("runAsUser", "seLinux", "supplementalGroups", "fsGroup"), anything),
    }
    restricted = {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "requiredDropCapabilities": ["ALL"],
        "volumes": ["configMap", "emptyDir", "projected", "secret", "hostPath"],
        "allowedHostPaths": [
            {"pathPrefix": str(folder), "readOnly": True} for folder in (*host_folders(), gettempdir())
        ],
        "runAsUser": {"rule": "MustRunAs", "ranges": [{"min": FIRST_USER, "max": FIRST_USER + 9999}]},
        **dict.fromkeys(("seLinux", "supplementalGroups", "fsGroup"), anything),
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": system}},
        *_policy("privileged", privileged, f"system:serviceaccounts:{system}", namespace=system),
        *_policy("restricted", restricted, "system:serviceaccounts"),
    ]


@contextmanager
def secured(kind: str) -> Iterator[None]:
    """Has the policies in that cluster while it starts: it is not up before a first pod could be made."""
    cluster = Cluster(base() / name_of(kind) / "kubeconfig", name_of(kind))
    over = threading.Event()

    def bring() -> None:
        while not over.wait(0.5):
            with suppress(subprocess.CalledProcessError):  # nothing answers yet
                cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(pod_security()))
                return

    thread = threading.Thread(target=bring, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _policy(name: str, spec: Object, group: str, namespace: str = "") -> list[Object]:
    """A policy, the right to use it, and who has that."""
    rbac = "rbac.authorization.k8s.io"
    profiles = "*" if namespace else "runtime/default"
    rule = {
        "apiGroups": ["policy"],
        "resources": ["podsecuritypolicies"],
        "resourceNames": [name],
        "verbs": ["use"],
    }
    return [
        {
            "apiVersion": "policy/v1beta1",
            "kind": "PodSecurityPolicy",
            "metadata": {
                "name": name,
                "annotations": {"seccomp.security.alpha.kubernetes.io/allowedProfileNames": profiles},
            },
            "spec": spec,
        },
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
            "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": rbac, "kind": "Group", "name": group}],
        },
    ]


def install(api: Api, *, data: Path | None = None) -> None:
    """Applied as `grus kubernetes install` does, and waited for; `data` is at /data in every worker."""
    settings = Settings(
        image=IMAGE, pull_policy="Never", disruption_version=installer.disruption_version(api)
    )
    made = [adapted(one, data) for one in objects(settings)]
    installer.apply(api, made, force=True, tell=lambda step: None)
    installer.wait_ready(api, settings.namespace, PATIENCE, tell=lambda words: None)


def adapted(one: Object, data: Path | None) -> Object:
    """The same object with the host's folders in its pods; the controller as a random user."""
    if one["kind"] not in ("Deployment", "DaemonSet"):
        return one
    spec = one["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    container["command"] = [sys.executable, "-m", "grus.cli.main", *container["command"][1:]]
    container["env"] += environment()
    container["volumeMounts"] += mounts()
    spec["volumes"] += volumes()
    if one["kind"] == "Deployment":
        spec["securityContext"] |= {"runAsUser": RANDOM_USER, "runAsGroup": 0, "fsGroup": 0}
        container["env"].append({"name": "GRUS_POD_TEMPLATE", "value": json.dumps(worker_template(data))})
        # A quiet machine's probes: this one is busy with the other tests.
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            container[probe]["timeoutSeconds"] = 30
    else:
        container["command"] += ["--gpus", "pretend"]
        if container["securityContext"].get("runAsNonRoot"):
            container["securityContext"]["runAsUser"] = RANDOM_USER
    return one


def worker_template(data: Path | None) -> Object:
    """Laid over the pods of workers."""
    both = {"imagePullPolicy": "Never", "env": environment(), "volumeMounts": mounts()}
    folder: list[Object] = [{"name": "tmp", "mountPath": "/tmp"}]  # images have one; this one has nothing
    more: list[Object] = [{"name": "tmp", "emptyDir": {}}]
    if data is not None:
        folder.append({"name": "data", "mountPath": "/data", "readOnly": True})
        more.append({"name": "data", "hostPath": {"path": str(data)}})
    return {
        "spec": {
            "containers": [{**both, "volumeMounts": [*mounts(), *folder]}],
            "initContainers": [{"name": "prepare", **both}],
            "volumes": [*volumes(), *more],
        }
    }


def environment() -> list[Object]:
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    return [
        {"name": "PATH", "value": path},
        {"name": "PYTHONPATH", "value": f"{ROOT}/src:{ROOT}"},
        {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
        {"name": "OMP_NUM_THREADS", "value": "1"},
    ]


def mounts() -> list[Object]:
    return [
        {"name": f"host-{number}", "mountPath": str(folder), "readOnly": True}
        for number, folder in enumerate(host_folders())
    ]


def volumes() -> list[Object]:
    return [
        {"name": f"host-{number}", "hostPath": {"path": str(folder)}}
        for number, folder in enumerate(host_folders())
    ]
