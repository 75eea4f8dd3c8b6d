"""On a full disk workers go on, and what became of them is known when there is room again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trust import preloading
from tests.trust.chaos_faults import Faults

pytestmark = pytest.mark.skipif(preloading.compiler() is None, reason=preloading.CANNOT)

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, signal, sys, threading, time
from pathlib import Path
sys.executable = sys.argv[2]
from grus.engines.local.engine import LocalEngine
from grus.model.identifiers import JobId, NodeId, WorkerId
from grus.model.interfaces import WorkerSpec, WorkerState
from grus.telemetry.virtual_gpus import VirtualSource
engine = LocalEngine(Path(sys.argv[1]), VirtualSource("1x4x1GB"))
engine.open(1)
def known(worker):
    return next(one for one in engine.workers() if one.id == worker)
def until(state, worker):
    deadline = time.monotonic() + 300
    while known(worker).state is not state:
        assert time.monotonic() < deadline, known(worker)
        time.sleep(0.02)
run = 'while [ ! -e ' + sys.argv[3] + ' ]; do sleep 0.05; done; exit 7'
for number in (0, 1):
    worker = WorkerSpec(id=WorkerId(f"j1.1.{number}"), job=JobId("j1"), attempt=1, node=NodeId("node-0"),
        argv=("/bin/sh", "-c", run), env=(("PATH", os.environ["PATH"]),), workdir="/")
    engine.start(worker)
    until(WorkerState.RUNNING, worker.id)
print("running", flush=True)
sys.stdin.readline()
supervisor = next(one.supervisor for one in engine._running.records.values() if one.id == "j1.1.1")
os.kill(supervisor, signal.SIGKILL)
print("killed", flush=True)
for number in (0, 1):
    until(WorkerState.ENDED, f"j1.1.{number}")
    print(known(f"j1.1.{number}").exit, flush=True)
engine.close()
"""


def test_ends_of_workers_on_a_full_disk_are_told_when_there_is_room(tmp_path: Path) -> None:
    state, gate, python = tmp_path.resolve() / "state", tmp_path / "gate", tmp_path / "python"
    faults = Faults(state, tmp_path / "faults")
    layer = " ".join(f"{key}={value}" for key, value in faults.env.items())
    python.write_text(f'#!/bin/sh\n{layer} exec {sys.executable} "$@"\n')
    python.chmod(0o700)
    env = {**os.environ, **faults.env, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", PROGRAM, str(state), str(python), str(gate)]
    with subprocess.Popen(command, env=env, text=True, stdin=-1, stdout=-1) as engine:
        assert engine.stdin is not None
        assert engine.stdout is not None
        assert engine.stdout.readline() == "running\n"
        faults.set(full=1)
        gate.touch()
        engine.stdin.write("\n")
        engine.stdin.flush()
        assert engine.stdout.readline() == "killed\n"
        with pytest.raises(subprocess.TimeoutExpired):
            engine.wait(1.5)  # nothing can be written down yet
        faults.clear()
        first, second = engine.stdout.readlines()
    faults.close()
    assert "code=7" in first
    assert "LOST" in second
    assert engine.returncode == 0
