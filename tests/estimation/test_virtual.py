"""Estimates for virtual GPUs, held against processes that really train."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def said(*words: str) -> Any:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "tests.estimation.real_run", *words],
        capture_output=True,
        check=True,
        cwd=ROOT,
        # The scratch memory of convolutions depends on how many threads find a core.
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )
    return json.loads(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="the most memory of a process is read from /proc")
@pytest.mark.parametrize("name", ["decoder", "convolutions", "deep"])
def test_a_process_stays_within_the_upper_bound_of_its_virtual_gpu(name: str) -> None:
    estimate, upper = said("traced", name)
    taken = said("real", name)
    assert 0.75 * estimate <= taken <= upper
