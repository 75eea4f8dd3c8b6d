"""Whoever gets the state of another keeps its own until it has all of it; half of one is worth nothing."""

from typing import Any

import pytest
import torch

from grus.elastic.data.sample_schedule import Progress
from grus.elastic.rendezvous.collective_backends import Broken, Pending
from grus.elastic.rendezvous.process_group import Group
from grus.elastic.training_loop.validate_arguments import check
from grus.elastic.training_state.state_sync import Torn, TrainingState

CPU = torch.device("cpu")


class Halfway(Group):
    """Two members; the other one is further, and dies when it has said so."""

    def __init__(self) -> None:
        super().__init__()
        self.number, self.rank, self.world = 1, 1, 2

    def all_reduce(self, tensor: torch.Tensor) -> Pending:
        tensor[0] = tensor[1]
        tensor[0, 0] += 5000
        return Done()

    def broadcast(self, tensor: torch.Tensor, source: int) -> Pending:
        raise Broken("gone")

    def settle(self) -> None:
        return


class Done:
    def wait(self) -> None:
        return


def a_standing() -> TrainingState:
    model = torch.nn.Linear(2, 2)
    rest: dict[str, Any] = dict.fromkeys(
        ("scheduler", "micro_batch", "checkpoint", "checkpoint_every", "audit", "also")
    )
    arguments = check(
        model,
        torch.optim.SGD(model.parameters(), 0.1),
        [0, 1, 2, 3],
        global_batch=2,
        epochs=1,
        scheduler_per="step",
        exact=True,
        **rest,
    )
    return TrainingState(arguments, None, 4)


def nothing() -> None:
    return None


def test_one_that_is_somewhere_stays_there_when_the_giver_is_lost() -> None:
    standing = a_standing()
    standing.begin(nothing)
    standing.progress = Progress(0, 2, 1)
    height, before = standing.height(), torch.cat([one.flatten() for one in _weights(standing)]).clone()
    with pytest.raises(Broken):
        standing.level(Halfway(), CPU, nothing)
    assert standing.height() == height
    assert torch.equal(before, torch.cat([one.flatten() for one in _weights(standing)]))


def test_one_that_is_new_is_nowhere_then_and_begins_only_from_what_was_saved() -> None:
    standing = a_standing()
    with pytest.raises(Broken):
        standing.level(Halfway(), CPU, nothing)
    assert standing.height() == 0
    with pytest.raises(Torn, match="nothing is saved"):
        standing.begin(nothing)
    saved = a_standing()
    saved.begin(nothing)
    saved.progress = Progress(0, 2, 1)
    standing.begin(saved.capture)
    assert standing.progress == Progress(0, 2, 1)
    assert all(torch.equal(*pair) for pair in zip(_weights(standing), _weights(saved), strict=True))


def test_an_attempt_is_later_than_the_one_it_continues_though_the_clock_was_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    saved = a_standing()
    saved.begin(nothing)
    monkeypatch.setattr("grus.elastic.training_state.state_sync.time.time", lambda: 1.0)
    resumed = a_standing()
    resumed.begin(saved.capture)
    assert resumed.begun > saved.begun > 1000


def test_a_state_that_was_saved_without_the_time_of_its_attempt_can_be_continued() -> None:
    saved = a_standing()
    saved.begin(nothing)
    old = saved.capture()
    del old["begun"]
    resumed = a_standing()
    resumed.begin(lambda: old)
    assert resumed.begun >= saved.begun


def _weights(standing: TrainingState) -> list[torch.Tensor]:
    return list(standing.capture()["parts"]["model model"].values())
