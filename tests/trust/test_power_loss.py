"""A few losses of power, real code on both sides of them; and that the layer below it can tell a loss."""

import pytest

from tests.trust import power_loss, preloading

pytestmark = pytest.mark.skipif(preloading.compiler() is None, reason=preloading.CANNOT)


@pytest.mark.parametrize(
    ("kind", "cuts"),
    [("store", 8), ("checkpoints", 5), ("vault", 5), ("code", 5), ("first_start", 10), ("engine", 4)],
)
def test_what_was_confirmed_survives_a_loss_of_power(kind: str, cuts: int) -> None:
    found = power_loss.lives(kind, cuts, seed=7)
    assert [one.all for one in found] == [[]] * cuts
    assert sum(one.held for one in found) > 0


def test_without_syncs_the_same_work_loses_what_was_confirmed() -> None:
    found = power_loss.lives("store_off", 10, seed=7)
    assert any(one.lost or one.corrupt for one in found)
