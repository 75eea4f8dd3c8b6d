"""A trial is heard at once where it is compared, and rings nowhere else."""

import json
import math
from pathlib import Path

import pytest

from grus.sdk import worker


class Bell:
    """What a trial writes, and how often it rings."""

    def __init__(self, report: Path) -> None:
        self.report = report
        self.rings = 0

    def ring(self) -> None:
        self.rings += 1

    def last(self) -> dict[str, float]:
        figures = json.loads(self.report.read_text().splitlines()[-1])["figures"]
        assert isinstance(figures, dict)
        return figures


@pytest.fixture
def bell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bell:
    made = Bell(tmp_path / "report")
    monkeypatch.setenv("GRUS_REPORT", str(made.report))
    monkeypatch.setattr(worker, "_said", worker._ReportState())
    monkeypatch.setattr(worker, "_rungs", worker._Rungs())
    monkeypatch.setattr(worker, "ring", made.ring)
    return made


def a_trial(monkeypatch: pytest.MonkeyPatch, by: str = "step", *at: float, begun: float = 0.0) -> None:
    monkeypatch.setenv("GRUS_RUNGS", json.dumps({"by": by, "at": at, "from": begun}))


def test_it_rings_once_at_each_rung_that_it_passes(bell: Bell, monkeypatch: pytest.MonkeyPatch) -> None:
    a_trial(monkeypatch, "step", 3, 9)
    heard = []
    for step in range(1, 12):
        worker.report(step=step, loss=1.0)
        heard.append(bell.rings)
    assert heard == [0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2]


def test_rungs_that_are_jumped_over_ring_once(bell: Bell, monkeypatch: pytest.MonkeyPatch) -> None:
    a_trial(monkeypatch, "step", 1, 3, 9)
    worker.report(step=100, loss=1.0)
    assert bell.rings == 1


def test_without_a_step_the_reports_are_counted_from_where_it_was(
    bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_trial(monkeypatch, "step", 6, begun=4.0)
    worker.report(loss=2.0)
    worker.saved()
    assert bell.last()["step"] == 5
    worker.report(loss=1.0)
    assert (bell.last()["step"], bell.rings) == (6, 1)


def test_its_own_word_counts_more_than_its_reports(bell: Bell, monkeypatch: pytest.MonkeyPatch) -> None:
    a_trial(monkeypatch, "epoch", 6)
    worker.report(epoch=1, loss=2.0)
    worker.report(loss=1.0)
    assert bell.last()["epoch"] == 1


def test_a_figure_that_is_no_number_any_more_is_told_at_once_and_once(
    bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_trial(monkeypatch, "step", 100)
    worker.report(step=1, loss=math.nan)
    worker.report(step=2, loss=math.nan)
    assert bell.rings == 1


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "3", '{"by": "step"}', '{"by": "s", "at": ["x"], "from": 0}']
)
def test_outside_a_sweep_nothing_rings_and_nothing_is_added(
    bell: Bell, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("GRUS_RUNGS", text)
    worker.report(loss=math.inf)
    assert (bell.rings, set(bell.last())) == (0, {"loss"})
