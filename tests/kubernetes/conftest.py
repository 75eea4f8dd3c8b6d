"""Fixtures of a real Kubernetes. Where none can be had, the tests that ask for it do not run and say why."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lightkube import Client

from grus.kubernetes.client.api import Api
from tests.kubernetes import agents as node_agents
from tests.kubernetes.clusters import Cluster, new_namespace, shared
from tests.kubernetes.faults import Faults

NODES = 2
GPUS = 4


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """API server and controllers, no nodes and no scheduler: nodes are what a test pretends."""
    with shared("api", "--without", "kube-scheduler") as started:
        yield started


@contextmanager
def real_nodes(kind: str) -> Iterator[Cluster]:
    """For tests that need the nodes for themselves; the others share `nodes`."""
    if os.environ.get("GRUS_KUBECONFIG"):
        pytest.skip(
            "GRUS_KUBECONFIG names a cluster whose nodes lack the image and the pretend GPUs of these tests"
        )
    grace = "kube-controller-manager:--node-monitor-grace-period=8s"
    with shared(kind, "--nodes", str(NODES), "--gpus", str(GPUS), "--flag", grace) as started:
        yield started


@pytest.fixture(scope="session")
def nodes() -> Iterator[Cluster]:
    """A whole cluster with real nodes, node1 and node2, of four pretend GPUs each; only root can have it.

    Nodes that fall silent are given up after 8 s instead of 40.
    """
    with real_nodes("nodes") as started:
        yield started


@pytest.fixture(scope="session")
def agents(nodes: Cluster) -> Cluster:
    """`nodes`, with the node agent on each of them."""
    api = Api.connect(nodes.kubeconfig)
    node_agents.install(api, NODES)
    api.close()
    return nodes


@pytest.fixture
def api(cluster: Cluster) -> Iterator[Api]:
    connected = Api.connect(cluster.kubeconfig)
    yield connected
    connected.close()


@pytest.fixture
def faults(cluster: Cluster, tmp_path: Path) -> Iterator[Faults]:
    """What stands between a client and the cluster, and misbehaves as it is told."""
    between = Faults(cluster.kubeconfig, tmp_path)
    yield between
    between.close()


@pytest.fixture
def shaky(faults: Faults) -> Iterator[Api]:
    """Through `faults`."""
    connected = Api.connect(faults.kubeconfig)
    yield connected
    connected.close()


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with cluster.client() as connected:
        yield connected


@pytest.fixture
def namespace(client: Client) -> Iterator[str]:
    """A fresh one of `cluster`."""
    with new_namespace(client) as name:
        yield name


@pytest.fixture
def nodes_client(nodes: Cluster) -> Iterator[Client]:
    with nodes.client() as connected:
        yield connected


@pytest.fixture
def nodes_namespace(nodes_client: Client) -> Iterator[str]:
    """A fresh one of `nodes`."""
    with new_namespace(nodes_client) as name:
        yield name
