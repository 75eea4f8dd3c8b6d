"""A Kubernetes engine on the real nodes of the test cluster, in a namespace of its own."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grus.engines.kubernetes.engine import KubernetesEngine
from grus.engines.kubernetes.fencing import LEASE
from grus.kubernetes.api_objects.job_home import Home
from grus.kubernetes.client.api import Api
from grus.kubernetes.client.errors import Conflicts, Missing
from grus.kubernetes.client.resource_kinds import LEASES, PODS, Object
from grus.model.identifiers import JobId
from tests.kubernetes.agents import SYSTEM
from tests.kubernetes.clusters import Cluster, new_namespace
from tests.kubernetes.objects import ROOT, host_folders
from tools.kubernetes.node import IMAGE

Make = Callable[..., KubernetesEngine]


@pytest.fixture(scope="session")
def own_namespace(agents: Cluster) -> Iterator[str]:
    """One for all tests of this process: they clear up after themselves."""
    with agents.client() as client, new_namespace(client) as name:
        yield name


@pytest.fixture
def api(agents: Cluster) -> Iterator[Api]:
    connected = Api.connect(agents.kubeconfig, connections=16)
    yield connected
    connected.close()


@pytest.fixture
def make_engine(api: Api, own_namespace: str, tmp_path: Path) -> Iterator[Make]:
    """Makes engines, all on the same state, none of them open; what they leave is removed."""

    def make(**changes: object) -> KubernetesEngine:
        settings: dict[str, object] = {
            "where": lambda job: home(job, own_namespace),
            "image": IMAGE,
            "logs": tmp_path / "logs",
            "template": template(tmp_path),
            "system": own_namespace,
            "agents": SYSTEM,
            "within": own_namespace,
        }
        return KubernetesEngine(api, **(settings | changes))  # type: ignore[arg-type]  # a table of keywords

    yield make
    clear(api, own_namespace)


def home(job: JobId, namespace: str) -> Home:
    return Home(namespace, job)


def template(folder: Path) -> Object:
    """What lets a pod find the programs and the Python of this machine, and a folder to write to."""
    found = [(str(path), True) for path in host_folders()] + [(str(folder), False)]
    container = {
        "imagePullPolicy": "Never",
        "volumeMounts": [
            {"name": f"host-{number}", "mountPath": path, "readOnly": read_only}
            for number, (path, read_only) in enumerate(found)
        ],
    }
    prepare = {
        **container,
        "name": "prepare",
        "command": [sys.executable, "-m", "grus.kubernetes.prepare"],
        "env": [{"name": "PYTHONPATH", "value": f"{ROOT}/src"}],
    }
    return {
        "spec": {
            "containers": [container],
            "initContainers": [prepare],
            "volumes": [
                {"name": f"host-{number}", "hostPath": {"path": path}}
                for number, (path, _) in enumerate(found)
            ],
        }
    }


def clear(api: Api, namespace: str) -> None:
    """Remove all pods, and the engine's epoch."""
    for pod in api.list(PODS, namespace)[0]:
        name = pod["metadata"]["name"]
        try:
            api.patch(PODS, name, {"metadata": {"finalizers": None}}, namespace)
            api.delete(PODS, name, namespace, grace=0)
        except (Missing, Conflicts):
            continue
    try:
        api.delete(LEASES, LEASE, namespace)
    except Missing:
        return
