"""`grus artefacts`: what a job left behind is listed, and got whole, or not at all."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.real import RealGrus

JOB = """
name: made
run: |
  mkdir $GRUS_OUTPUT_DATA/sub; echo one > $GRUS_OUTPUT_DATA/one; echo two > $GRUS_OUTPUT_DATA/sub/two
  echo weights > model.pt
resources: {gpu: 0}
outputs: {data: "", model: model.pt}
"""


@pytest.fixture(scope="module")
def grus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealGrus]:
    made = RealGrus(tmp_path_factory.mktemp("home"))
    made.configure("[server]\nport = 0\n")
    made.up("--virtual", "1x2x4GB")
    (made.work / "job.yaml").write_text(JOB)
    made("submit", "job.yaml", "--watch")
    yield made
    made.down()


def test_what_a_job_left_behind_is_listed_for_people_and_for_programs(grus: RealGrus) -> None:
    shown = grus("artefacts", "ls", "made").stdout
    assert "data" in shown
    assert "model" in shown
    (data, model) = grus.json("artefacts", "ls")
    assert (data["output"], data["job_name"], data["size"]) == ("data", "made", 8)
    assert model["size"] == 8
    assert len(model["digest"]) == 64
    assert data["digest"][:12] in grus("describe", "made").stdout


def test_a_folder_becomes_a_new_folder_and_a_single_file_goes_into_one(grus: RealGrus) -> None:
    told = grus.json("artefacts", "get", "made", "data", "./got")
    assert Path(told["path"]) == grus.work / "got"
    assert (grus.work / "got" / "sub" / "two").read_text() == "two\n"
    grus("artefacts", "get", "made", "model", "./models")
    assert (grus.work / "models" / "model.pt").read_text() == "weights\n"
    (grus.work / "empty").mkdir()
    grus("artefacts", "get", "made", "data", "./empty")
    assert (grus.work / "empty" / "one").read_text() == "one\n"
    assert list(grus.work.rglob(".grus-*")) == []


def test_nothing_that_is_there_is_written_over(grus: RealGrus) -> None:
    (grus.work / "mine").mkdir()
    (grus.work / "mine" / "model.pt").write_text("mine")
    for name in ("data", "model"):
        done = grus("artefacts", "get", "made", name, "./mine", code=2)
        assert "is there already" in done.stderr
    assert [path.name for path in (grus.work / "mine").iterdir()] == ["model.pt"]
    assert (grus.work / "mine" / "model.pt").read_text() == "mine"


def test_wrong_bytes_of_an_earlier_try_are_noticed_and_not_gone_on_from_again(grus: RealGrus) -> None:
    digest = grus.json("artefacts", "ls")[0]["digest"]
    (grus.work / f".grus-{digest[:16]}.tar").write_bytes(b"x" * 100)
    done = grus("artefacts", "get", "made", "data", "./wrong", code=1)
    assert "what came is not" in done.stderr
    assert not (grus.work / "wrong").exists()
    grus("artefacts", "get", "made", "data", "./wrong")
    assert (grus.work / "wrong" / "one").read_text() == "one\n"


def test_what_is_not_there_is_named_with_what_is(grus: RealGrus) -> None:
    said = grus("artefacts", "get", "made", "date", "./x", code=4).stderr
    assert "has left data, model behind, and no 'date'" in said
    said = grus("artefacts", "get", "made", "data", "no/such/folder", code=2).stderr
    assert "must be in a folder that is there" in said
