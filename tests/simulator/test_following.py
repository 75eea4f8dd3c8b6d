"""Jobs that are announced while a simulation runs, because another has ended."""

import pytest

from grus.model.errors import BadInput
from grus.simulator.simulator import Simulation
from tests.simulator.scenes import a_simulation, a_work, by_name


def test_jobs_that_follow_on_others_come_when_they_are_announced_for() -> None:
    """The next is announced when the first has ended, for twenty seconds later."""
    simulation = a_simulation("1x1", [a_work("first", duration=10.0)])

    def go_on(running: Simulation) -> bool:
        if running.total == 1 and running.effects.ended:
            running.expect([a_work("next", submit=running.now + 20.0, duration=5.0)])
        return False

    found = by_name(simulation.run(until=go_on))
    assert (found["next"].started, found["next"].ended) == (30.0, 35.0)


def test_a_job_that_never_fits_cannot_be_announced() -> None:
    with pytest.raises(BadInput):
        a_simulation("1x1", [a_work("first")]).expect([a_work("large", gpus=2)])
