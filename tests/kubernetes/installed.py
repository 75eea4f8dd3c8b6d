"""A whole installation on real nodes, as the manifests say, but with the Python of this machine."""

import json
import sys
from pathlib import Path
from typing import Any

from grus.cli.kubernetes import installing
from grus.kubernetes.api import Api
from grus.kubernetes.manifests import Settings, objects
from tests.kubernetes.objects import ROOT, host_folders
from tools.kubernetes.node import IMAGE

Object = dict[str, Any]

RANDOM_USER = 1_000_670_000
"""As OpenShift chooses them: no entry in passwd, group 0."""
PATIENCE = 180.0


def install(api: Api, *, data: Path | None = None) -> None:
    """Applied as `grus kubernetes install` does, and waited for; `data` is at /data in every worker."""
    settings = Settings(
        image=IMAGE, pull_policy="Never", disruption_version=installing.disruption_version(api)
    )
    made = [adapted(one, data) for one in objects(settings)]
    installing.apply(api, made, force=True, tell=lambda step: None)
    installing.wait_ready(api, settings.namespace, PATIENCE, tell=lambda words: None)


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
    return one


def worker_template(data: Path | None) -> Object:
    """Laid over the pods of workers."""
    both = {"imagePullPolicy": "Never", "env": environment(), "volumeMounts": mounts()}
    folder = [{"name": "data", "mountPath": "/data", "readOnly": True}] if data else []
    more = [{"name": "data", "hostPath": {"path": str(data)}}] if data else []
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
