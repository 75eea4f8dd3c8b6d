"""Dated backups: the newest stay, and nothing else is touched."""

from pathlib import Path

from grus.server.backup.rotation import backups_in, name_of, remove_old


def made(folder: Path, now: float) -> Path:
    path = folder / name_of(now)
    path.mkdir()
    (path / "backup.json").write_text("{}")
    return path


def test_the_newest_stay(tmp_path: Path) -> None:
    paths = [made(tmp_path, 86400.0 * day) for day in range(5)]
    assert backups_in(tmp_path) == paths
    assert remove_old(tmp_path, 2) == paths[:3]
    assert backups_in(tmp_path) == paths[3:]
    assert remove_old(tmp_path, 2) == []


def test_what_is_no_backup_of_the_series_stays(tmp_path: Path) -> None:
    paths = [made(tmp_path, 86400.0 * day) for day in range(3)]
    (paths[0] / "backup.json").unlink()
    (tmp_path / "monday").mkdir()
    (tmp_path / name_of(1.0)).symlink_to(paths[1])
    assert remove_old(tmp_path, 1) == [paths[1]]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [paths[0].name, paths[2].name, "monday", name_of(1.0)]
    )


def test_a_folder_that_is_not_there_has_no_backups(tmp_path: Path) -> None:
    assert backups_in(tmp_path / "none") == []
