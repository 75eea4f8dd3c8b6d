"""`login` checks a token before it keeps it; `context` lists, chooses and forgets logins without tokens."""

import json
import stat
from pathlib import Path

import pytest

from grus.api.wire_types.pool import StatusOut
from grus.cli.commands import contexts
from grus.model.errors import NotLoggedIn
from grus.sdk.contexts import Context, contexts_file, read_contexts
from grus.sdk.state_paths import places
from tests.cli.conftest import Grus
from tests.cli.fake import SUBMITTED

URL = "https://gpu.example.org:7600"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> list[Context]:
    """Logins that a pretended server was asked to check; it knows the token `good` alone."""
    seen: list[Context] = []

    def check(made: Context) -> StatusOut:
        seen.append(made)
        if made.token != "good":
            raise NotLoggedIn("This token is not known here.")
        return StatusOut(version="0.1.0", now=SUBMITTED, user="ada", role="member")

    monkeypatch.setattr(contexts, "_checked", check)
    return seen


def login(grus: Grus, name: str = "lab", url: str = URL) -> str:
    result = grus("login", url, "--context", name, "--token-file", "-", input="good\n")
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_a_login_is_kept_for_its_owner_alone_and_becomes_current(grus: Grus, server: list[Context]) -> None:
    assert login(grus) == f"Logged in to {URL} as ada (member); context lab.\n"
    path = contexts_file(places())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    known = read_contexts(places())
    assert (known.current, known.by_name["lab"]) == ("lab", Context(URL, "good"))


def test_a_token_that_the_server_refuses_is_not_kept(grus: Grus, server: list[Context]) -> None:
    login(grus)
    result = grus("login", URL, "--token-file", "-", input="bad\n")
    assert result.exit_code == 5
    assert read_contexts(places()).by_name["lab"].token == "good"


def test_a_repeated_login_keeps_the_token_for_the_same_address_only(
    grus: Grus, server: list[Context]
) -> None:
    login(grus)
    assert grus("login", URL, "--context", "lab").exit_code == 0
    assert read_contexts(places()).by_name["lab"] == Context(URL, "good")
    elsewhere = grus("login", "https://other.example.org:7600", "--context", "lab")
    assert (elsewhere.exit_code, "--token-file" in elsewhere.stderr) == (2, True)


def test_a_certificate_that_is_not_there_is_named_with_the_reason(
    grus: Grus, server: list[Context], tmp_path: Path
) -> None:
    result = grus("login", URL, "--ca", str(tmp_path / "no.crt"), "--token-file", "-", input="good")
    assert result.exit_code == 2
    assert "--ca: cannot be read: No such file or directory" in result.stderr


def test_contexts_are_listed_without_tokens_chosen_and_forgotten(grus: Grus, server: list[Context]) -> None:
    login(grus)
    login(grus, "home", "http://127.0.0.1:7600")
    listed = grus("context", "list", "-o", "json").stdout
    assert [(one["name"], one["current"]) for one in json.loads(listed)] == [("home", True), ("lab", False)]
    assert "good" not in listed + grus("context").stdout
    assert grus("context", "use", "lab").exit_code == 0
    assert read_contexts(places()).current == "lab"
    assert grus("context", "delete", "lab").exit_code == 0
    assert (read_contexts(places()).current, list(read_contexts(places()).by_name)) == ("", ["home"])
    assert grus("context", "use", "lab").exit_code == 4
    grus("context", "use", "home")
    grus("context", "use", "none")
    assert read_contexts(places()).current == ""


def test_the_name_is_the_host_unless_it_is_given(grus: Grus, server: list[Context]) -> None:
    assert grus("login", URL, "--token-file", "-", input="good").exit_code == 0
    assert list(read_contexts(places()).by_name) == ["gpu-example-org"]
    assert grus("login", URL, "--context", "../x", "--token-file", "-", input="good").exit_code == 2
    assert grus("login", URL, "--context", "none", "--token-file", "-", input="good").exit_code == 2


def test_the_token_comes_from_the_variable_and_must_be_one_word(
    grus: Grus, server: list[Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert grus("login", URL).exit_code == 2
    assert grus("login", URL, "--token-file", "-", input="two words").exit_code == 2
    monkeypatch.setenv("GRUS_TOKEN", "good")
    assert grus("login", URL).exit_code == 0


def test_a_file_without_certificates_is_refused(grus: Grus, server: list[Context], tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    result = grus("login", URL, "--ca", str(tmp_path / "ca.pem"), "--token-file", "-", input="good")
    assert result.exit_code == 2
    assert server == []


def test_plain_http_to_another_machine_is_refused_unless_it_is_accepted(
    grus: Grus, server: list[Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = grus("login", "http://gpu.example.org:7600", "--token-file", "-", input="good")
    assert result.exit_code == 2
    assert f"ask for {URL}" in result.stderr
    assert server == []
    monkeypatch.setenv("GRUS_INSECURE_HTTP", "1")
    login(grus, url="http://gpu.example.org:7600")


def test_an_address_without_scheme_is_answered_with_the_right_one(grus: Grus, server: list[Context]) -> None:
    result = grus("login", "gpu.example.org:7600", "--token-file", "-", input="good")
    assert result.exit_code == 2
    assert f"did you mean {URL}?" in result.stderr


def test_a_context_and_a_server_at_once_are_refused(grus: Grus) -> None:
    assert grus("--context", "lab", "--server", URL, "ps").exit_code == 2
