"""A leader that is killed, or stopped and woken up, in the middle of starting gangs."""

from tests.kubernetes.failover import prove


def test_a_lost_leader_leaves_no_half_and_a_woken_one_changes_nothing() -> None:
    """One of each; `python -m tests.kubernetes.failover 50` does it more often."""
    found = prove(2)
    assert (found.kills, found.stops) == (1, 1)
    assert found.good, found
