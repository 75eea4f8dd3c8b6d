"""`grus backup` says what is not in a backup, and warns of secrets that are."""

from pathlib import Path

import pytest

from grus.sdk.state_paths import places
from grus.store.sqlite import SqliteStore
from tests.cli.conftest import Grus


@pytest.mark.parametrize("inline", [False, True])
def test_a_backup_says_what_is_left_out_and_warns_of_inline_secrets(
    grus: Grus, tmp_path: Path, inline: bool
) -> None:
    at = places()
    SqliteStore(at.state / "grus.db").close()
    at.config_file.write_text('[client]\ntoken = "grus_geheim"\n' if inline else "[server]\n")
    told = grus("backup", str(tmp_path / "made")).stderr
    for word in ("logs, ", "certificate and key", "secret_file", "password_file", "the token file"):
        assert word in told
    assert ("warning: config.toml is in it, with secrets: client.token" in told) is inline
    assert "geheim" not in told
