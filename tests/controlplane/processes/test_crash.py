"""The control plane is killed before and after every write and every effect of several scenarios; each time a
new one takes over, which may be killed as well, and everything ends as if nothing had happened."""

from pathlib import Path

import pytest

from tests.trust.crash_points import PLAYED, Sample, Scenario, Trial, play
from tests.trust.dying import Disk

EVERY = 51
"""Of so many second deaths one is tried; `python -m tests.trust.crash_points` tries the others."""


@pytest.mark.parametrize("scenario", PLAYED, ids=lambda scenario: scenario.name)
def test_a_crash_at_any_point_changes_nothing_in_the_end(scenario: Scenario, tmp_path: Path) -> None:
    """At every point in turn, and with the same attempts as without a crash."""
    found = list(Trial(scenario, tmp_path).deaths(Sample(EVERY).of))
    assert len(found) > 5
    assert [death.wrong for death in found if death.wrong] == []


def test_who_takes_over_finds_on_disk_what_the_dead_one_has_written(tmp_path: Path) -> None:
    """One death in the middle of each scenario of the durable store."""
    for scenario in PLAYED[:5]:
        calm = play(scenario, (), made(tmp_path / f"{scenario.name}-calm"), Disk)
        found = play(scenario, (len(calm.places) // 2,), made(tmp_path / scenario.name), Disk)
        assert found.outcome == calm.outcome, scenario.name


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder
