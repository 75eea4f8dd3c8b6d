"""The in-memory store keeps every promise but durability."""

import pytest

from grus.model.interfaces import Store
from grus.store.memory import MemoryStore
from tests.contracts.store_audit_contract import DrainContract
from tests.contracts.store_contract import StoreContract
from tests.contracts.store_together_contract import TogetherContract


class TestMemoryStore(StoreContract, DrainContract, TogetherContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()
