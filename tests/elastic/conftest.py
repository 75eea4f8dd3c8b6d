"""Fixtures of elastic training."""

from collections.abc import Iterator

import pytest

from tests.fork_server import TORCH, ForkServer


@pytest.fixture(scope="session")
def forks() -> Iterator[ForkServer]:
    """One process with torch in memory, from which all workers of these tests are forked."""
    with ForkServer(
        *TORCH, "grus.elastic.training_state.sharding", "grus.elastic.split.pipeline_trainer"
    ) as made:
        yield made
