"""Crash points are found, counted and survived; whoever forgets, repeats or trusts too early is caught."""

from pathlib import Path

import pytest

from grus.elastic import checkpoint_files
from grus.model.ports import Store
from tests.fakes.engine import SimulatedEngine
from tests.trust import crash_files
from tests.trust.crash_points import COMMITTED, PLAYED, commits, run, survivals
from tests.trust.dying import Bomb, Disk, Drive, Memory


def wrong(folder: Path, name: str = "ordinary", kind: type[Memory] | type[Disk] = Memory) -> list[str]:
    scenario = next(one for one in PLAYED if one.name == name)
    return [one for one in survivals(scenario, folder, kind) if one]


def test_there_are_twenty_scenarios() -> None:
    assert len({one.name for one in PLAYED} | {COMMITTED}) == 20


def test_all_points_of_a_scenario_are_survived_and_counted(tmp_path: Path) -> None:
    found = run(tmp_path, 1)
    assert found["points"] == found["survived"]
    assert found["points_of"] == {"submitted": found["points"]}
    assert found["points"] > 5  # type: ignore[operator]  # a number


def test_a_commit_of_files_is_survived_at_every_line(tmp_path: Path) -> None:
    found = list(commits(tmp_path))
    assert len(found) > 100
    assert set(found) == {""}


def test_a_request_repeated_without_its_key_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = Drive.submit

    def without_key(drive: Drive, name: str, **spec: object) -> None:
        create = drive.place.store.create
        monkeypatch.setattr(drive.place.store, "create", lambda job, event, key=None: create(job, event))
        submit(drive, name, **spec)

    monkeypatch.setattr(Drive, "submit", without_key)
    assert [one.partition(":")[0] for one in wrong(tmp_path)][:1] == ["killed after create a submitted"]


def test_a_control_plane_that_does_not_look_for_its_workers_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimulatedEngine, "workers", lambda _: ())
    assert wrong(tmp_path, "led")


def test_what_was_confirmed_before_it_was_on_disk_is_caught(tmp_path: Path) -> None:
    class Hasty(Disk):
        """Its log was never written."""

        def again(self, bomb: Bomb) -> Store:
            (self._place() / "grus.db-wal").unlink()
            return super().again(bomb)

    assert wrong(tmp_path, kind=Hasty)


def test_a_checkpoint_that_goes_before_its_successor_is_there_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(folder: Path) -> None:
        for old in checkpoint_files.found(folder):
            checkpoint_files.remove(old)
        crash_files.save_step(folder, 3)

    hasty = (crash_files.two_saved, save, crash_files.resume)
    monkeypatch.setattr(crash_files, "COMMITS", (hasty,))
    assert [one for one in commits(tmp_path) if one]
