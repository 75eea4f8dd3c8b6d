"""The final check of a whole run: what it finds in the folder for temporary files, and what it removes."""

from pathlib import Path

from tests.runs.machine import entries, left


def test_new_entries_of_our_programs_are_found_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "grus-before").mkdir()
    before = entries(tmp_path)
    (tmp_path / "grus-ray-j1").mkdir()
    (tmp_path / "notes-of-somebody").write_text("")
    assert left(before, tmp_path) == [tmp_path / "grus-ray-j1"]


def test_a_new_cache_of_torch_is_removed_and_an_older_one_stays(tmp_path: Path) -> None:
    (tmp_path / "torchinductor_older").mkdir()
    before = entries(tmp_path)
    (tmp_path / "torchinductor_root" / "inside").mkdir(parents=True)
    assert left(before, tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == ["torchinductor_older"]
