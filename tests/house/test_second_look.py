"""A second look forgives what was short of time, and nothing else."""

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


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def suite(folder: Path, text: str) -> int:
    """The first look, as the suite takes it."""
    (folder / "test_it.py").write_text(text)
    return subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=folder, check=False).returncode


def test_what_passes_alone_is_forgiven_and_named(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert suite(run, LUCKLESS) == 1
    assert second_look.main() == 0
    assert "UNSTEADY test_it.py::test_passes_the_second_time" in capfd.readouterr().out


def test_what_fails_again_is_a_failure(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert suite(run, LUCKLESS + WRONG) == 1
    assert second_look.main() == 1
    assert "UNSTEADY" not in capfd.readouterr().out


def test_many_failures_are_no_bad_luck(run: Path) -> None:
    many = "".join(WRONG.replace("is_wrong", f"number_{one}") for one in range(second_look.HANDFUL + 1))
    assert suite(run, many) == 1
    assert second_look.main() == 1


def test_a_suite_that_failed_without_a_failed_test_stays_failed(run: Path) -> None:
    assert suite(run, "def test_fine(): pass\n") == 0
    assert second_look.main() == 1
