"""Crash points are found, counted and survived; whoever forgets, repeats or trusts too early is caught."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from unittest.mock import patch

import pytest

from grus.controlplane.reconciler.loop import ControlLoop
from grus.elastic.training_state import checkpoint_files
from grus.model.interfaces import NewJob, Store
from grus.model.jobs import Job
from grus.store.memory import MemoryStore
from tests.fakes.engine import SimulatedEngine, Workers
from tests.trust import crash_files
from tests.trust.crash_points import COMMITTED, PLAYED, Sample, Trial, commits, run
from tests.trust.dying import Bomb, Disk, Drive, Memory


def trial(folder: Path, name: str = "ordinary", kind: type[Memory] | type[Disk] = Memory) -> Trial:
    return Trial(next(one for one in PLAYED if one.name == name), folder, kind)


def wrong(folder: Path, name: str = "ordinary", kind: type[Memory] | type[Disk] = Memory) -> list[str]:
    return [death.wrong for death in trial(folder, name, kind).deaths() if death.wrong]


def test_there_are_twenty_scenarios() -> None:
    assert len({one.name for one in PLAYED} | {COMMITTED}) == 20


def test_all_points_of_a_scenario_are_survived_and_counted(tmp_path: Path) -> None:
    found = run(tmp_path, 1, Sample())
    assert found["points"] == found["survived"]
    assert found["second_points"] == found["second_survived"] == found["second_in_all"]
    assert found["points_of"] == {"submitted": found["points"]}
    assert found["points"] > 5  # type: ignore[operator]  # a number
    assert found["second_points"] > found["points"]  # type: ignore[operator]  # numbers


def test_a_sample_takes_one_of_so_many_second_deaths_from_play_to_play() -> None:
    sample = Sample(3)
    plays = (range(5, 9), range(6, 7), range(0), range(8, 12))
    assert [list(sample.of(points)) for points in plays] == [[5, 8], [], [], [9]]
    assert sample.passed == 9


def test_whoever_takes_over_is_killed_at_each_point_until_it_rests(tmp_path: Path) -> None:
    """From before it has taken over until before the scenario goes on."""
    first = next(trial(tmp_path).deaths())
    assert first.played is not None
    passed = [first.played.places[number - 1] for number in first.played.recovery]
    assert passed[0] == "before take_over"
    assert passed[-1].startswith("after ")
    rest = first.played.places[len(passed) + 1 :]
    assert rest[0] == "before take_over", "of the one that takes over in good order"


def test_a_commit_of_files_is_survived_at_every_line(tmp_path: Path) -> None:
    found = list(commits(tmp_path))
    assert len(found) > 100
    assert {death.wrong for death in found} == {""}


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


@pytest.mark.parametrize("kind", [Memory, Disk])
def test_a_submission_is_there_whole_or_not_at_all_whenever_the_server_dies(
    tmp_path: Path, kind: type[Memory] | type[Disk]
) -> None:
    assert wrong(tmp_path, "staged", kind) == []


def test_a_submission_that_is_written_job_by_job_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_by_one(store: MemoryStore, new: Sequence[NewJob]) -> "Future[list[Job]]":
        whole: Future[list[Job]] = Future()
        whole.set_result([store.create(one.job, one.event, one.key).result() for one in new])
        return whole

    monkeypatch.setattr(MemoryStore, "create_all", one_by_one)
    assert wrong(tmp_path, "staged")[0].startswith("killed after create a submitted")


def test_a_control_plane_that_does_not_look_for_its_workers_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimulatedEngine, "workers", lambda _: ())
    assert wrong(tmp_path, "led")


def test_a_take_over_that_is_told_to_be_done_before_it_is_takes_a_second_death_to_be_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who takes over looks for workers only if a mark says that there are some, and wipes it too early."""
    takes_over, rests, look = ControlLoop.open, ControlLoop.settle, SimulatedEngine.workers

    def take_over(loop: ControlLoop) -> None:
        left = vars(outliving(loop))
        marked, left["marked"] = left.get("marked", True), not left["known"]
        with patch.object(SimulatedEngine, "workers", look if marked else lambda _: ()):
            takes_over(loop)

    def rest(loop: ControlLoop, now: float) -> None:
        rests(loop, now)
        vars(outliving(loop))["marked"] = True

    monkeypatch.setattr(ControlLoop, "open", take_over)
    monkeypatch.setattr(ControlLoop, "settle", rest)
    found = Counter((death.times, not death.wrong) for death in trial(tmp_path, "led").deaths(Sample(5).of))
    assert found[1, True] > 0
    assert found[1, False] == 0, "one death is survived at every point"
    assert found[2, False] > 0


def outliving(loop: ControlLoop) -> Workers:
    """What outlives a control plane."""
    engine = loop._engine
    assert isinstance(engine, SimulatedEngine)
    return engine.workers_alive


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
    assert [death for death in commits(tmp_path) if death.wrong]
