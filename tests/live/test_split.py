"""A model too big for any GPU of the pool: a real server, virtual GPUs of 1.5 GB, real processes."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live import large_training
from tests.live.pool import LivePool

PATIENCE = 300.0
JOB = """
name: large
train:
  model: large_training.py:model
  data: large_training.py:data
  loss: cross_entropy
  optimizer: adam
  batch: 16
  epochs: 1
resources: {gpu: auto}
env: {OMP_NUM_THREADS: "1"}
checkpoint: {path: out, grace: 60s}
"""


def test_a_model_too_big_for_any_gpu_trains_split_over_two(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs torch: a real training is split")
    shutil.copy(large_training.__file__, tmp_path)
    (tmp_path / "large.yaml").write_text(JOB)
    with LivePool(tmp_path, "1x2x1700MB") as pool:
        command = [sys.executable, "-m", "grus.cli.main", "submit", "large.yaml"]
        done = subprocess.run(
            command, env=pool.env, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (job,) = pool.jobs().values()
        handle = pool.grus.handle(job.id)
        ended = handle.wait(PATIENCE)
        log = "".join(handle.logs())
        assert (ended.phase, ended.attempt) == ("succeeded", 1), (ended, done.stderr, log)
        assert (ended.asked, ended.request) == ("auto", "2")
        assert "the model is split into 2 stages" in log
        assert ended.progress["step"] == ended.progress["total"] == 2
        folder = tmp_path / "out" / job.id
    trained = torch.load(folder / "model.pt", weights_only=True)
    assert trained.keys() == large_training.model().state_dict().keys()
