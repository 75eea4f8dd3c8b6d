"""`grus compare run` as a person types it, for the environments that tests start themselves."""

import json
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from grus.cli.main import app

TRAINING = """
import json, os, time
with open(os.environ["GRUS_REPORT"], "a", buffering=1) as report:
    for step in range(1, 6):
        end = time.monotonic() + 0.05
        while time.monotonic() < end:
            sum(range(1000))
        figures = {"step": step, "batch": 32}
        report.write(json.dumps({"at": time.time(), "precision": "fp32", "figures": figures}) + "\\n")
print("trained")
"""


def a_job(folder: Path, **fields: object) -> Path:
    """A job file with a small training beside it."""
    folder.mkdir()
    (folder / "train.py").write_text(TRAINING)
    job = {"name": "small", "run": ["python3", "train.py"], "resources": {"gpu": 0}, **fields}
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    return folder / "job.yaml"


def compare(job: Path, *environments: str, out: Path, repeats: int = 1) -> tuple[int, dict[str, Any], str]:
    """Exit code, the report, and what was told on the way."""
    words = ["compare", "run", str(job), "--out", str(out), "--repeats", str(repeats), "--period", "0.1"]
    for environment in environments:
        words += ["--env", environment]
    done = CliRunner().invoke(app, [*words, "-o", "json"])
    assert done.stdout, done.stderr
    return done.exit_code, json.loads(done.stdout), done.stderr


def sides(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {side["label"]: side for side in report["environments"]}


def check_whole(report: dict[str, Any], labels: list[str]) -> None:
    """Every side has run, with steps and samples to compare, and from the same code."""
    assert [side["label"] for side in report["environments"]] == labels
    for side in report["environments"]:
        assert side["blocked"] is None
        assert [run["problem"] for run in side["runs"]] == [""] * len(side["runs"])
        assert side["figures"]["samples/s"]["summary"]["mean"] > 0
    grave = [one["what"] for one in report["confounds"] if one["grave"]]
    assert grave == []
