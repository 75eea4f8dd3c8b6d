"""`grus dev` against a real server: a shell to its end, a notebook as a training, clear refusals."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import grus as package
from tests.cli.real import RealGrus

PYTHONPATH = f"PYTHONPATH={Path(package.__file__).parents[2]}"
NOTEBOOK = {"cells": [{"cell_type": "code", "source": "x = 1"}], "metadata": {}, "nbformat": 4}


@pytest.fixture(scope="module")
def grus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealGrus]:
    made = RealGrus(tmp_path_factory.mktemp("home"))
    made.up("--virtual", "1x1x16GB", "--port", "0")
    yield made
    made.down()


def test_a_shell_runs_in_a_job_and_ends_with_it(grus: RealGrus) -> None:
    command = [sys.executable, "-m", "grus.cli.main", "dev", "--shell", "--name", "sh", "-e", PYTHONPATH]
    keys = "echo in-$GRUS_JOB-$((6*7)); exit\n"
    done = subprocess.run(
        command,
        input=keys,
        env=grus.env,
        cwd=grus.work,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    (job,) = [one for one in grus.json("ps", "-a") if one["name"] == "sh"]
    assert f"in-{job['id']}-42" in done.stdout
    assert (job["type"], job["request"]) == ("dev", "0.25")
    grus("stop", job["id"], "--wait", code=None)
    (job,) = [one for one in grus.json("ps", "-a") if one["name"] == "sh"]
    assert job["phase"] == "succeeded"


def test_a_notebook_becomes_a_job_that_can_be_planned_and_nothing_is_overwritten(grus: RealGrus) -> None:
    (grus.work / "study.ipynb").write_text(json.dumps(NOTEBOOK))
    made = grus.json("dev", "--to-train", "study.ipynb", "--gpu", "1")
    assert made == {"files": ["train_study.py", "train_study.yaml"], "left_out": []}
    assert grus.json("submit", "train_study.yaml", "--plan")["fits"]
    again = grus("dev", "--to-train", "study.ipynb", code=2)
    assert "is there already" in again.stderr


def test_a_job_that_is_no_session_is_not_opened(grus: RealGrus) -> None:
    grus("run", "--detach", "--gpu", "0", "--name", "plain", "--", "true")
    told = grus("dev", "plain", code=1)
    assert "is no development session" in told.stderr


def test_a_session_that_cannot_start_says_why(grus: RealGrus) -> None:
    folder = grus.work / "bare"
    folder.mkdir(exist_ok=True)
    (folder / "python3").write_text("#!/bin/sh\necho JupyterLab is not installed; exit 1\n")
    (folder / "python3").chmod(0o755)
    told = grus("dev", "--no-open", "-e", f"PATH={folder}:{os.defpath}", code=1)
    assert "grus logs" in told.stderr


def test_on_kubernetes_sessions_are_refused(grus: RealGrus) -> None:
    told = grus("--kubernetes", "dev", code=2, GRUS_KUBERNETES="1")
    assert "not for a pool on Kubernetes" in told.stderr
