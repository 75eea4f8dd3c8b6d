"""The folder that a driver keeps for a comparison, where others may write beside it."""

from pathlib import Path

import pytest

from grus.compare.backends.staging import StagingFolder
from grus.compare.environments import DriverFailed


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    made = tmp_path / "bundle"
    made.mkdir()
    (made / "sampler.py").write_text("")
    return made


def test_nobody_else_reads_the_orders_for_they_hold_the_jobs_variables(tmp_path: Path, bundle: Path) -> None:
    stage = StagingFolder(tmp_path / "shared" / "key")
    stage.set_up(bundle)
    assert stage.folder.stat().st_mode & 0o777 == 0o700
    assert (stage.bundle / "sampler.py").is_file()


def test_a_folder_that_somebody_else_made_first_is_not_used(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = StagingFolder(tmp_path / "shared" / "key")
    stage.folder.mkdir(parents=True)
    monkeypatch.setattr(StagingFolder, "remove", lambda _: None)  # as where it is somebody else's
    with pytest.raises(DriverFailed, match="GRUS_SHARED"):
        stage.set_up(bundle)
    assert list(stage.folder.iterdir()) == []
