"""Environments of users: sessions and stages run in one without Grus, reports with the SDK alone."""

import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.real import RealGrus
from tests.house.environments import build_wheels, make_environment, packages_of
from tests.live.pool import PATIENCE
from tests.server.process import eventually

ALONE = "import importlib.util as u, sys; print('alone', sys.prefix, u.find_spec('grus') is None)"
PLAIN = ("-e", "SHELL=/bin/sh")
"""A shell that reads no file of this user, which might change PATH."""
STAGES = """
stages:
  make:
    run: [python3, make.py]
    outputs: {numbers: numbers.txt}
    resources: {gpu: 0}
  use:
    run: [python3, use.py]
    inputs: {numbers: make.numbers}
    resources: {gpu: 0}
"""


@pytest.fixture
def grus(tmp_path: Path) -> Iterator[RealGrus]:
    command = RealGrus(tmp_path / "home")
    command.up("--virtual", "1x2x16GB", "--port", "0")
    try:
        yield command
    finally:
        command.down()


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """The folder of an environment without Grus."""
    make_environment(tmp_path / "bare")
    return tmp_path / "bare"


def inside(grus: RealGrus, environment: Path, *words: str, input: str = "") -> str:
    """The command as somebody types it who has activated the environment; what it prints."""
    path = f"{environment / 'bin'}:/usr/bin:/bin"
    env = {**grus.env, "VIRTUAL_ENV": str(environment), "PATH": path}
    done = subprocess.run(
        [sys.executable, "-m", "grus.cli.main", *words],
        env=env,
        cwd=grus.work,
        input=input,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr + logs(grus)
    return done.stdout


def logs(grus: RealGrus) -> str:
    return "".join(grus("logs", job["id"], code=None).output for job in grus.json("ps", "-a"))


def test_a_shell_opens_in_an_environment_without_grus(grus: RealGrus, bare: Path) -> None:
    said = inside(grus, bare, "dev", "--shell", *PLAIN, input=f'python3 -c "{ALONE}"\nexit\n')
    assert f"alone {bare} True" in said
    (job,) = grus.json("ps", "-a")
    assert job["run"] == "grus dev: shell"
    eventually(lambda: grus.json("ps", "-a")[0]["phase"] == "succeeded", "the session ends with its shell")


def test_a_shell_opens_where_there_is_no_python_at_all(grus: RealGrus, tmp_path: Path) -> None:
    (tmp_path / "none" / "bin").mkdir(parents=True)
    env = f"PATH={tmp_path / 'none' / 'bin'}"
    said = inside(
        grus, tmp_path / "none", "dev", "--shell", *PLAIN, "-e", env, input="echo works-$((6*7))\nexit\n"
    )
    assert "works-42" in said


def test_jupyterlab_of_an_environment_without_grus_is_a_session(grus: RealGrus, bare: Path) -> None:
    # Packages of this environment without Grus itself, whose path only its own .pth files add.
    (packages_of(bare) / "jupyter.pth").write_text(sysconfig.get_path("purelib"))
    session = json.loads(inside(grus, bare, "dev", "--no-open", "-o", "json"))
    assert session["address"].startswith("http://")
    (worker,) = [job for job in grus.json("ps") if job["id"] == session["job"]]
    assert worker["phase"] == "running"
    grus("stop", session["job"])


def test_jupyterlab_that_is_not_there_is_missed_in_words(grus: RealGrus, bare: Path) -> None:
    with pytest.raises(AssertionError, match=f"JupyterLab is not installed for {bare}/bin/python3"):
        inside(grus, bare, "dev", "--no-open", "-o", "json")


def test_stages_run_in_an_environment_without_grus(grus: RealGrus, bare: Path) -> None:
    (grus.work / "make.py").write_text(f"{ALONE}\nopen('numbers.txt', 'w').write('1 2 3')\n")
    (grus.work / "use.py").write_text(
        f"{ALONE}\nimport os\nprint('read', open(os.environ['GRUS_INPUT_NUMBERS']).read())\n"
    )
    (grus.work / "stages.yaml").write_text(STAGES)
    ids: dict[str, Any] = {
        job["name"]: job["id"]
        for job in json.loads(inside(grus, bare, "submit", "stages.yaml", "-o", "json"))
    }
    grus("attach", ids["use"], "--quiet")
    assert f"alone {bare} True" in grus("logs", ids["make"]).output
    assert "read 1 2 3" in grus("logs", ids["use"]).output


def test_a_script_reports_where_only_the_sdk_is_installed(grus: RealGrus, tmp_path: Path) -> None:
    wheels = build_wheels(tmp_path)
    make_environment(tmp_path / "sdk", wheels["grus-gpu-sdk"])
    script = "import grus; grus.report(step=7, **grus.params()); print(grus.__file__)"
    inside(grus, tmp_path / "sdk", "run", "--gpu", "0.5", "--", "python3", "-c", script)
    (job,) = grus.json("ps", "-a")
    assert job["progress"] == {"step": 7.0}
    assert str(tmp_path / "sdk") in grus("logs", job["id"]).output
