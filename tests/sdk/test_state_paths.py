"""Where files are, and how a client finds its server and token."""

import json
from pathlib import Path

import pytest

from grus.model.errors import BadInput, Unreachable
from grus.sdk.state_paths import find_address, find_token, places


def test_grus_home_overrides_both_folders() -> None:
    at = places({"GRUS_HOME": "/srv/grus", "XDG_CONFIG_HOME": "/c"})
    assert (at.config, at.state) == (Path("/srv/grus"), Path("/srv/grus/state"))


def test_without_it_the_folders_follow_xdg() -> None:
    at = places({"XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s"})
    assert (at.config, at.state) == (Path("/c/grus"), Path("/s/grus"))


def test_the_environment_goes_before_the_file_and_the_file_before_the_running_server(tmp_path: Path) -> None:
    at = places({"GRUS_HOME": str(tmp_path)})
    at.state.mkdir()
    at.server_file.write_text(json.dumps({"address": "http://127.0.0.1:1", "pid": 1, "started_at": 0}))
    at.token_file.write_text("from-file\n")
    assert (find_address({}, at), find_token({}, at).secret) == ("http://127.0.0.1:1", "from-file")
    at.config_file.write_text('[client]\nserver = "http://127.0.0.1:2/"\ntoken = "from-config"\n')
    assert (find_address({}, at), find_token({}, at).secret) == ("http://127.0.0.1:2", "from-config")
    env = {"GRUS_SERVER": "http://127.0.0.1:3", "GRUS_TOKEN": "from-env"}
    assert (find_address(env, at), find_token(env, at).secret) == ("http://127.0.0.1:3", "from-env")


def test_without_a_server_the_error_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="grus up"):
        find_address({}, places({"GRUS_HOME": str(tmp_path)}))


def test_a_broken_server_file_counts_as_no_server(tmp_path: Path) -> None:
    at = places({"GRUS_HOME": str(tmp_path)})
    at.state.mkdir()
    at.server_file.write_text("{")
    with pytest.raises(Unreachable):
        find_address({}, at)


def test_a_broken_configuration_is_told_with_its_path(tmp_path: Path) -> None:
    at = places({"GRUS_HOME": str(tmp_path)})
    at.config_file.write_text("server =")
    with pytest.raises(BadInput, match=r"config\.toml"):
        find_token({}, at)
