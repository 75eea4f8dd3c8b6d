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


OUTPUT = """
name: made
run: echo weights > model.pt
resources: {gpu: 0}
outputs: {model: model.pt}
"""


def test_artefacts_of_a_back_up_are_examined_and_nothing_in_it_is_repaired(
    grus: RealGrus, tmp_path: Path
) -> None:
    grus.up()
    (grus.work / "job.yaml").write_text(OUTPUT)
    grus("submit", "job.yaml", "--watch")
    with_them, without = tmp_path / "with", tmp_path / "without"
    grus("backup", str(without))
    grus("backup", str(with_them), "--artefacts")
    assert "nothing differs" in grus("fsck", str(with_them), "--artefacts").stdout
    assert "stays as it was made" in grus("fsck", str(with_them), "--repair", code=2).stderr
    assert "are not in this backup" in grus("fsck", str(without), "--artefacts", code=2).stderr
    (chunk,) = with_them.glob("artefacts/*/chunks/??/*")
    chunk.chmod(0o600)
    chunk.write_bytes(bytes([chunk.read_bytes()[0] ^ 1]) + chunk.read_bytes()[1:])
    assert "nothing differs" in grus("fsck", str(with_them)).stdout  # by names and sizes
    assert "changed on the disk" in _told(grus, with_them, "--artefacts")
    chunk.unlink()
    assert "missing" in _told(grus, with_them)
    for manifest in with_them.glob("artefacts/*/manifests/??/*"):
        manifest.unlink()
    assert "not kept any more" in _told(grus, with_them)


def _told(grus: RealGrus, back_up: Path, *words: str) -> str:
    (finding,) = json.loads(grus("fsck", str(back_up), *words, "-o", "json", code=1).stdout)["findings"]
    assert "make another backup" in finding["fix"]
    return str(finding["text"])


def test_the_folder_of_dated_back_ups_names_the_newest(grus: RealGrus, tmp_path: Path) -> None:
    grus.up()
    made = grus.json("backup", str(tmp_path / "all"), "--keep", "3")["folder"]
    assert f"the newest of its backups is {made}" in grus("fsck", str(tmp_path / "all"), code=4).stderr


def test_a_restore_is_in_the_audit_log(grus: RealGrus, tmp_path: Path) -> None:
    grus.up()
    grus("backup", str(tmp_path / "back-up"))
    grus("down")
    grus("restore", str(tmp_path / "back-up"), "--force")
    grus.up()
    newest = grus.json("audit")[0]
    assert (newest["action"], str(tmp_path / "back-up") in newest["text"]) == ("state.restore", True)


def test_a_back_up_goes_into_the_folder_that_one_is_in(grus: RealGrus) -> None:
    grus.up()
    assert grus.json("backup", ".")["folder"] == str(grus.work)
    assert "nothing differs" in grus("fsck", ".").stdout


def test_what_is_not_there_is_said_so(tmp_path: Path) -> None:
    grus = RealGrus(tmp_path / "home")
    assert "nothing was ever stored" in grus("fsck", code=4).stderr
    assert "nothing was ever stored" in grus("backup", str(tmp_path / "b"), code=4).stderr
    assert "no backup" in grus("restore", str(tmp_path / "b"), code=4).stderr


def test_a_record_that_is_lost_is_not_called_one_that_never_was(tmp_path: Path) -> None:
    grus = RealGrus(tmp_path / "home")
    (tmp_path / "home" / "state" / "engine" / "epochs" / "3").mkdir(parents=True)
    for command in (["fsck"], ["backup", str(tmp_path / "b")], ["up", "--virtual", "1x1x1GB", "--port", "0"]):
        told = grus(*command, code=4).stderr
        assert "this state was in use" in told
        assert "grus restore BACKUP" in told


def test_a_back_up_inside_the_state_is_refused(grus: RealGrus) -> None:
    for more in ((), ("--keep", "2")):
        said = grus("backup", str(grus.home / "state" / "inside"), *more, code=2).stderr
        assert "lies inside the state" in said
