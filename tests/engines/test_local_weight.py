"""The launcher and the supervisors stay light, and speak the model's words without importing it."""

import subprocess
import sys
from pathlib import Path

import grus
from grus.model.jobs import ExitCause

LOCAL = Path(grus.__file__).parent / "engines" / "local"
HEAVY = (
    "asyncio",
    "dataclasses",
    "grus.model",
    "grus.telemetry",
    "inspect",
    "pathlib",
    "subprocess",
    "threading",
)


def test_the_launcher_imports_nothing_heavy() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(LOCAL.parents[2])!r});"
        "import grus.engines.local.forkserver; print(*sorted(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], check=True, capture_output=True, text=True, timeout=300
    )
    loaded = run.stdout.split()
    assert "grus.engines.local.supervisor" in loaded
    assert [name for name in loaded if name.startswith(HEAVY)] == []


def test_the_causes_that_a_supervisor_writes_are_the_models() -> None:
    source = (LOCAL / "supervisor.py").read_text()
    written = {cause for cause in ExitCause.__members__ if f'"{cause}"' in source}
    assert {"DONE", "CODE", "SIGNAL", "MEMORY", "GPU_MEMORY", "START", "STOPPED"} <= written
