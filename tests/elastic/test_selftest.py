"""The self-test passes where all is well, and says so where not."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from grus.elastic.selftest.__main__ import main
from grus.elastic.selftest.conductor import Conductor, Failed, Worker
from grus.elastic.selftest.events import SelftestRun, judged

EVENTS = ["alone", "begin", "grow", "shrink", "grow again", "kill the last", "kill the first", "hang"]


def test_all_events_hold_on_gloo() -> None:
    """One line an event and JSON at the end, as people with GPUs will see it for NCCL."""
    done = subprocess.run(
        [sys.executable, "-m", "grus.elastic.selftest", "--backend", "gloo"],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, last = done.stdout.splitlines()
    told = json.loads(last)
    assert told["ok"] is True
    assert [one["name"] for one in told["checks"]] == [*EVENTS, "pause", "resume", "data"]
    assert [line.split()[0] for line in lines] == ["ok"] * len(lines)


@pytest.mark.parametrize("options", [["--workers", "1"], ["--backend", "nccl"]], ids=" ".join)
def test_what_cannot_be_tested_here_is_refused(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(options)
    assert "two" in capsys.readouterr().err


class WithLosses(Conductor):
    """A run of which only the losses are known."""

    def __init__(self, losses: Mapping[int, float]) -> None:
        self._losses = losses

    def losses(self, worker: Worker) -> dict[int, float]:
        return dict(self._losses)


@pytest.mark.parametrize(("seen", "ok"), [(0.5, True), (0.50001, True), (0.51, False)])
def test_a_loss_unlike_the_undisturbed_one_is_a_failure(tmp_path: Path, seen: float, ok: bool) -> None:
    story = SelftestRun(WithLosses({7: seen}), [0, 1], {7: 0.5})
    worker = Worker("w0", 0, None, tmp_path, tmp_path)  # type: ignore[arg-type]  # nothing runs here

    def event() -> str:
        story.compare(worker, 7)
        return "fine"

    check = judged(story, "some event", event)
    assert check.ok is ok
    assert ok or "loss of step 7 is 0.510000, undisturbed it was 0.500000" in check.detail


def test_an_end_that_must_not_be_is_a_failure(tmp_path: Path) -> None:
    with Conductor(tmp_path / "run", "gloo", program=["-c", "import sys; sys.exit('no such thing')"]) as run:
        workers = run.start([0])
        with pytest.raises(Failed, match="w0 ended with 1 before w0 is ready: no such thing"):
            run.ready(workers)
