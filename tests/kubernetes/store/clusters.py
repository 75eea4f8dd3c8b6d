"""A cluster for the store's tests alone: API server and etcd, with the definitions of Grus.

Queues and nodes belong to a whole cluster, and some tests stop its API server: so no others share it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from grus.kubernetes.client.api import Api
from grus.kubernetes.client.errors import Exists
from grus.kubernetes.client.resource_kinds import DEFINITIONS, GPU_JOBS, GPU_QUEUES, Object, ResourceKind
from grus.kubernetes.install.custom_resources import definitions
from tests.kubernetes.clusters import Cluster, shared, until

BARE = ("--without", "kube-scheduler", "--without", "kube-controller-manager")
NAMESPACE = "default"


@contextmanager
def own_cluster(kind: str) -> Iterator[Cluster]:
    if os.environ.get("GRUS_KUBECONFIG"):
        pytest.skip("GRUS_KUBECONFIG names a cluster whose jobs and queues are not ours to delete")
    with shared(kind, *BARE) as cluster:
        api = Api.connect(cluster.kubeconfig)
        define(api)
        api.close()
        yield cluster


def define(api: Api) -> None:
    for definition in definitions():
        with suppress(Exists):
            api.create(DEFINITIONS, definition)
    for definition in definitions():
        name = definition["metadata"]["name"]
        until(lambda name=name: established(api.get(DEFINITIONS, name)), f"{name} is established")  # type: ignore[misc]  # bound by default
    until(lambda: all(api.serves(kind) for kind in (GPU_JOBS, GPU_QUEUES)), "the kinds are served")


def established(definition: Object) -> bool:
    conditions = definition.get("status", {}).get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def emptied(api: Api) -> None:
    """No jobs and no queues, at once."""
    for kind, namespace in ((GPU_JOBS, NAMESPACE), (GPU_QUEUES, "")):
        api.raw("DELETE", kind.path(namespace))
    for item in api.list(GPU_JOBS)[0]:  # nobody is there who would finish anything
        api.patch(GPU_JOBS, item["metadata"]["name"], {"metadata": {"finalizers": None}}, NAMESPACE)


def the_object(api: Api, name: str, kind: ResourceKind = GPU_JOBS) -> Object:
    return api.get(kind, name, NAMESPACE)
