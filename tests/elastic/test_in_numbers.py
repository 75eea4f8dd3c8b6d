"""Small counts of the long proofs: the same code, in seconds. The figures come from the commands."""

from collections.abc import Iterator

import pytest

from tests.elastic import events, kills, mass, resizes
from tests.elastic.nursery import Nursery

BACKENDS = ["gloo", "nccl-like"]


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as made:
        yield made


@pytest.mark.parametrize("backend", BACKENDS)
def test_after_kills_inside_an_all_reduce_all_parameters_are_equal(nursery: Nursery, backend: str) -> None:
    figures = kills.Figures()
    kills.run(5, backend, nursery, figures, seed=1)
    assert (figures.kills, figures.unequal, figures.audit_wrong) == (5, 0, 0)
    assert figures.steps_redone_max <= 1


@pytest.mark.parametrize(("program", "dtype", "backend"), events.CASES)
def test_whatever_happens_the_losses_are_those_of_a_quiet_run(
    nursery: Nursery, program: str, dtype: str, backend: str
) -> None:
    figures = events.Figures()
    events.run(6, backend, program, dtype, nursery, figures)
    assert not figures.wrong, figures
    assert figures.events == 6


def test_seven_of_eight_leave_at_once_and_come_back(nursery: Nursery) -> None:
    figures = mass.Figures()
    mass.run(1, "gloo", nursery, figures)
    assert not figures.wrong, figures
    assert figures.left == mass.SIZE - 1


def test_a_survivor_of_resizes_compiles_once_and_piles_nothing_up(nursery: Nursery) -> None:
    figures = resizes.Figures()
    resizes.run(8, "nccl-like", nursery, figures)
    assert not figures.wrong, figures
    assert figures.compilations == 1
