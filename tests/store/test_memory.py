"""The in-memory store keeps every promise but durability."""

import pytest

from grus.model.ports import Store
from grus.store.memory import MemoryStore
from tests.contracts.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()
