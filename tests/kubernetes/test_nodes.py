"""The nodes of the test cluster are real: pods run there, with pretend GPUs, and speak to each other."""

import json
import sys

from lightkube import Client
from lightkube.resources.core_v1 import Node, Pod

from tests.kubernetes.clusters import Cluster, until
from tests.kubernetes.conftest import GPUS, NODES
from tests.kubernetes.objects import GPU, a_pod

ASK_API = """
import json, os, ssl, urllib.request
place = "/var/run/secrets/kubernetes.io/serviceaccount"
address = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}/version"
token = open(f"{place}/token").read()
request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
trust = ssl.create_default_context(cafile=f"{place}/ca.crt")
print(json.load(urllib.request.urlopen(request, context=trust))["gitVersion"])
"""
SERVE = """
from http.server import HTTPServer, SimpleHTTPRequestHandler
HTTPServer(("", 80), SimpleHTTPRequestHandler).serve_forever()
"""
FETCH = "import sys, urllib.request; print(urllib.request.urlopen(f'http://{sys.argv[1]}/').status)"


def phase(client: Client, name: str, namespace: str) -> str | None:
    status = client.get(Pod, name, namespace=namespace).status
    return status.phase if status else None


def ended(client: Client, name: str, namespace: str) -> str:
    """Waits for the pod's end, which has to be a good one; gives its log."""
    until(
        lambda: phase(client, name, namespace) in ("Succeeded", "Failed"),
        f"{name} ends",
    )
    log = "".join(client.log(name, namespace=namespace))
    assert phase(client, name, namespace) == "Succeeded", log
    return log


def test_every_node_is_ready_with_its_gpus(nodes_client: Client) -> None:
    found = {node.metadata.name: node for node in nodes_client.list(Node) if node.metadata}
    assert set(found) == {f"node{number}" for number in range(1, NODES + 1)}
    capacities = [node.status.capacity for node in found.values() if node.status]
    assert [capacity[GPU] for capacity in capacities if capacity] == [str(GPUS)] * NODES


def test_a_pod_with_a_gpu_runs_to_its_end_and_its_log_can_be_read(
    nodes: Cluster, nodes_client: Client, nodes_namespace: str
) -> None:
    show = a_pod("show", "sh", "-c", "echo on $NVIDIA_VISIBLE_DEVICES", node="node1", gpus=2)
    nodes_client.create(show, namespace=nodes_namespace)
    log = ended(nodes_client, "show", nodes_namespace)
    there = json.loads((nodes.kubeconfig.parent / "node1" / "gpus.json").read_text())
    given = log.removeprefix("on ").strip().split(",")
    assert len(given) == 2
    assert set(given) <= set(there)


def test_a_pod_finds_the_project_and_the_api_server(nodes_client: Client, nodes_namespace: str) -> None:
    ask = a_pod("ask", sys.executable, "-c", "import grus\n" + ASK_API, node="node2")
    nodes_client.create(ask, namespace=nodes_namespace)
    assert ended(nodes_client, "ask", nodes_namespace).startswith("v1.")


def test_pods_of_two_nodes_reach_each_other(nodes_client: Client, nodes_namespace: str) -> None:
    nodes_client.create(a_pod("serve", sys.executable, "-c", SERVE, node="node1"), namespace=nodes_namespace)
    until(lambda: phase(nodes_client, "serve", nodes_namespace) == "Running", "the server runs")
    status = nodes_client.get(Pod, "serve", namespace=nodes_namespace).status
    assert status is not None
    fetch = a_pod("fetch", sys.executable, "-c", FETCH, str(status.podIP), node="node2")
    nodes_client.create(fetch, namespace=nodes_namespace)
    assert ended(nodes_client, "fetch", nodes_namespace) == "200\n"
    nodes_client.delete(Pod, "serve", namespace=nodes_namespace)
