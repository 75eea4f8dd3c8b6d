"""Determinism: same input, same bytes, whatever the process, its hash seed, and the number of cores."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grus.cli.whatif import parallel_runs
from grus.simulator.cluster_spec import parse_nodes, quotas_by_use
from grus.simulator.whatif_scenarios import PRESENT, Scenario, ScenarioChange, compare
from grus.simulator.workload.synthetic import Mix, synthesize

MIX = "days=2,jobs=40,elastic=0.6"
WORDS = (
    *("--synthetic", MIX, "--nodes", "2x4xA100+1x4xV100", "--seed", "7", "--seeds", "2"),
    *("--load", "1.3", "--add-nodes", "1x4xA100", "--faults", "2d", "--html", "out.html", "-o", "json"),
)


def run(folder: Path, hash_seed: str) -> tuple[bytes, bytes]:
    """What is printed, and the page."""
    folder.mkdir()
    command = [sys.executable, "-m", "grus.cli.main", "simulate", *WORDS]
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout, (folder / "out.html").read_bytes()


def test_two_processes_with_different_hash_seeds_print_and_write_the_same_bytes(tmp_path: Path) -> None:
    first, second = run(tmp_path / "one", "1"), run(tmp_path / "two", "4242")
    assert first[0] == second[0]
    assert first[1] == second[1]
    assert b'"quota_violations"' in first[0]
    assert first[1].count(b'class="figure"') >= 5


def test_the_number_of_cores_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    works = synthesize(Mix.parse("days=1,jobs=30,largest=4"), 3)
    nodes = parse_nodes("2x4xA100")
    scene = Scenario(PRESENT, nodes, tuple(quotas_by_use(works, nodes, least=1)), tuple(works))

    def compared(cores: int) -> str:
        return repr(
            compare(
                scene,
                ScenarioChange(load=1.5),
                draw=True,
                runner=lambda all_: parallel_runs.run_all(all_, cores),
            )
        )

    alone = compared(1)
    monkeypatch.setattr(parallel_runs, "SMALL", 0)
    assert compared(2) == alone
