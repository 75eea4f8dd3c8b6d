"""A GPU that its driver no longer knows is noticed by a real server, and its job goes on elsewhere."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.trust.detection import GPU_AIM, HANG_AIM, Figures, lost_gpus

KEPT = Figures(lost_gpu_noticed_s=5.0, moved_s=6.0, hang_noticed_s=65.0, hang_cut_off_s=31.0, went_on_s=32.0)


def test_a_lost_gpu_is_noticed_and_its_job_runs_elsewhere(tmp_path: Path) -> None:
    ((noticed, moved),) = lost_gpus(tmp_path, rounds=1)
    assert 0 < noticed <= moved


@pytest.mark.parametrize("late", [{"moved_s": GPU_AIM + 1}, {"hang_noticed_s": HANG_AIM + 1}])
def test_what_is_noticed_too_late_is_a_broken_promise(late: dict[str, float]) -> None:
    assert KEPT.kept
    assert not replace(KEPT, **late).kept
