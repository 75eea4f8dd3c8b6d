"""A watched stage whose logs are gone is still followed to its end."""

import pytest

from grus.cli.follow.follow_workflow import WatchedStage
from tests.cli.fake import a_job
from tests.cli.follow.test_merged_logs import Gang


def watched(gang: Gang) -> WatchedStage:
    return WatchedStage(gang, a_job("j1", phase="pending"), quiet=False)  # type: ignore[arg-type]  # a stand-in


def test_a_stage_without_a_log_ends_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    stage = watched(Gang([]))
    assert list(stage.step()) == list(stage.step()) == []
    assert (stage.finished, stage.idle) == (False, True)
    stage = watched(Gang([], phase="failed"))
    assert list(stage.step()) == list(stage.step()) == []
    assert stage.finished
    assert capsys.readouterr().err.count("[grus] resnet: no worker 0") == 2


def test_an_attempt_whose_log_is_gone_is_left_out() -> None:
    stage = watched(Gang([b"on\n"], attempt=2, earlier=[], phase="succeeded"))
    assert [list(stage.step()) for _ in range(3)] == [[], ["[resnet] on\n"], []]
    assert stage.finished
