"""A comparison carried out: by turns, as far as each environment lets us, and resumed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grus.compare import result_directory, workload
from grus.compare.comparison_runner import Options, run
from grus.compare.environments import Check, Driver, DriverStep, Environment, PreflightStatus, parse
from grus.compare.workload import Workload
from grus.model.errors import BadInput, Conflict
from tests.compare.fake import FakeDriver


class Scene:
    """A job file, an empty folder, and two pretended environments."""

    def __init__(self, folder: Path) -> None:
        self.code = folder / "code"
        self.code.mkdir()
        (self.code / "train.py").write_text("print(1)\n")
        (self.code / "job.yaml").write_text("name: toy\nrun: python3 train.py\nresources: {gpu: 0}\n")
        self.out = folder / "out"
        self.log: list[str] = []
        self.told: list[str] = []
        self.drivers: dict[str, FakeDriver] = {}

    @property
    def workload(self) -> Workload:
        return workload.read(self.code / "job.yaml")

    def run(self, *, second: dict[str, Any] | None = None, **options: Any) -> result_directory.Comparison:
        def of(environment: Environment) -> Driver:
            more = second or {} if environment.label == "slurm" else {}
            self.drivers[environment.label] = FakeDriver(environment, self.log, **more)
            return self.drivers[environment.label]

        places = parse(["local", "slurm"])
        wanted = Options(**{"repeats": 2, **options})
        return run(self.workload, places, wanted, self.out, of=of, tell=self.told.append, clock=lambda: 5.0)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_environments_take_turns_and_the_first_changes(scene: Scene) -> None:
    found = scene.run(repeats=3)
    assert scene.log == ["local-1", "slurm-1", "slurm-2", "local-2", "local-3", "slurm-3"]
    assert [len(side.sound(loaded=False)) for side in found.sides] == [3, 3]
    assert [driver.cleaned for driver in scene.drivers.values()] == [1, 1]


def test_with_a_load_every_run_is_made_twice_and_told_apart(scene: Scene) -> None:
    found = scene.run(repeats=1, with_load=True)
    assert scene.log == ["local-1", "slurm-1", "local-1-load", "slurm-1-load"]
    assert [run.loaded for run in found.sides[0].runs] == [False, True]


@pytest.mark.parametrize(
    "step", [DriverStep.PREPARE, DriverStep.PREFLIGHT, DriverStep.START, DriverStep.WAIT, DriverStep.COLLECT]
)
def test_an_environment_that_fails_is_named_with_its_step_and_the_other_goes_on(
    scene: Scene, step: DriverStep
) -> None:
    found = scene.run(second={"fails_at": step})
    local, slurm = found.sides
    assert len(local.sound(loaded=False)) == 2
    assert slurm.visit.blocked == result_directory.Blocked(step=step, why=f"slurm has no {step}")
    assert slurm.runs == ()
    assert scene.drivers["slurm"].cleaned == 1


def test_a_failed_check_blocks_with_its_fix(scene: Scene) -> None:
    check = Check(
        name="GPU visible", verdict=PreflightStatus.FAILED, found="none of 1", fix="ask for --gres=gpu:1"
    )
    slurm = scene.run(second={"checks": [check]}).sides[1]
    assert slurm.visit.blocked is not None
    assert slurm.visit.blocked.step is DriverStep.PREFLIGHT
    assert "GPU visible: none of 1. ask for --gres=gpu:1" in slurm.visit.blocked.why
    assert [one.name for one in slurm.visit.checks] == ["free disk", "GPU visible"]


def test_a_workload_that_fails_blocks_its_environment_with_its_last_words(scene: Scene) -> None:
    slurm = scene.run(second={"exit_code": lambda order: 3}).sides[1]
    assert slurm.visit.blocked is not None
    assert slurm.visit.blocked.step is DriverStep.RUN
    assert slurm.visit.blocked.why == "slurm-1: the workload ended with 3 (last words)"
    assert [run.sound for run in slurm.runs] == [False], "what it left is kept to look at"


def test_asked_again_only_what_is_missing_is_run(scene: Scene) -> None:
    scene.run(second={"fails_at": DriverStep.START})
    scene.log.clear()
    found = scene.run()
    assert scene.log == ["slurm-1", "slurm-2"]
    assert [side.visit.blocked for side in found.sides] == [None, None]
    scene.log.clear()
    scene.run(repeats=3)
    assert scene.log == ["local-3", "slurm-3"], "more repeats are added to those that are there"


def test_what_is_whole_is_not_touched_again(scene: Scene) -> None:
    before = scene.run()
    scene.drivers.clear()
    assert scene.run(second={"fails_at": DriverStep.PREPARE}) == before
    assert scene.drivers == {}


def test_interrupted_it_cleans_up_and_goes_on_later_where_it_was(scene: Scene) -> None:
    with pytest.raises(KeyboardInterrupt):
        scene.run(second={"interrupted": "slurm-2"})
    assert [driver.cleaned for driver in scene.drivers.values()] == [1, 1]
    assert scene.log == ["local-1", "slurm-1", "slurm-2"]
    scene.log.clear()
    scene.run()
    assert scene.log == ["slurm-2", "local-2"]


def test_it_goes_on_only_with_the_same_work(scene: Scene) -> None:
    scene.run()
    (scene.code / "train.py").write_text("print(2)\n")
    with pytest.raises(Conflict, match="another code"):
        scene.run()


@pytest.mark.parametrize(
    "codes", [lambda order: "beef", lambda order: "c0de" if order.name.endswith("1") else "beef"]
)
def test_other_code_ends_it_unless_it_is_told_to_go_on(scene: Scene, codes: Callable[[Any], str]) -> None:
    with pytest.raises(Conflict, match="code differs"):
        scene.run(second={"code": codes})
    assert [driver.cleaned for driver in scene.drivers.values()] == [1, 1]
    found = scene.run(second={"code": codes}, anyway=True)
    assert [len(side.sound(loaded=False)) for side in found.sides] == [2, 2]


def test_the_code_travels_as_it_was_when_the_comparison_began(scene: Scene) -> None:
    scene.run()
    assert (scene.out / "bundle" / "code" / "train.py").read_text() == "print(1)\n"


def test_a_run_counts_only_when_it_is_whole(scene: Scene) -> None:
    scene.run()
    (scene.out / "runs" / "slurm-2" / "run.json").unlink()
    found = result_directory.read(scene.out)
    assert list(result_directory.missing(found)) == ["slurm-2"]


def test_results_among_the_code_are_no_code(scene: Scene) -> None:
    scene.out = scene.code / "toy-comparison"
    page = scene.code / "page.html"
    before = scene.run(html=page)
    page.write_text("<!doctype html>")
    scene.log.clear()
    assert scene.run(html=page) == before
    assert scene.log == []
    scene.out = scene.code / "another"
    scene.run(html=page)
    bundled = (scene.out / "bundle" / "code").iterdir()
    assert sorted(path.name for path in bundled) == ["job.yaml", "train.py"]


def test_a_folder_with_anything_else_in_it_is_left_alone(scene: Scene) -> None:
    (scene.out / "bundle").mkdir(parents=True)
    (scene.out / "bundle" / "thesis.txt").write_text("chapter 1")
    with pytest.raises(BadInput, match="new or an empty folder"):
        scene.run()
    assert (scene.out / "bundle" / "thesis.txt").read_text() == "chapter 1"
    assert [path.name for path in scene.out.iterdir()] == ["bundle"]


def test_a_beginning_that_failed_is_not_in_the_way_of_the_next(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(result_directory, "write_description", full)
        with pytest.raises(BadInput, match="No space left"):
            scene.run()
    scene.run()
    assert scene.log == ["local-1", "slurm-1", "slurm-2", "local-2"]
