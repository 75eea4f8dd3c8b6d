"""The example of stages as people would run it: from an empty folder to a model that answers, then again."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.real import RealGrus

EXAMPLE = Path(__file__).parents[2] / "examples" / "stages"
STAGES = ["prepare", "statistics", "train", "evaluate", "export"]
PATIENCE = 300.0
"""Seconds; the deadline is for broken code only."""


@pytest.fixture
def grus(tmp_path: Path) -> Iterator[RealGrus]:
    command = RealGrus(tmp_path)
    shutil.copytree(EXAMPLE, command.work, dirs_exist_ok=True)
    command.up("--virtual", "1x2x16GB", "--port", "0")
    try:
        yield command
    finally:
        command.down()


def submitted(grus: RealGrus) -> dict[str, str]:
    """The ids of the stages, once the last of them but the serving one has ended well."""
    ids = {job["name"]: job["id"] for job in grus.json("submit", "stages.yaml")}
    grus("attach", ids["export"], "--quiet")
    return ids


def answered(grus: RealGrus, job: str) -> list[float]:
    """What the served model says of a picture; waits for it."""
    picture = json.dumps([[[[7.0] * 12] * 12]])
    deadline = time.monotonic() + PATIENCE
    while (done := grus("predict", job, picture, "-o", "json", code=None)).exit_code:
        assert time.monotonic() < deadline, done.stderr
        assert grus.json("describe", job)["job"]["phase"] in ("pending", "starting", "running"), done.stderr
    (chances,) = json.loads(done.stdout)["outputs"]
    return list(chances)


def graph(grus: RealGrus) -> dict[str, Any]:
    (newest, *_) = grus.json("ps", "--tree", "-a", "--limit", "1")
    return {stage["job"]["name"]: stage["job"] for stage in newest["stages"]}


def test_the_example_goes_from_an_empty_folder_to_a_served_model_and_then_skips_what_is_there(
    grus: RealGrus,
) -> None:
    first = submitted(grus)
    found = graph(grus)
    assert list(found) == [*STAGES, "serve"]
    assert {found[name]["phase"] for name in STAGES} == {"succeeded"}
    assert found["evaluate"]["progress"]["accuracy"] >= 0.9
    chances = answered(grus, first["serve"])
    assert sum(chances) == pytest.approx(1, abs=1e-4)
    grus("stop", first["serve"], "--wait")

    again = submitted(grus)
    found = graph(grus)
    assert {name: found[name]["same_as"] for name in STAGES} == {name: first[name] for name in STAGES}
    assert answered(grus, again["serve"]) == pytest.approx(chances)
    grus("stop", again["serve"], "--wait")

    # Another measure of what is good enough is another evaluation, and nothing else.
    evaluate = grus.work / "evaluate.py"
    evaluate.write_text(evaluate.read_text().replace("GOOD_ENOUGH = 0.9", "GOOD_ENOUGH = 0.8"))
    submitted(grus)
    ran = [name for name, job in graph(grus).items() if name in STAGES and job["same_as"] is None]
    assert ran == ["evaluate"]
