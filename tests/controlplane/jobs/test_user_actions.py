"""What people ask of a job, in each of its phases: done, done already, or refused with the reason."""

import pytest

from grus.controlplane.jobs import user_actions
from grus.model.errors import BadInput, Conflict
from grus.model.identifiers import UserName
from grus.model.jobs import HOLDING, NEXT, TERMINAL, Desired, PauseCause, Phase
from grus.model.resources import Range
from tests.controlplane.jobs.test_lifecycle import running_job
from tests.scheduler.builders import a_job

ANN = UserName("ann")


@pytest.mark.parametrize("phase", sorted(Phase))
@pytest.mark.parametrize("wish", ["pause", "resume", "stop"])
def test_a_wish_is_legal_repeatable_and_frees_nothing(phase: Phase, wish: str) -> None:
    job = running_job(phase) if phase in HOLDING else running_job(phase, seats=())
    ask = getattr(user_actions, wish)
    if phase in TERMINAL and not (phase is Phase.STOPPED and wish == "stop"):
        with pytest.raises(Conflict, match=r"already (succeeded|failed|been stopped)"):
            ask(job, ANN, 1.0)
        return
    found = ask(job, ANN, 1.0)
    if found is None:
        return
    assert found.job.phase is phase or found.job.phase in NEXT[phase]
    assert found.job.seats == job.seats
    assert "ann" in found.event.text
    assert ask(found.job, ANN, 2.0) is None


def test_a_pause_by_the_scheduler_can_be_made_a_persons() -> None:
    job = running_job(Phase.PAUSED, seats=(), paused_by=PauseCause.SCHEDULER)
    found = user_actions.pause(job, ANN, 1.0)
    assert found is not None
    assert (found.job.paused_by, found.job.desired) == (PauseCause.PERSON, Desired.PAUSE)
    assert user_actions.resume(job, ANN, 1.0) is None


def test_nothing_can_be_asked_of_a_job_that_is_being_stopped() -> None:
    job = running_job(desired=Desired.STOP)
    assert user_actions.stop(job, ANN, 1.0) is None
    for ask in (user_actions.pause, user_actions.resume):
        with pytest.raises(Conflict, match="being stopped"):
            ask(job, ANN, 1.0)


@pytest.mark.parametrize(
    ("size", "sizes", "rule"),
    [
        (Range(1, 4), (), "within 2..8"),
        (Range(2, 9), (), "within 2..8"),
        (Range(5, 7), (2, 4, 8), "2, 4, 8"),
        (Range(4, 2), (), "within 2..8"),
    ],
)
def test_a_size_outside_what_the_job_can_use_is_refused(
    size: Range, sizes: tuple[int, ...], rule: str
) -> None:
    with pytest.raises(BadInput, match=rule):
        user_actions.scale(a_job("e", gpus="2..8", sizes=sizes), size, ANN, 1.0)


def test_scale_needs_an_elastic_job() -> None:
    with pytest.raises(Conflict, match="fixed size"):
        user_actions.scale(a_job("r", gpus=4), Range(2, 2), ANN, 1.0)
    with pytest.raises(Conflict, match="per-gpu"):
        user_actions.scale(a_job("o", gpus="2..4", one_node=True), Range(2, 2), ANN, 1.0)
    found = user_actions.scale(a_job("e", gpus="2..8"), Range(4, 4), ANN, 1.0)
    assert found is not None
    assert found.job.size == Range(4, 4)
    assert user_actions.scale(found.job, Range(4, 4), ANN, 1.0) is None
