"""What is kept of jobs, as people and programs see it: against a real server, and in words."""

import json
from collections.abc import Iterator

import pytest

from tests.cli.real import RealGrus
from tests.server.process import eventually

TRAIN = """
import grus

lr = grus.params()["lr"]
for step in range(3):
    grus.report(step=step, loss=lr / (step + 1), steady=1 + lr / 10_000)
"""
JOB = """
name: fit
run: python fit.py
resources: {{gpu: 0}}
params: {{lr: {lr}, act: relu}}
env: {{SECRET: hunter{lr}}}
data: [./numbers.csv]
"""


@pytest.fixture(scope="module")
def grus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealGrus]:
    """A server on which `fit` ran twice with other parameters, code and data."""
    made = RealGrus(tmp_path_factory.mktemp("runs"))
    made.configure("[server]\nport = 0\n")
    made.up("--virtual", "1x2x16GB")
    try:
        for lr in (0.5, 0.25):
            (made.work / "fit.py").write_text(f"# by {lr}\n{TRAIN}")
            (made.work / "numbers.csv").write_text("1," * int(1 / lr))
            (made.work / "fit.yaml").write_text(JOB.format(lr=lr))
            made("submit", "fit.yaml", "--watch")
        eventually(lambda: len(profiles(made)) == 2, "both runs to be written")
        yield made
    finally:
        made.down()


def profiles(grus: RealGrus) -> list[object]:
    return [run["profile"] for run in grus.json("runs", "--name", "fit") if run["profile"]]


def test_runs_are_listed_the_last_first_with_parameters_and_metrics(grus: RealGrus) -> None:
    headings, second, first = grus("runs").stdout.splitlines()
    assert headings.split()[:3] == ["RUN", "NAME", "USER"]
    assert "lr=0.25 act=relu" in second
    assert "loss=0.0833333" in second
    assert "lr=0.5 act=relu" in first
    assert "step=" not in first


def test_a_run_shows_all_that_is_kept_and_no_secret(grus: RealGrus) -> None:
    shown = grus("runs", "show", "fit").stdout
    for words in ("python fit.py", "SECRET", "PARAMETER", "0.25", "relu", "loss", "succeeded", "fingerprint"):
        assert words in shown
    assert "hunter" not in shown + grus("runs", "show", "fit", "-o", "json").stdout


def test_a_run_is_meant_by_its_id_the_beginning_of_one_or_a_name(grus: RealGrus) -> None:
    second, first = (run["job"] for run in grus.json("runs"))
    assert grus.json("runs", "show", first)["params"]["lr"] == 0.5
    assert grus.json("runs", "show", first[:8])["job"] == first
    assert grus.json("runs", "show", "fit")["job"] == second
    assert "could mean any of 2" in grus("runs", "show", "j", code=2).stderr
    assert "`grus runs` lists" in grus("runs", "show", "nobody", code=4).stderr


def test_two_runs_differ_in_parameters_metrics_code_and_data(grus: RealGrus) -> None:
    second, first = (run["job"] for run in grus.json("runs"))
    told = grus.json("runs", "diff", first, second)
    found = {(one["part"], one["name"]): (one["first"], one["second"]) for one in told["differences"]}
    assert found["parameters", "lr"] == (0.5, 0.25)
    assert found["metrics", "loss"] == (pytest.approx(0.5 / 3), pytest.approx(0.25 / 3))
    assert found["code", "env SECRET"] == ("set", "set to another value")
    for part in ("code", "data"):
        one, other = found[part, part]
        assert one != other
    assert ("parameters", "act") not in found
    assert ("code", "command") not in found


def test_what_is_the_same_is_shown_when_asked_for(grus: RealGrus) -> None:
    second, first = (run["job"] for run in grus.json("runs"))
    lines = grus("runs", "diff", first, second, "--all").stdout.splitlines()
    by_name = {tuple(line.split()[:2]): line.split() for line in lines}
    assert by_name["parameters", "act"][2:] == ["relu", "relu", "="]
    assert by_name["metrics", "loss"][-1] == "-50.0%"
    assert "do not differ" in grus("runs", "diff", first, first).stdout


def test_figures_that_differ_by_a_rounding_are_left_out_unless_asked_for(grus: RealGrus) -> None:
    second, first = (run["job"] for run in grus.json("runs"))
    shown = grus("runs", "diff", first, second).stdout
    assert "steady" not in shown
    assert "0.0%" not in shown.replace("50.0%", "")
    lines = [line.split() for line in grus("runs", "diff", first, second, "--all").stdout.splitlines()]
    assert next(line for line in lines if line[1] == "steady")[-1] == "≈"
    told = grus.json("runs", "diff", first, second)["differences"]
    assert "steady" in [one["name"] for one in told], "programs are told everything that differs"


def test_a_job_that_goes_on_is_refused_with_a_sentence(grus: RealGrus) -> None:
    said = grus("run", "--gpu", "1", "--name", "long", "--detach", "-o", "json", "--", "sleep", "600").stdout
    job = json.loads(said)["id"]
    assert "runs are those that have ended" in grus("runs", "show", job, code=None).stderr
    grus("stop", job)


def test_runs_outlast_the_server(grus: RealGrus) -> None:
    before = {run["job"]: run for run in grus.json("runs", "--name", "fit")}
    grus("down", "--jobs", code=None)
    grus.up("--virtual", "1x2x16GB")
    assert {run["job"]: run for run in grus.json("runs", "--name", "fit")} == before
