"""The node agent on real nodes: between a worker in its pod and who looks at the pod from afar."""

import json
import time
from collections.abc import Callable, Iterator

import pytest

from grus.kubernetes.client.api import Api, Object
from grus.kubernetes.client.resource_kinds import PODS
from grus.kubernetes.names import AGENT, CONTROL, KILL_AT, READ, SAID, USAGE, UUIDS
from tests.kubernetes.agents import SYSTEM, a_worker
from tests.kubernetes.clusters import Cluster, until

SPEAKS = """
say() { echo "$1" >>"$GRUS_REPORT"; echo >"$GRUS_BELL"; }
wait_for() { until grep -q "$1" "$GRUS_CONTROL"; do sleep 0.01; done; }
say "began with $(cat "$GRUS_CONTROL")"
wait_for go
say "went on"
wait_for last
echo "last words" >>"$GRUS_REPORT"
"""
STUBBORN = "trap '' TERM; (trap '' TERM; while :; do sleep 0.1; done) & while :; do sleep 0.1; done"


@pytest.fixture
def api(agents: Cluster) -> Iterator[Api]:
    connected = Api.connect(agents.kubeconfig)
    yield connected
    connected.close()


class Watched:
    """One pod, looked at from afar."""

    def __init__(self, api: Api, namespace: str, pod: Object) -> None:
        self.api, self.namespace = api, namespace
        self.name = pod["metadata"]["name"]
        self.uid = api.create(PODS, pod, namespace)["metadata"]["uid"]

    def now(self) -> Object:
        return self.api.get(PODS, self.name, self.namespace)

    def note(self, name: str) -> str | None:
        found: str | None = self.now()["metadata"].get("annotations", {}).get(name)
        return found

    def write(self, name: str, text: str) -> None:
        self.api.patch(PODS, self.name, {"metadata": {"annotations": {name: text}}}, self.namespace)

    def until_note(self, name: str, fits: Callable[[str | None], bool]) -> None:
        until(lambda: fits(self.note(name)), f"{name} of {self.name}: {self.now()}")


def unprivileged(pod: Object) -> Object:
    """As in a namespace of restricted pods: users without a name, one for each container, without rights."""
    spec = pod["spec"]
    for number, container in enumerate((*spec["initContainers"], *spec["containers"])):
        container["securityContext"] = {
            "runAsUser": 1000710000 + number,
            "runAsGroup": 0,
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    return pod


def test_a_worker_without_rights_and_who_looks_at_its_pod_understand_each_other(
    api: Api, nodes_namespace: str
) -> None:
    pod = unprivileged(a_worker("speaks", SPEAKS, node="node1", gpus=1, notes={CONTROL: "orders"}))
    worker = Watched(api, nodes_namespace, pod)
    worker.until_note(SAID, lambda said: said == "began with orders")
    worker.until_note(UUIDS, lambda uuids: uuids is not None and uuids.count("GPU-") == 1)
    until(lambda: worker.uid in usage(api), "its use is told")
    cpu, memory, _, gpu_memory = usage(api)[worker.uid]
    assert cpu > 0
    assert memory > 100_000
    assert gpu_memory == memory
    assert worker.note(SAID) == "began with orders"
    worker.write(CONTROL, "go")
    worker.until_note(SAID, lambda said: said == "went on")
    assert worker.note(READ) is None
    worker.write(CONTROL, "last")
    worker.until_note(READ, lambda read: read == "true")
    assert worker.note(SAID) == "last words"
    until(lambda: worker.now()["status"]["phase"] == "Succeeded", "its kubelet reports its end")


def test_who_does_not_listen_is_killed_with_all_its_processes_when_it_is_due(
    api: Api, nodes_namespace: str
) -> None:
    worker = Watched(api, nodes_namespace, a_worker("stubborn", STUBBORN, node="node2"))
    until(lambda: worker.now()["status"]["phase"] == "Running", "it runs")
    worker.write(KILL_AT, str(time.time() + 0.3))
    worker.until_note(READ, lambda read: read == "true")

    def state() -> Object:
        (status,) = worker.now()["status"]["containerStatuses"]
        return dict(status["state"])

    until(lambda: "terminated" in state(), "its kubelet reports its end")
    assert state()["terminated"]["exitCode"] == 137


def usage(api: Api) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for agent in api.list(PODS, SYSTEM, labels=AGENT)[0]:
        text = agent["metadata"].get("annotations", {}).get(USAGE)
        found |= json.loads(text)["pods"] if text else {}
    return found
