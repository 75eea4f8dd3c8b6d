"""What the watcher and the vote are for: without them, a backend that fails as NCCL does ruins a run.

The same kill inside an exchange, three times: with everything in place, with a watcher that does not abort,
and with workers that do not ask whether an exchange was whole before they use it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.elastic import curves
from tests.elastic.conductor import Conductor
from tests.fork_server import ForkServer

DEATH = 8
"""The step with whose exchange one of three workers dies."""
LONG = 3.0
"""Seconds in which a sound run does hundreds of steps."""
EQUAL = 1e-9


@pytest.fixture(scope="module")
def quiet(forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[float, ...]]:
    """The losses of a run to which nothing happens."""
    with Conductor(forks, tmp_path_factory.mktemp("quiet") / "job", dtype="float64", epochs=2) as job:
        job.alone()
        return curves.curve(curves.lines(job.folder))


@contextmanager
def killed_inside(forks: ForkServer, folder: Path, without: str) -> Iterator[Conductor]:
    """Two of three workers, just told to go on without the one that has died."""
    task = {"dtype": "float64", "epochs": 2, "hang_after": 1.0, "without": without}
    with Conductor(forks, folder / "job", "nccl-like", **task) as job:
        job.publish(job.spawn(3))
        job.go_on(DEATH)
        victim = job.members[1]
        (job.folder / "die" / victim.name).write_text("-1")
        job.gate(None)
        job.gone(victim)
        job.publish([one for one in job.members if one is not victim], lost=True)
        yield job


def test_with_both_the_run_is_as_if_nothing_had_happened(
    forks: ForkServer, tmp_path: Path, quiet: list[tuple[float, ...]]
) -> None:
    with killed_inside(forks, tmp_path, without="") as job:
        job.gone(*job.members)
        assert [job.code(one) for one in job.members] == [0, 0]
        assert curves.distance(curves.curve(curves.lines(job.folder)), quiet) < EQUAL


def test_without_the_watcher_the_survivors_wait_for_ever(forks: ForkServer, tmp_path: Path) -> None:
    with killed_inside(forks, tmp_path, without="watcher") as job:
        job.until(lambda: all(job.word(one).get("waits") for one in job.members))
        with pytest.raises(AssertionError, match="waited in vain"):
            job.until(lambda: any(job.at(one)[1] > DEATH for one in job.members), LONG)
        assert all(job.alive(one) for one in job.members)


def test_without_the_vote_the_survivors_learn_from_garbage(
    forks: ForkServer, tmp_path: Path, quiet: list[tuple[float, ...]]
) -> None:
    with killed_inside(forks, tmp_path, without="vote") as job:
        job.gone(*job.members)
        found = curves.curve(curves.lines(job.folder))
    assert curves.distance(found[:DEATH], quiet[:DEATH]) < EQUAL
    assert any(curves.distance([one], [other]) > 1e-3 for one, other in zip(found, quiet, strict=False))
