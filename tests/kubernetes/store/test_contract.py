"""The Kubernetes store keeps every promise of the contract, on a real API server."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from grus.kubernetes.api import Api
from grus.kubernetes.kinds import NODES
from grus.kubernetes.refusals import Exists
from grus.model.ports import Store
from grus.store.kubernetes.store import KubernetesStore
from tests.contracts.store_contract import StoreContract


class TestKubernetesStore(StoreContract):
    @pytest.fixture
    def store(self, empty: Api) -> Iterator[Store]:
        for node in ("n1", "n2"):
            with suppress(Exists):
                empty.create(NODES, {"metadata": {"name": node}})
        store = KubernetesStore(empty)
        yield store
        store.close()
