"""The demo's second act: told by what the training noted, judged strictly, skipped without torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from grus.cli.demo_run import training
from grus.cli.demo_run.story import ObservedJob, scenes
from grus.cli.demo_run.training import NAME, NOTES, STEPS, LossHistory, followed_by_training, judge_training
from tests.cli.fake import a_job


@dataclass
class Place:
    """As much of a stage as the notes need."""

    folder: Path

    def write(self, *steps: tuple[int, float]) -> None:
        """Steps with (workers, loss), a tenth of a second apart."""
        path = self.folder / "checkpoints" / NAME / NOTES
        path.parent.mkdir(parents=True, exist_ok=True)
        have = path.read_text() if path.exists() else ""
        begin = have.count("\n")
        path.write_text(
            have + "".join(f"{n} {w} {loss} {n / 10}\n" for n, (w, loss) in enumerate(steps, begin + 1))
        )


def a_course(place: Any) -> LossHistory:
    course = LossHistory()
    for before, after in ((2, 4), (4, 3), (3, 1)):
        place.write(*[(before, 2.0 / before)] * STEPS)
        course.mark(place)
        assert not course.goes_on(place, after)
        place.write(*[(after, 1.0 / before)] * STEPS)
        assert course.goes_on(place, after)
        told = course.outcome(place)
        assert "it never stood still for longer than 0.10 s" in told
        assert f"with {after} workers" in told or "with one worker" in told
    return course


def a_seen(**changes: Any) -> ObservedJob:
    return ObservedJob(a_job(**{"phase": "succeeded", "attempt": 1, "lost": 1, **changes}))


def test_a_training_that_kept_its_promise_is_told_with_its_sizes_and_losses(tmp_path: Path) -> None:
    verdict = judge_training(a_seen(), a_course(Place(tmp_path)))
    assert verdict.ok
    assert "2 → 4 → 3 → 1 workers, lost: 1, restarts: 0; loss 1.00 → 0.50" in verdict.happened


@pytest.mark.parametrize(
    "changes", [{"attempt": 2}, {"lost": 0}, {"phase": "failed"}], ids=["restarted", "nobody-lost", "failed"]
)
def test_anything_less_is_no_success(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert not judge_training(a_seen(**changes), a_course(Place(tmp_path))).ok


def test_a_training_that_never_ran_is_no_success() -> None:
    assert not judge_training(None, LossHistory()).ok


def test_without_torch_the_first_act_is_played_and_the_rest_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "has_torch", lambda: False)
    *first, last = followed_by_training(scenes(), LossHistory())
    assert [scene.title for scene in first] == [scene.title for scene in scenes()]
    assert "torch is not installed" in last.title
    verdict = judge_training(None, LossHistory())
    assert verdict.ok
    assert "torch is not installed" in verdict.happened
