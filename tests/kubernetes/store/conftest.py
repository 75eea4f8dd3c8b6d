"""Stores on a real API server that the store's tests have for themselves."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from grus.kubernetes.client.api import Api
from grus.store.kubernetes.store import KubernetesStore
from tests.kubernetes.clusters import Cluster
from tests.kubernetes.store.clusters import emptied, own_cluster

Opener = Callable[..., KubernetesStore]


@pytest.fixture(scope="module")
def alone(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster of this file alone."""
    with own_cluster(request.path.stem.removeprefix("test_")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def api(alone: Cluster) -> Iterator[Api]:
    connected = Api.connect(alone.kubeconfig, connections=16)
    yield connected
    connected.close()


@pytest.fixture
def empty(api: Api) -> Api:
    emptied(api)
    return api


@pytest.fixture
def open_store(empty: Api) -> Iterator[Opener]:
    """Opens stores, by default on `empty`, and closes them."""
    with ExitStack() as stack:

        def opened(api: Api = empty, **options: Any) -> KubernetesStore:
            store = KubernetesStore(api, **options)
            stack.callback(store.close)
            return store

        yield opened
