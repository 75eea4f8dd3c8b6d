"""Models and loops of all kinds: with workers that come, go and die, each learns what it learns alone."""

from pathlib import Path
from typing import Any

import pytest

from grus.elastic import audit
from tests.elastic import curves
from tests.elastic.conductor import Conductor
from tests.fork_server import ForkServer

SMALL: dict[str, Any] = {"samples": 102, "batch": 20, "micro": 4, "epochs": 4, "dtype": "float64"}
"""The last step of an epoch has two samples: one micro-batch, in which most workers have no part."""
EQUAL = 1e-9
ALIKE = 1e-5
"""… in single precision; why, is said in `events`."""
EXCHANGES = 7
"""In one step of the GAN: a loss and a bucket for each of three updates, and the flags."""


def quiet(forks: ForkServer, folder: Path, **task: Any) -> list[tuple[float, ...]]:
    """The losses of a run to which nothing happens."""
    with Conductor(forks, folder / "quiet", **task) as job:
        job.alone()
        return curves.curve(curves.lines(job.folder))


def check(
    job: Conductor, expected: list[tuple[float, ...]], tolerance: float, epochs: int = SMALL["epochs"]
) -> None:
    """Let it come to its end; nothing may show what has happened to it."""
    job.gate(None)
    job.gone(*job.members)
    assert [job.code(one) for one in job.members] == [0] * len(job.members), job.output(job.members[0])
    lines = curves.lines(job.folder)
    assert curves.unequal(lines) == []
    assert curves.distance(curves.curve(lines), expected) < tolerance
    assert curves.redone(job.folder) <= 1
    found = audit.check(job.folder / "audit", SMALL["samples"], epochs)
    assert found.wrong == ()


def hurt(job: Conductor) -> None:
    """Two workers, then four, then three, then one."""
    job.publish(job.spawn(2))
    job.go_on(3)
    job.publish([*job.members, *job.spawn(2)])
    job.go_on(4)
    victim = job.members[0]
    (job.folder / "die" / victim.name).write_text("0.001")
    job.gate(job.at(victim)[1] + 3)
    job.gone(victim)
    job.publish(job.members[1:], lost=True)
    job.go_on(1)
    job.publish(job.members[2:])
    job.go_on(1)


@pytest.mark.parametrize("program", ["tied", "sparse", "normed", "loaded"])
def test_it_learns_what_it_learns_alone(forks: ForkServer, tmp_path: Path, program: str) -> None:
    task = {**SMALL, "program": program}
    expected = quiet(forks, tmp_path, **task)
    with Conductor(forks, tmp_path / "job", **task) as job:
        hurt(job)
        check(job, expected, EQUAL)


def test_half_precision_with_a_scaler_and_clipping_too(forks: ForkServer, tmp_path: Path) -> None:
    task = {**SMALL, "program": "mixed", "dtype": "float32"}
    expected = quiet(forks, tmp_path, **task)
    with Conductor(forks, tmp_path / "job", "nccl-like", **task) as job:
        hurt(job)
        check(job, expected, ALIKE)


def test_all_workers_see_the_same_evaluation(forks: ForkServer, tmp_path: Path) -> None:
    """Running statistics are each worker's own; an evaluation begins by making them equal."""
    with Conductor(forks, tmp_path / "job", **{**SMALL, "program": "normed"}) as job:
        job.publish(job.spawn(3))
        job.gate(None)
        job.gone(*job.members)
        seen = {path.read_text() for path in (job.folder / "evaluated").iterdir()}
    assert len(seen) == 1
    assert len(seen.pop().splitlines()) == SMALL["epochs"]


@pytest.mark.parametrize(
    ("program", "backend"), [("gan", "gloo"), ("mixed_gan", "nccl-like"), ("hasty_gan", "gloo")]
)
def test_a_step_of_several_updates_is_taken_up_where_it_was_interrupted(
    forks: ForkServer, tmp_path: Path, program: str, backend: str
) -> None:
    """A worker dies before each of the exchanges of a step in turn: no update is lost or applied twice."""
    task = {**SMALL, "program": program, "epochs": 3 * SMALL["epochs"]}
    expected = quiet(forks, tmp_path, **task)
    with Conductor(forks, tmp_path / "job", backend, **task) as job:
        job.publish(job.spawn(2))
        for exchange in range(EXCHANGES):
            job.go_on(1)
            victim = job.members[exchange % 2]
            (job.folder / "die" / victim.name).write_text(f"-1 {exchange}")
            job.gate(job.at(victim)[1] + 2)
            new = job.begin()
            job.gone(victim)
            job.publish([one for one in job.members if one is not victim], lost=True)
            job.until(lambda new=new: job.heard(new))  # type: ignore[misc]  # bound now
            job.publish([*job.members, new])
        job.go_on(1)
        check(job, expected, EQUAL, task["epochs"])
