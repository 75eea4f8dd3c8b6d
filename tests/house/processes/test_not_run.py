"""A test that could not run is named, and under REQUIRE_ALL=1 it fails the run; so does a death."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SOME_NOT_RUN

ROOT = Path(__file__).resolve().parents[3]
DEADLY = "import os\ndef test_dies(): os.write(1, b'last words'), os._exit(3)\ndef test_is_not_run(): pass\n"
TESTS = "import pytest\ndef test_runs(): pass\ndef test_cannot(): pytest.skip('no such machine')\n"


@pytest.mark.parametrize(("required", "code"), [("0", 0), ("1", SOME_NOT_RUN)])
@pytest.mark.parametrize("parallel", [(), ("-n", "1")], ids=["alone", "parallel"])
def test_a_skip_is_named_and_fails_where_all_are_required(
    tmp_path: Path, required: str, code: int, parallel: tuple[str, ...]
) -> None:
    told = run(tmp_path, TESTS, *parallel, required=required)
    assert told.returncode == code, told.stdout
    assert "NOT RUN test_some.py::test_cannot: no such machine" in told.stdout


def test_a_worker_that_dies_ends_the_run_with_its_test_and_its_output(tmp_path: Path) -> None:
    """Its other tests never ran, so the exit code differs from that of failed tests."""
    told = run(tmp_path, DEADLY, "-n", "1", "--max-worker-restart", "0", "--dist", "loadfile")
    assert told.returncode == SOME_NOT_RUN, told.stdout
    assert "crashed while running 'test_some.py::test_dies'" in told.stdout
    assert "last words" in told.stdout


def run(folder: Path, tests: str, *words: str, required: str = "0") -> subprocess.CompletedProcess[str]:
    """A suite of its own, with our rules."""
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    (folder / "test_some.py").write_text(tests)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, "."],
        cwd=folder,
        env={**environment, "REQUIRE_ALL": required, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
