"""A second look forgives what was short of time, and nothing else."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import second_look

LUCKLESS = """
from pathlib import Path

def test_passes_the_second_time():
    seen = Path("seen")
    first = not seen.exists()
    seen.touch()
    assert not first
"""
WRONG = "def test_is_wrong(): assert False\n"


SKIPPED_LATER = LUCKLESS.replace(
    "assert not first", "__import__('pytest').skip('no room') if not first else 1 / 0"
)
CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def suite(folder: Path, text: str, *options: str) -> int:
    """The first look, as the suite takes it."""
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", *options]
    return subprocess.run(command, cwd=folder, check=False).returncode


def test_what_passes_alone_is_forgiven_and_named(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert second_look.main(suite(run, LUCKLESS)) == 0
    assert "UNSTEADY test_it.py::test_passes_the_second_time" in capfd.readouterr().out


def test_what_fails_again_is_a_failure(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert second_look.main(suite(run, LUCKLESS + WRONG)) == 1
    assert "UNSTEADY" not in capfd.readouterr().out


def test_what_is_skipped_the_second_time_has_not_passed(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert second_look.main(suite(run, SKIPPED_LATER)) == 1
    assert "UNSTEADY" not in capfd.readouterr().out


def test_a_skip_is_not_forgiven_where_all_are_required(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(CONFTEST, run)
    monkeypatch.setenv("REQUIRE_ALL", "1")
    cannot = "def test_cannot(): __import__('pytest').skip('no such machine')\n"
    assert second_look.main(suite(run, LUCKLESS + cannot)) != 0


@pytest.mark.parametrize("parallel", [(), ("-n", "1")], ids=["alone", "parallel"])
def test_a_file_that_cannot_be_read_the_first_time_is_no_bad_luck(
    run: Path, parallel: tuple[str, ...]
) -> None:
    body = LUCKLESS.partition(":\n")[2].replace("    ", "")
    code = suite(run, f"from pathlib import Path\n{body}\ndef test_fine(): pass\n", *parallel)
    assert second_look.main(code) != 0


@pytest.mark.parametrize("code", [2, 3, 4, 5])
def test_a_suite_that_broke_off_gets_no_second_look(run: Path, code: int) -> None:
    assert suite(run, LUCKLESS) == 1
    assert second_look.main(code) == code


def test_many_failures_are_no_bad_luck(run: Path) -> None:
    many = "".join(WRONG.replace("is_wrong", f"number_{one}") for one in range(second_look.HANDFUL + 1))
    assert second_look.main(suite(run, many)) == 1


def test_a_suite_that_failed_without_a_failed_test_stays_failed(run: Path) -> None:
    assert suite(run, "def test_fine(): pass\n") == 0
    assert second_look.main(1) == 1
