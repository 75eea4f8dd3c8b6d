"""`grus doctor` names users and queues of config.toml that do not exist."""

from pathlib import Path

import pytest

from grus.cli.server.config_checks import unknown_in_config
from grus.model.errors import Unreachable
from grus.sdk.state_paths import GrusPaths
from tests.cli.fake import FakeClient


@pytest.fixture
def at(tmp_path: Path) -> GrusPaths:
    made = GrusPaths(config=tmp_path, state=tmp_path / "state")
    made.config_file.write_text('[queues.robots]\nmembers = ["zed"]\n')
    return made


def test_an_unknown_member_is_named_to_an_administrator(at: GrusPaths, client: FakeClient) -> None:
    client.role = "admin"
    assert 'members: there is no user "zed"' in unknown_in_config(at)


def test_nothing_is_said_without_a_server_or_to_others(at: GrusPaths, client: FakeClient) -> None:
    assert unknown_in_config(at) == ""
    client.role, client.error = "admin", Unreachable("away")
    assert unknown_in_config(at) == ""
