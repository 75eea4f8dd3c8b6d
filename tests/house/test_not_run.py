"""A test that could not run is named, and under REQUIRE_ALL=1 it fails the run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SOME_NOT_RUN

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"
TESTS = "import pytest\ndef test_runs(): pass\ndef test_cannot(): pytest.skip('no such machine')\n"


@pytest.mark.parametrize(("required", "code"), [("0", 0), ("1", SOME_NOT_RUN)])
@pytest.mark.parametrize("parallel", [(), ("-n", "1")], ids=["alone", "parallel"])
def test_a_skip_is_named_and_fails_where_all_are_required(
    tmp_path: Path, required: str, code: int, parallel: tuple[str, ...]
) -> None:
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "test_some.py").write_text(TESTS)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *parallel, "."],
        cwd=tmp_path,
        env={**environment, "REQUIRE_ALL": required},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert told.returncode == code, told.stdout
    assert "NOT RUN test_some.py::test_cannot: no such machine" in told.stdout
