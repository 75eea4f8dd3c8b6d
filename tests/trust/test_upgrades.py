"""What upgrades, examinations and back-ups promise, once at a small size; and that each check can fail."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from grus.model.errors import Conflict, StoreFailed
from grus.server.backup.create import back_up
from grus.server.backup.restore import restore
from grus.store.sqlite_backup import epoch_of
from tests.server.process import ServerProcess
from tests.store import released
from tests.trust import preloading, restore_deaths, upgrades
from tests.trust.damages import DAMAGES, a_job, opened
from tests.trust.used_state import a_used_pool, examined, use


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A state that was really used; its server has ended, and its gang runs on."""
    with a_used_pool(tmp_path_factory.mktemp("used")) as pool:
        use(pool)
        pool.stop()
        yield pool


def test_a_state_that_was_really_used_is_clean(used: ServerProcess) -> None:
    verdict = examined(used.places.state)
    assert verdict.findings == ()
    assert (verdict.jobs, verdict.events > 10) == (6, True)


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_is_found(used: ServerProcess, tmp_path: Path, name: str) -> None:
    assert upgrades.is_found(DAMAGES[name], used.places.state, tmp_path / "copy")


def test_a_back_up_is_whole_or_refused(used: ServerProcess, tmp_path: Path) -> None:
    made = back_up(used.places, tmp_path / "back-up", 1000.0)
    assert made.jobs == 6
    with (tmp_path / "back-up" / "grus.db").open("r+b") as file:
        file.seek(5000)
        file.write(b"x")
    elsewhere = ServerProcess(tmp_path / "home").places
    with pytest.raises(StoreFailed, match="not what was backed up"):
        restore(elsewhere, tmp_path / "back-up", 1000.0)
    assert not (elsewhere.state / "grus.db").exists()


def test_a_job_that_a_back_up_lacks_is_counted(used: ServerProcess, tmp_path: Path) -> None:
    back_up(used.places, tmp_path / "back-up", 1000.0)
    assert upgrades.missing(tmp_path / "back-up", {"jnobody"}) == 1


def test_a_restore_needs_force_over_a_state_and_raises_the_epoch_above_all_that_were_used(
    used: ServerProcess, tmp_path: Path
) -> None:
    back_up(used.places, tmp_path / "back-up", 1000.0)
    elsewhere = ServerProcess(tmp_path / "home").places
    first = restore(elsewhere, tmp_path / "back-up", 1000.0)
    with opened(elsewhere.state) as connection:
        connection.execute("UPDATE control SET epoch = 41")
        connection.execute("DELETE FROM jobs WHERE id = ?", (a_job(connection, "pending"),))
    with pytest.raises(Conflict, match="--force"):
        restore(elsewhere, tmp_path / "back-up", 1000.0)
    (elsewhere.state / "engine" / "epochs" / "50").mkdir(parents=True)
    again = restore(elsewhere, tmp_path / "back-up", 1000.0, force=True)
    assert (first.jobs, again.jobs, again.epoch) == (6, 6, 51)
    assert epoch_of(elsewhere.state / "grus.db") == 51
    assert epoch_of(Path(again.aside)) == 41


def test_an_old_file_opens_and_a_newer_one_is_refused(tmp_path: Path) -> None:
    assert upgrades.opens(released.VERSIONS[0], tmp_path / "old")
    assert upgrades.newer_is_refused(tmp_path / "newer")


@pytest.mark.skipif(preloading.compiler() is None, reason=preloading.CANNOT)
def test_a_restore_that_dies_leaves_the_old_state_or_the_new_one(tmp_path: Path) -> None:
    found = list(restore_deaths.deaths(tmp_path.resolve(), step=11))
    assert found == [""] * len(found)
    assert len(found) > 20


def test_a_state_that_has_lost_its_log_while_it_was_restored_is_noticed(tmp_path: Path) -> None:
    at, backed_up = restore_deaths.before(tmp_path)
    (at.state / "grus.db-wal").rename(at.state / "grus.db.before-now-wal")
    assert "has jobs []" in restore_deaths.wrong(at.config, backed_up, over=False, serve=False)
    (at.state / "grus.db").unlink()
    assert "there is no file" in restore_deaths.wrong(at.config, backed_up, over=False, serve=False)


def test_a_release_whose_file_has_lost_a_job_does_not_count_as_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(released, "FATES", dict(list(released.FATES.items())[:-1]))
    assert not upgrades.opens(released.VERSIONS[-1], tmp_path)
