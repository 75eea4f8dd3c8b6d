"""A state of each earlier version opens: it is examined, listed, resumed and runs to its end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grus.model.jobs import TERMINAL, Phase
from grus.store.sqlite import SqliteStore
from tests.cli.real import RealGrus
from tests.compatibility import archive, kept
from tests.compatibility.kept import PATIENCE, Kept, versions
from tests.server.process import eventually


@pytest.fixture
def grus(tmp_path: Path) -> Iterator[RealGrus]:
    """The command on `home`; what it starts is ended."""
    command = RealGrus(tmp_path.resolve() / "home")
    yield command
    command.down()


def by_id(grus: RealGrus) -> dict[str, Any]:
    return {job["id"]: job for job in grus.json("ps", "-a", "--limit", "1000")}


def test_there_is_a_fixture() -> None:
    assert kept.ALL


def faults(told: dict[str, Any]) -> list[dict[str, Any]]:
    """Findings but the one that the next start brings the state to a newer schema."""
    return [one for one in told["findings"] if one["check"] != "schema" or one["grave"]]


@versions
def test_a_fixture_holds_every_phase_and_no_path_of_a_machine(version: Kept) -> None:
    assert set(version.phases.values()) == set(Phase)
    stored = [*archive.texts(version.state), *archive.texts(version.backup)]
    stored += [(file.name, file.read_bytes()) for file in version.folder.glob("*.json")]
    assert {name: found for name, content in stored if (found := archive.folders(content))} == {}


@versions
def test_a_state_is_read_as_it_was_written_and_is_clean(
    version: Kept, grus: RealGrus, tmp_path: Path
) -> None:
    version.unpack(version.state, tmp_path.resolve())
    told = grus.json("fsck", "--artefacts")
    assert (faults(told), told["jobs"]) == ([], len(version.phases))
    store = SqliteStore(grus.home / "state" / "grus.db")
    try:
        jobs = store.jobs()
    finally:
        store.close()
    assert {job.id: job.phase for job in jobs} == version.phases
    assert grus.json("fsck", "--artefacts")["findings"] == []


@versions
def test_a_server_lists_resumes_and_finishes_what_is_in_a_state(
    version: Kept, grus: RealGrus, tmp_path: Path
) -> None:
    version.unpack(version.state, tmp_path.resolve())
    grus.up()
    everything_is_listed(version, grus)
    a_member_resumes(version, grus)
    everything_ends(version, grus, tmp_path.resolve())
    grus("down")
    assert grus.json("fsck", "--artefacts")["findings"] == []


@versions
def test_a_backup_is_restored_into_an_empty_folder_and_a_server_starts_on_it(
    version: Kept, grus: RealGrus, tmp_path: Path
) -> None:
    version.unpack(version.backup, tmp_path.resolve())
    backup = str(tmp_path.resolve() / "backup")
    assert faults(grus.json("fsck", backup, "--artefacts")) == []
    grus("restore", backup)
    (grus.home / "token").write_text(version.made["test_only_tokens"]["admin"])
    assert faults(grus.json("fsck", "--artefacts")) == []
    grus.up()
    everything_is_listed(version, grus)
    a_member_resumes(version, grus)


def everything_is_listed(version: Kept, grus: RealGrus) -> None:
    made = version.made
    found = by_id(grus)
    assert {job: found[job]["phase"] for job in version.settled} == version.settled
    fields = ("name", "user", "type", "queue")
    told = {job: {name: found[job][name] for name in fields} for job in found}
    assert told == {job: {name: one[name] for name in fields} for job, one in made["jobs"].items()}
    for job in {(one["phase"], one["type"]): job for job, one in found.items()}.values():
        assert grus.json("describe", job)["job"]["id"] == job
    assert sorted(queue["name"] for queue in grus.json("queue", "list")) == made["queues"]
    assert sorted(user["name"] for user in grus.json("user", "list")) == made["users"]
    assert sorted(node["id"] for node in grus.json("nodes") if node["cordoned"]) == made["cordoned"]
    assert len(grus.json("runs", "--limit", "1000")) >= made["runs"]
    assert len(grus.json("profile")) >= made["profiles"]
    sweeps = [job for job, one in made["jobs"].items() if one["type"] == "sweep"]
    assert all(grus.json("sweep", "show", job)["trials"] for job in sweeps)
    assert grus.json("artefacts", "ls", version.id_of("done-train"))


def a_member_resumes(version: Kept, grus: RealGrus) -> None:
    """With the token that the fixture's user has had all along, once there is room."""
    for node in version.made["cordoned"]:
        grus("uncordon", node)
    for user in ("ada", "eve"):
        token = version.made["test_only_tokens"][user]
        job = version.id_of(f"rests-{user}")
        grus("resume", job, GRUS_TOKEN=token)
        ends_well(grus, job)


def ends_well(grus: RealGrus, job: str) -> None:
    eventually(lambda: by_id(grus)[job]["phase"] in TERMINAL, f"{job} ends", PATIENCE)
    assert by_id(grus)[job]["phase"] == Phase.SUCCEEDED


def everything_ends(version: Kept, grus: RealGrus, folder: Path) -> None:
    for name in ("live-serve", "borrower"):  # they would never end
        grus("stop", version.id_of(name), "--wait")
    grus("resume", version.id_of("pausing"))
    (folder / "work" / "open").touch()
    eventually(lambda: not grus.json("ps"), "all jobs have ended", PATIENCE)
    after = {job: told["phase"] for job, told in by_id(grus).items() if job in version.phases}
    lively = {job for job, phase in version.phases.items() if phase not in TERMINAL}
    stopped = {version.id_of(name) for name in ("live-serve", "borrower")}
    assert {job: after[job] for job in lively} == {
        job: Phase.STOPPED if job in stopped else Phase.SUCCEEDED for job in lively
    }
