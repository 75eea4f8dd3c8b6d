"""Audits of runs in which a worker records its first step late: after all that a lost worker wrote."""

from pathlib import Path
from typing import Any

import pytest

from grus.elastic import audit
from grus.elastic.audit import Processed
from tests.elastic.conductor import Conductor, Worker
from tests.fork_server import ForkServer

ONE_PART: dict[str, Any] = {"samples": 6, "batch": 2, "micro": 2, "epochs": 2}
"""Each step is one micro-batch: the first worker computes it, the second one records the commit alone."""


def processed(job: Conductor, worker: Worker) -> set[int]:
    """The steps of which this worker has computed a part."""
    lines, _ = audit.read(job.folder / "audit")
    own = [found for name, found in lines.items() if f"-{worker.pid}." in name]
    return {line.step for found in own for line in found if isinstance(line, Processed)}


@pytest.mark.parametrize("backend", ["gloo", "nccl-like"])
@pytest.mark.parametrize("program", ["classifier", "gan"])
def test_a_first_commit_after_the_last_line_of_a_lost_worker_belongs_to_the_same_step(
    forks: ForkServer, tmp_path: Path, program: str, backend: str
) -> None:
    """The second worker is held between the exchange and its commit, until the first is at its next step."""
    with Conductor(forks, tmp_path, backend, **ONE_PART, program=program) as job:
        first, second = job.spawn(2)
        late = job.folder / "hold" / second.name
        late.touch()
        job.publish([first, second])
        job.gate(1)
        job.until(lambda: 1 in processed(job, first))
        job.kill(first)
        late.unlink()
        job.publish([second], lost=True)
        job.gate(None)
        job.gone(second)
        assert job.code(second) == 0, job.output(second)
        found = audit.check(job.folder / "audit", ONE_PART["samples"], ONE_PART["epochs"])
    assert found.wrong == ()
    assert (found.workers, found.steps, found.void) == (2, 6, 0)
