"""`grus compare` with a real workload on this machine, and its figures recomputed from the raw records."""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from grus.cli.main import app
from grus.compare.backends.local_runner import visible

TRAIN = """
import json, os, time
def say(stage, **figures):
    line = {"at": time.time(), "stage": stage, "precision": "fp32", "figures": figures}
    with open(os.environ["GRUS_REPORT"], "a") as file:
        file.write(json.dumps(line) + "\\n")
say("load")
table = [i * i for i in range(200_000)]
for step in range(11):
    say("train", step=step, batch=16)
    sum(table)
say("save")
"""


def called(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["compare", *words])
    assert done.exit_code == code, done.output
    return done.stdout


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    (folder / "train.py").write_text(TRAIN)
    (folder / "job.yaml").write_text(f"name: toy\nrun: {sys.executable} train.py\nresources: {{gpu: 0}}\n")
    called(
        *("run", str(folder / "job.yaml"), "--env", "local", "--env", "local"),
        *("--repeats", "3", "--period", "0.2", "--out", str(folder / "out")),
    )
    return folder / "out"


def raw(out: Path, label: str) -> list[list[dict[str, Any]]]:
    """The lines of every run's record, as they are."""
    texts = [(out / "runs" / f"{label}-{n}" / "record.jsonl").read_text() for n in (1, 2, 3)]
    return [[json.loads(line) for line in text.splitlines()] for text in texts]


def test_show_is_equal_to_a_straightforward_recomputation(compared: Path) -> None:
    made = json.loads(called("show", str(compared), "-o", "json"))
    for side in made["environments"]:
        speeds, processor = [], []
        for lines in raw(compared, side["label"]):
            steps = [
                (one["t"], one["figures"]["step"])
                for one in lines
                if one["kind"] == "report" and one["figures"]
            ]
            (first, low), (last, high) = steps[0], next(one for one in steps if one[1] == 10)
            speeds.append(16 * (high - low) / (last - first))
            processor.append(next(one["cpu_seconds"] for one in lines if one["kind"] == "end"))
        for name, values in (("samples/s", speeds), ("CPU time", processor)):
            summary = side["figures"][name]["summary"]
            assert summary["mean"] == pytest.approx(statistics.mean(values)), name
            assert summary["median"] == pytest.approx(statistics.median(values)), name
            assert summary["count"] == 3


def test_the_same_environment_twice_has_no_grave_confound(compared: Path) -> None:
    made = json.loads(called("show", str(compared), "-o", "json"))
    assert [one["what"] for one in made["confounds"] if one["grave"]] == []
    assert made["whole"]
    assert set(made["environments"][0]["stages"]) == {"run", "load", "train", "save"}


def test_the_table_and_the_page_show_it_too(compared: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    text = called("show", str(compared), "--html", str(page))
    for words in ("samples/s", "local_2", "Preflight", "Nodes"):
        assert words in text
        assert words in page.read_text()


def test_a_folder_that_holds_neither_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["compare", "show", str(tmp_path)])
    assert done.exit_code == 2
    assert "grus compare run" in done.stderr


def test_a_command_that_fails_leaves_a_partial_report_and_exit_code_one(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("name: bad\nrun: echo no data; exit 4\nresources: {gpu: 0}\n")
    text = called(
        *("run", str(tmp_path / "job.yaml"), "--env", "local", "--env", "local"),
        *("--repeats", "1", "--out", str(tmp_path / "out")),
        code=1,
    )
    assert "local was blocked at run, before its first run" in text
    assert "the workload ended with 4 (no data)" in text


def test_the_folder_holds_what_was_measured_and_nothing_of_the_runs_own(compared: Path) -> None:
    assert sorted(one.name for one in compared.iterdir()) == [
        "bundle",
        "comparison.json",
        "environments",
        "runs",
    ]
    for run in (compared / "runs").iterdir():
        assert sorted(one.name for one in run.iterdir()) == ["output.txt", "record.jsonl", "run.json"]


def test_a_run_sees_as_many_gpus_as_it_asked_for() -> None:
    assert visible(None, 2) == "0,1"
    assert visible("3,1,0", 2) == "3,1"
    assert visible(None, 0) == ""
    assert visible("", 1) == ""
