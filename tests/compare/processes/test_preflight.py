"""The probe of an environment, run as a program."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

from grus.compare import preflight
from grus.compare.environments import PreflightStatus
from tests.contracts.driver_contract import a_workload


def test_this_machine_is_seen_from_inside(tmp_path: Path) -> None:
    workload = a_workload(tmp_path, data=["./program.py", "./missing"])
    checks = {check.name: check for check in preflight.look_here(workload, tmp_path)}
    assert checks["volume writable"].found == str(tmp_path)
    assert checks["interpreter"].verdict is PreflightStatus.OK
    assert "missing" in checks["data readable"].found
    assert "program.py" not in checks["data readable"].found
    assert checks["image"].verdict is PreflightStatus.NOT_APPLICABLE


def test_the_probe_runs_without_the_project_and_finds_gpus_by_nvidia_smi(tmp_path: Path) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        "#!/bin/sh\ncase $1 in\n*compute-apps*) echo 4711;;\n"
        "*) echo 'GPU-1, Tesla T4, 15360, 550.1, Default';;\nesac\n"
    )
    smi.chmod(smi.stat().st_mode | stat.S_IXUSR)
    order = tmp_path / "order.json"
    order.write_text(json.dumps({"gpus": 1, "folder": str(tmp_path), "megabytes": 1, "seconds": 0}))
    program = tmp_path / "elsewhere.py"
    program.write_text(preflight.source())
    surroundings = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GRUS_GPUS": "0"}
    done = subprocess.run(
        [sys.executable, "-I", program, order], env=surroundings, capture_output=True, text=True, check=True
    )
    gpus = (preflight.found_in(done.stdout) or {})["gpus"]
    assert [one["name"] for one in gpus["listed"]] == ["Tesla T4"]
    assert (gpus["others"], gpus["promised"]) == (1, "0")
