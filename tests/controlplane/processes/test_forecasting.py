"""The process that computes forecasts."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from grus.controlplane import oracle
from grus.controlplane.oracle import OracleLost, OracleProcess
from grus.simulation.foretelling import Ask, Foreteller
from tests.controlplane.test_forecasting import Watched


@pytest.fixture
def plane() -> Iterator[Watched]:
    with closing(Watched(pool="1x2")) as made:
        yield made


def test_a_process_answers_as_the_oracle_in_this_one_does(
    plane: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same facts and question, over the pipe, in pieces."""
    monkeypatch.setattr(oracle, "TOLD", 2)
    for _ in range(4):
        plane.ran("resnet", 600.0)
    job = plane.submit("resnet")
    for number in range(3):
        plane.submit(f"other-{number}")
    plane.look()
    facts = [plane.forecaster._fact(one) for one in plane.store.jobs()]
    ask = Ask(plane.forecaster._present(plane.now), worlds=8)
    process = OracleProcess()
    try:
        process.learn(facts)
        found = process.foresee(ask)
    finally:
        process.close()
    assert found == Foreteller.foresee(plane.seer, ask)
    assert found[job].end is not None


def test_a_process_that_was_killed_is_lost_and_the_next_one_begins_anew(plane: Watched) -> None:
    ask = Ask(plane.forecaster._present(plane.now), worlds=8)
    process = OracleProcess()
    try:
        assert process.foresee(ask) == {}
        child = process._process
        assert child is not None
        child.kill()
        child.wait()
        with pytest.raises(OracleLost):
            process.foresee(ask)
        assert process.foresee(ask) == {}
    finally:
        process.close()
