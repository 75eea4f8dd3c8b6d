"""`grus selftest` without GPUs: it says what it could not test, and rehearses on virtual ones."""

import json
import subprocess
import sys
from pathlib import Path

from tests.cli.real import RealGrus

ROOT = Path(__file__).parents[3]


def test_without_gpus_everything_is_named_and_the_exit_code_is_seven(tmp_path: Path) -> None:
    words = ("selftest", "-o", "json", "--only", "nvml", "--only", "elastic")
    found = json.loads(RealGrus(tmp_path)(*words, code=7).stdout)
    assert [one["state"] for one in found["checks"]] == ["not tested", "not tested"]
    assert found["versions"]["GPUs"] == "none"


def test_the_examples_run_on_a_server_of_its_own(tmp_path: Path) -> None:
    words = ("--virtual", "2x4x16GB", "--only", "examples", "--examples", str(ROOT / "examples"))
    page = tmp_path / "page.md"
    # A process of its own: its server and connections end with it.
    command = [sys.executable, "-m", "grus.cli.main", "selftest", *words, "--to", str(page)]
    done = subprocess.run(
        command, env=RealGrus(tmp_path).env, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    text = page.read_text()
    assert "| examples | passed |" in text
    assert "Rehearsed on virtual GPUs" in text
