"""Output of `grus up` after a start: the lines for other machines, and the warnings of the server."""

from pathlib import Path

import pytest

from grus.cli.server import background_process, daemon_start_stop
from grus.sdk.state_paths import Running


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_an_address_of_this_machine_alone_has_no_lines_for_others(host: str) -> None:
    assert (
        list(daemon_start_stop.lines_for_others(Running(f"https://{host}:7600", 1, 0.0, certificate="PEM")))
        == []
    )


def test_other_machines_are_told_address_and_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_process, "is_trusted", lambda _: False)
    lines = list(
        daemon_start_stop.lines_for_others(Running("https://gpu.lab:7600", 1, 0.0, certificate="PEM"))
    )
    assert "GRUS_SERVER=https://gpu.lab:7600" in lines[0]
    assert "GRUS_CA" in lines[1]


def test_warnings_of_the_server_are_read_from_its_output(tmp_path: Path) -> None:
    said = tmp_path / "start.log"
    said.write_text("Grus answers at http://10.0.0.5:7600.\nWARNING: tokens travel in the clear.\n")
    assert background_process.warnings_in(said) == ["tokens travel in the clear."]


def test_an_account_without_a_token_is_told_where_to_put_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRUS_HOME", str(tmp_path))
    monkeypatch.delenv("GRUS_TOKEN", raising=False)
    found = daemon_start_stop.error_without_token()
    assert found is not None
    assert str(tmp_path / "token") in str(found)
    (tmp_path / "token").write_text("grus_x")
    assert daemon_start_stop.error_without_token() is None
