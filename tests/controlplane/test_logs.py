"""Which log belongs to which worker, and what is said where there is none (any more)."""

from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from grus.controlplane import logs
from grus.model.errors import NotFound
from grus.model.identifiers import WorkerId
from grus.model.ports import Engine
from tests.scheduling.builders import a_job


@dataclass
class Forgetful:
    """An engine that forgets a silent worker right after the first look at it."""

    looks: list[WorkerId] = field(default_factory=list)

    def log(self, worker: WorkerId, offset: int = 0, limit: int = 65536) -> tuple[bytes, int]:
        self.looks.append(worker)
        if len(self.looks) > 1:
            raise NotFound(f"there is no log of a worker {worker}")
        return b"", offset


def test_a_silent_worker_forgotten_between_two_looks_has_an_empty_log() -> None:
    engine = Forgetful()
    ended = replace(a_job("quiet"), attempt=1, generation=1)
    assert logs.read(cast(Engine, engine), ended, 0, 0, 100) == (b"", 0)
    assert len(engine.looks) == 2, "the second look is the one that found nothing"


@pytest.mark.parametrize("number", [1, 2**64 + 1])
def test_a_worker_that_an_ended_job_never_had_is_not_there_whatever_its_number(number: int) -> None:
    ended = replace(a_job("quiet"), attempt=1, generation=1)
    with pytest.raises(NotFound, match=f"has no worker {number}"):
        logs.read(cast(Engine, Forgetful()), ended, number, 0, 100)
