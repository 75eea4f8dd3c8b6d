"""Copies of code, made with git, and their retention."""

import shutil
import subprocess
from pathlib import Path

import pytest

from grus.controlplane.admission import code_snapshot
from grus.controlplane.history.retention import prune
from grus.model.errors import NotFound
from grus.model.jobs import Phase
from tests.controlplane.plane import ANN, Plane, a_spec


def test_retention_removes_old_jobs_with_their_logs_and_code(tmp_path: Path) -> None:
    plane = Plane(state=tmp_path / "state")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("x")
    spec = a_spec(workdir=str(tmp_path / "code"), snapshot=True)
    job = plane.services.actions.submit(ANN, spec).result()
    plane.settle()
    plane.engine.finish(job.id)
    plane.settle()
    plane.after(plane.settings.job_retention)
    kept = plane.submit("kept", gpus=1)
    plane.engine.finish(kept)
    plane.settle()
    plane.engine.advance(10)
    assert prune(plane.store, plane.engine, plane.settings, plane.now) > 0
    with pytest.raises(NotFound):
        plane.store.job(job.id)
    assert not Path(job.spec.workdir).exists()
    assert not [worker for worker in plane.engine.workers_alive.logs if worker.startswith(job.id)]
    assert plane.phase(kept) is Phase.SUCCEEDED
    plane.close()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_code_copies_leave_out_what_git_ignores(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("*.bin\n")
    (tmp_path / "big.bin").write_bytes(b"x" * 10_000)
    (tmp_path / "train.py").write_text("x")
    (tmp_path / "train.py").chmod(0o755)
    digest, names = code_snapshot.fingerprint(tmp_path, limit=1000)
    assert names == [".gitignore", "train.py"]
    code_snapshot.copy(tmp_path, names, tmp_path / "out" / "copy")
    assert (tmp_path / "out" / "copy" / "train.py").stat().st_mode & 0o111
    (tmp_path / "train.py").write_text("y")
    assert code_snapshot.fingerprint(tmp_path, limit=1000)[0] != digest
