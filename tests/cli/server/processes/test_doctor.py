"""`grus doctor` names what is wrong and how to mend it, and fails only for what cannot work."""

import json
import os
import socket
from pathlib import Path

import pytest

import grus as grus_package
from grus.cli.server import doctor
from grus.engines.local import sandbox
from grus.model.errors import NotLoggedIn, Unreachable
from grus.sdk.state_paths import places
from tests.cli.conftest import Grus
from tests.cli.fake import FakeClient


def states(grus: Grus) -> dict[str, dict[str, str]]:
    return {one["check"]: one for one in json.loads(grus("doctor", "-o", "json").stdout)}


def test_every_warning_and_failure_comes_with_its_fix(grus: Grus) -> None:
    found = states(grus)
    assert {"python", "sqlite", "state folder", "filesystem", "gpus", "clock", "port", "server"} <= set(found)
    assert [one for one in found.values() if one["state"] != "ok" and not one["fix"]] == []


def test_a_server_that_is_away_is_a_warning_with_the_command_that_starts_it(
    grus: Grus, client: FakeClient
) -> None:
    client.error = Unreachable("No server is running on /x. Start one.")
    found = states(grus)["server"]
    assert (found["state"], found["fix"]) == ("warn", "grus up")


def test_a_server_that_refuses_us_is_a_failure(grus: Grus, client: FakeClient) -> None:
    client.error = NotLoggedIn("This token is unknown.")
    assert states(grus)["server"]["state"] == "fail"
    assert grus("doctor").exit_code == 1


def test_another_version_is_a_warning(grus: Grus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grus_package, "__version__", "9.9.9")
    assert "9.9.9" in states(grus)["server"]["text"]
    assert states(grus)["server"]["state"] == "warn"


def test_a_state_folder_that_cannot_be_written_is_a_failure(
    grus: Grus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRUS_HOME", "/proc/nowhere")
    assert states(grus)["state folder"]["state"] == "fail"


def test_a_network_filesystem_is_a_failure_and_one_in_memory_a_warning(
    grus: Grus, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, state in (("nfs4", "fail"), ("fuse.sshfs", "fail"), ("tmpfs", "warn"), ("ext4", "ok")):
        monkeypatch.setattr(doctor, "_filesystem_of", lambda _, kind=kind: kind)
        assert states(grus)["filesystem"]["state"] == state


def test_a_port_that_somebody_has_is_a_failure(grus: Grus, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = places().config_file
        config.parent.mkdir(parents=True)
        config.write_text(f"[server]\nport = {taken.getsockname()[1]}\n")
        assert states(grus)["port"]["state"] == "fail"


@pytest.mark.parametrize(
    ("trouble", "state", "words"),
    [
        ("", "ok", "bubblewrap: each worker sees its own"),
        ("there is no bwrap on PATH: install bubblewrap", "fail", "install"),
    ],
)
def test_boxes_that_were_asked_for_and_cannot_be_made_are_a_failure(
    grus: Grus, monkeypatch: pytest.MonkeyPatch, trouble: str, state: str, words: str
) -> None:
    monkeypatch.setattr(sandbox, "trouble", lambda: trouble)
    assert states(grus)["isolation"]["text"].startswith("Unix users:" if os.geteuid() == 0 else "none:")
    places().config_file.parent.mkdir(parents=True, exist_ok=True)
    places().config_file.write_text('[server]\nisolation = "bubblewrap"\n')
    found = states(grus)["isolation"]
    assert found["state"] == state
    assert words in found["text"]


def test_folders_that_jobs_of_other_accounts_cannot_pass_are_a_warning_for_root(
    grus: Grus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    closed = tmp_path / "home"
    closed.mkdir(mode=0o700)
    for uid, state in ((0, "warn"), (1000, "ok")):
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        assert states(grus)["passage"]["state"] == state


def test_an_error_of_the_settings_is_reported_once(grus: Grus) -> None:
    config = places().config_file
    config.parent.mkdir(parents=True)
    config.write_text("[server]\nprot = 1\n")
    found = states(grus)
    assert [name for name, one in found.items() if "prot" in one["text"]] == ["configuration"]
    assert found["certificate"]["state"] == found["notifications"]["state"] == "ok"


def test_a_virtual_pool_needs_no_driver(grus: Grus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_nvidia_gpus", lambda: None)
    assert states(grus)["gpus"]["state"] == "warn"
    state = places().state
    state.mkdir(parents=True)
    for pool, expected in (("2x4x16GB", "ok"), ("nvml", "warn")):
        (state / "pool").write_text(pool)
        assert states(grus)["gpus"]["state"] == expected
