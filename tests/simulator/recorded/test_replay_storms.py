"""Recorded storms over a whole control plane, played again: the simulator decides and does the same."""

import pytest

from grus.simulator.recorded.replay import replay
from tests.controlplane.test_chaos import Storm


@pytest.mark.parametrize("seed", range(100, 112))
def test_whatever_happens_to_a_control_plane_its_decisions_are_made_again(seed: int) -> None:
    """Faults, wishes, tags, back-offs, gangs of roles, slices, dependencies, control planes that die."""
    record: list[bytes] = []
    storm = Storm(seed, record)
    storm.blow()
    storm.calm()
    storm.plane.close()
    found = replay(record)
    assert found.difference is None, found.difference
    assert found.decisions > 100
    assert found.carried > 20
