"""Small counts of the long proofs: the same code, in seconds. The figures come from the commands."""

import pytest

from tests.elastic import events, kills, mass, resizes
from tests.fork_server import ForkServer

BACKENDS = ["gloo", "nccl-like"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_after_kills_inside_an_all_reduce_all_parameters_are_equal(forks: ForkServer, backend: str) -> None:
    figures = kills.Figures()
    kills.run(5, backend, forks, figures, seed=1)
    assert (figures.kills, figures.unequal, figures.audit_wrong) == (5, 0, 0)
    assert figures.steps_redone_max <= 1


@pytest.mark.parametrize(("program", "dtype", "backend"), events.CASES)
def test_whatever_happens_the_losses_are_those_of_a_quiet_run(
    forks: ForkServer, program: str, dtype: str, backend: str
) -> None:
    figures = events.Figures()
    events.run(6, backend, program, dtype, forks, figures)
    assert not figures.wrong, figures
    assert figures.events == 6


def test_seven_of_eight_leave_at_once_and_come_back(forks: ForkServer) -> None:
    figures = mass.Figures()
    mass.run(1, "gloo", forks, figures)
    assert not figures.wrong, figures
    assert figures.left == mass.SIZE - 1


def test_a_survivor_of_resizes_compiles_once_and_piles_nothing_up(forks: ForkServer) -> None:
    figures = resizes.Figures()
    resizes.run(8, "nccl-like", forks, figures)
    assert not figures.wrong, figures
    assert figures.compilations == 1
