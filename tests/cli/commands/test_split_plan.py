"""`grus split`: a table, JSON, files that hold, and mistakes told before anything runs."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

from grus.api.inputs.job_spec import to_spec
from grus.api.inputs.yaml_job_file import parse_job_file
from grus.cli.main import app
from grus.estimation import estimate_subprocess
from grus.estimation.gpus import find
from grus.model.jobs import Launch
from grus.model.resources import Range
from grus.partition import parse_devices
from grus.partition.execution.placement_plan import Infeasible, Pipeline, Plan, Rhythm, Schedule
from grus.partition.graph import Op, OpGraph
from grus.partition.pipelining.pipeline_search import place_stages
from grus.partition.placement_plan_file import Split, read, written
from grus.partition.portfolio_planner import place
from grus.partition.split_child import SplitResult


def virtual(tensors: int) -> str:
    """A virtual GPU with room for so many MB of tensors."""
    return f"virtual-{-(-parse_devices.at_most(tensors * 10**6, find('virtual-1GB')) // 10**6)}MB"


TWO = f"2x{virtual(80)}"


def a_graph() -> OpGraph:
    ahead = [Op(f"layer-{n}", 0.01, permanent=30_000_000, output=100_000, group=f"g{n}") for n in range(4)]
    back = [Op(f"layer-{n}.back", 0.02, output=100_000, group=f"g{n}", backward=True) for n in (3, 2, 1, 0)]
    return OpGraph((*ahead, *back), tuple((n, n + 1) for n in range(7)))


def an_answer(stages: bool = True, gpus: str = TWO) -> SplitResult:
    graph, topology = a_graph(), parse_devices.topology(parse_devices.gpus(gpus))
    schedule = Schedule(Rhythm.ONE_F_ONE_B, 4)
    plan = place_stages(graph, topology, schedule) if stages else place(graph, topology)
    assert isinstance(plan, Plan | Pipeline)
    places = {op.name: place for op, place in zip(graph.ops, plan.device_of, strict=True) if not op.backward}
    made = Split(target="train.py:make", batch=8, graph=graph, topology=topology, plan=plan, places=places)
    return SplitResult(8, 4, 0.48, 440_000_000, written(made), data=True)


class Asked:
    """Stands for the child: remembers what it was asked, and answers."""

    def __init__(self) -> None:
        self.answer = an_answer()
        self.arguments: dict[str, Any] = {}

    def run(self, function: str, arguments: dict[str, Any], **more: Any) -> Any:
        assert function == "grus.partition.split_child:split"
        self.arguments = arguments
        more["tell"]("placing 8 operators")
        return asdict(self.answer)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Asked:
    made = Asked()
    monkeypatch.setattr(estimate_subprocess, "run", made.run)
    monkeypatch.chdir(tmp_path)
    return made


def grus(*words: str) -> Result:
    return CliRunner().invoke(app, ["split", *words], prog_name="grus")


def test_the_plan_is_a_table_with_a_sentence(asked: Asked) -> None:
    found = grus("train.py:make", "--gpus", TWO)
    assert found.exit_code == 0, found.stderr
    heading, *rows = found.stdout.split("\n\n")[1].splitlines()
    assert heading.split()[:4] == ["GPU", "STAGE", "OPERATORS", "TENSORS"]
    assert [row.split()[2:4] for row in rows] == [["1", "2"], ["2", "2"]]
    assert "a pipeline of 4 micro-batches (1f1b)" in found.stdout
    assert "the first GPU alone would take 480 ms and need 440MB" in found.stdout
    assert "placing 8 operators" in found.stderr


def test_json_has_the_whole_plan(asked: Asked) -> None:
    found = json.loads(grus("train.py:make", "--gpus", TWO, "-o", "json").stdout)
    assert found["stages"] == [0, 1]
    assert found["places"] == {"layer-0": 0, "layer-1": 0, "layer-2": 1, "layer-3": 1}
    assert (found["schedule"], found["micro_batches"]) == ("1f1b", 4)
    assert found["bound"] <= found["seconds"]
    assert all(one["peak"] <= one["memory"] for one in found["devices"])


def test_what_was_asked_reaches_the_child(asked: Asked) -> None:
    grus("train.py:make", "--gpus", TWO, "--batch", "16", "--micro", "2", "--link", "1GB")
    assert asked.arguments == {
        "target": "train.py:make",
        "gpus": TWO,
        "batch": 16,
        "micro": 2,
        "bandwidth": 1e9,
    }


def test_files_are_written_and_hold(asked: Asked, tmp_path: Path) -> None:
    found = grus("train.py:make", "--gpus", TWO, "--svg", "plan.svg", "--plan", "plan.json")
    assert found.exit_code == 0, found.stderr
    assert read((tmp_path / "plan.json").read_text()).target == "train.py:make"
    assert ElementTree.parse(tmp_path / "plan.svg").getroot().tag.endswith("svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.json", "plan.svg"]


def test_a_job_file_runs_the_plan_that_lies_beside_it(asked: Asked, tmp_path: Path) -> None:
    found = grus("train.py:make", "--gpus", TWO, "--job", "split.yaml")
    assert found.exit_code == 0, found.stderr
    (job,) = parse_job_file((tmp_path / "split.yaml").read_bytes(), folder=str(tmp_path))
    assert job.train is not None
    assert (job.train.make, job.train.batch, job.train.plan) == ("train.py:make", 8, "split.plan.json")
    assert (to_spec(job).launch, to_spec(job).request.roles[0].replicas) == (Launch.PER_GPU, Range(2, 2))
    assert isinstance(read((tmp_path / "split.plan.json").read_text()).plan, Pipeline)


def test_a_plan_without_stages_runs_in_one_process_that_sees_all_gpus(asked: Asked, tmp_path: Path) -> None:
    asked.answer = an_answer(stages=False)
    found = grus("train.py:make", "--gpus", TWO, "--job", "split.yaml")
    assert found.exit_code == 0, found.stderr
    (job,) = parse_job_file((tmp_path / "split.yaml").read_bytes(), folder=str(tmp_path))
    spec = to_spec(job)
    assert (spec.launch, spec.request.one_node) == (Launch.ONCE, True)
    assert spec.request.roles[0].replicas == Range(2, 2)
    assert isinstance(read((tmp_path / "split.plan.json").read_text()).plan, Plan)


def test_a_job_file_elsewhere_names_the_folder_of_the_code(asked: Asked, tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    asked.answer = an_answer(gpus="2xRTX3060")
    assert grus("train.py:make", "--gpus", "2xRTX3060", "--job", "jobs/split.yaml").exit_code == 0
    (job,) = parse_job_file((tmp_path / "jobs/split.yaml").read_bytes(), folder=str(tmp_path / "jobs"))
    assert job.train is not None
    assert (job.workdir, job.train.plan) == (str(tmp_path), "jobs/split.plan.json")
    assert job.resources.gpu == "RTX3060:2"


def test_what_could_not_run_as_a_job_gets_no_file(asked: Asked, tmp_path: Path) -> None:
    asked.answer = replace(an_answer(stages=False, gpus="virtual-900MB"), data=False)
    found = grus("train.py:make", "--gpus", "virtual-900MB", "--job", "split.yaml")
    assert found.exit_code == 2
    assert "for a split over several GPUs, and this is none" in found.stderr
    assert "with the key data" in found.stderr
    assert not list(tmp_path.iterdir())


def test_a_plan_without_stages_is_shown_too(asked: Asked) -> None:
    asked.answer = an_answer(stages=False)
    found = grus("train.py:make", "--gpus", TWO)
    assert "operators where they fit, one batch at a time" in found.stdout


def test_it_says_when_one_gpu_is_enough(asked: Asked) -> None:
    asked.answer = an_answer(stages=False, gpus="virtual-900MB")
    assert "all on one GPU: no split is needed" in grus("train.py:make", "--gpus", "virtual-900MB").stdout


def test_what_fits_nowhere_ends_with_what_would_do(asked: Asked) -> None:
    asked.answer = SplitResult(8, 4, 0.48, 10**9, infeasible=Infeasible("layer-2", 250_000_000, True))
    found = grus("train.py:make", "--gpus", TWO, "--svg", "plan.svg")
    assert found.exit_code == 3
    assert "No split fits: there is no room for operator layer-2" in found.stderr
    assert "at least 0.25 GB" in found.stderr
    assert "smaller --batch" in found.stderr
    assert not Path("plan.svg").exists()


def test_every_mistake_is_told_before_anything_runs(asked: Asked) -> None:
    words = ("--gpus", "RTX3061", "--link", "fast", "--limit", "soon", "--svg", "nowhere/plan.svg")
    found = grus("train.py:make", *words)
    assert found.exit_code == 2
    assert "4 mistakes" in found.stderr
    assert "did you mean RTX3060?" in found.stderr
    assert asked.arguments == {}
