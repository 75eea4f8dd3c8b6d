"""`fsck`, `backup` and `restore` as people type them, around a real server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.real import RealGrus
from tests.server.process import eventually


@pytest.fixture
def grus(tmp_path: Path) -> Iterator[RealGrus]:
    command = RealGrus(tmp_path / "home")
    command.configure('[server]\nport = 0\npool = "virtual 1x4x1GB"\n')
    try:
        yield command
    finally:
        command.down()


def test_a_state_goes_back_to_its_back_up_and_what_ran_since_is_ended(grus: RealGrus, tmp_path: Path) -> None:
    grus.up()
    stays = grus("run", "--detach", "--name", "stays", "--", "sleep", "600").stdout.strip()
    eventually(lambda: grus.json("ps")[0]["phase"] == "running", "it runs")
    told = grus.json("backup", str(tmp_path / "back-up"))
    assert (told["jobs"], sorted(told["files"])) == (1, ["config.toml", "grus.db"])
    assert "nothing differs" in grus("fsck").stdout  # while the server runs
    assert "nothing differs" in grus("fsck", str(tmp_path / "back-up")).stdout
    assert "already running" in grus("restore", str(tmp_path / "back-up"), code=1).stderr
    assert "must not exist" in grus("backup", str(tmp_path / "back-up"), code=2).stderr
    later = grus("run", "--detach", "--name", "later", "--", "sleep", "600").stdout.strip()
    eventually(lambda: all(job["phase"] == "running" for job in grus.json("ps")), "both run")
    grus("down")
    assert "--force" in grus("restore", str(tmp_path / "back-up"), code=1).stderr
    done = json.loads(grus("restore", str(tmp_path / "back-up"), "--force", "-o", "json").stdout)
    assert [one.partition(".")[0] for one in done["ended"]] == [later]
    assert "logs of a job that is not on record" in grus("fsck", code=1).stdout
    assert later in grus("fsck", "--repair").stdout
    assert grus.json("fsck")["findings"] == []
    grus.up()
    jobs = grus.json("ps", "-a")
    assert [(job["id"], job["attempt"]) for job in jobs] == [(stays, 1)]  # the very same worker
    eventually(lambda: grus.json("ps")[0]["phase"] == "running", "it was found again")


def test_what_is_not_there_is_said_so(tmp_path: Path) -> None:
    grus = RealGrus(tmp_path / "home")
    assert "nothing was ever stored" in grus("fsck", code=4).stderr
    assert "nothing was ever stored" in grus("backup", str(tmp_path / "b"), code=4).stderr
    assert "no back-up" in grus("restore", str(tmp_path / "b"), code=4).stderr
