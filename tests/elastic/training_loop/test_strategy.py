"""Strategies of a run with workers that come, go and die: each does what it promises, and the run goes on."""

from pathlib import Path
from typing import Any

import pytest

from tests.elastic import curves
from tests.elastic.conductor import Conductor
from tests.elastic.test_models import hurt
from tests.fork_server import ForkServer

SMALL: dict[str, Any] = {"samples": 102, "batch": 20, "micro": 4, "epochs": 4, "width": 64}


@pytest.fixture(scope="module")
def quiet(forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[float, ...]]:
    """The losses of a plain run to which nothing happens."""
    with Conductor(forks, tmp_path_factory.mktemp("plain") / "quiet", **SMALL) as job:
        job.alone()
        return curves.curve(curves.lines(job.folder))


@pytest.mark.parametrize(
    ("strategy", "tolerance"),
    [
        ("checkpoint", 1e-5),
        ("offload", 1e-5),
        ("fp16-gradients", 1e-4),
        ("bf16", 5e-3),
        ("bf16 checkpoint fp16-gradients", 5e-3),
        ("powersgd", 0.05),
    ],
)
def test_workers_come_go_and_die_and_it_learns_what_a_plain_run_learns(
    forks: ForkServer, tmp_path: Path, quiet: list[tuple[float, ...]], strategy: str, tolerance: float
) -> None:
    task = {**SMALL, "options": {"strategy": strategy}}
    with Conductor(forks, tmp_path / "job", **task) as job:
        hurt(job)
        job.gate(None)
        job.gone(*job.members)
        assert [job.code(one) for one in job.members] == [0] * len(job.members), job.output(job.members[0])
        lines = curves.lines(job.folder)
        assert curves.unequal(lines) == []
        assert curves.distance(curves.curve(lines), quiet) < tolerance
        assert curves.redone(job.folder) <= 1
