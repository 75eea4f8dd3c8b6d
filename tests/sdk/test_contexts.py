"""Logins of a user: used whole, kept to oneself, and never sent to another server."""

import json
import ssl
from pathlib import Path

import httpx2
import pytest

from grus.model.errors import BadInput, NotFound
from grus.sdk.contexts import Context, Contexts, chosen_context, contexts_file, read_contexts, trust
from grus.sdk.state_paths import GrusPaths
from grus.sdk.transport import Transport

LAB = Context("https://lab.example.org:7600", "grus_lab")
HOME = Context("http://127.0.0.1:7601", "grus_home")


@pytest.fixture
def at(tmp_path: Path) -> GrusPaths:
    return GrusPaths(config=tmp_path, state=tmp_path / "state")


def keep(at: GrusPaths, current: str = "lab", mode: int = 0o600) -> None:
    path = contexts_file(at)
    path.write_text(Contexts(current, {"lab": LAB, "home": HOME}).as_json())
    path.chmod(mode)


def asked(at: GrusPaths, **env: str) -> httpx2.Request:
    """The request that a client sends in this environment."""
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json={})

    made = Transport(
        None,
        None,
        timeout=1.0,
        patience=0.0,
        env={"GRUS_HOME": str(at.config), **env},
        backend=httpx2.MockTransport(answer),
    )
    made.request("GET", "/v1/status")
    return seen[0]


def told(request: httpx2.Request) -> tuple[str, str]:
    return f"{request.url.scheme}://{request.url.netloc.decode()}", request.headers["Authorization"]


def test_contexts_are_read_back_as_they_were_kept(at: GrusPaths) -> None:
    assert read_contexts(at) == Contexts()
    keep(at)
    assert read_contexts(at) == Contexts("lab", {"lab": LAB, "home": HOME})
    assert "grus_lab" not in repr(read_contexts(at))


def test_the_current_context_is_used_and_another_one_by_name(at: GrusPaths) -> None:
    keep(at)
    assert told(asked(at)) == (LAB.server, "Bearer grus_lab")
    assert told(asked(at, GRUS_CONTEXT="home")) == (HOME.server, "Bearer grus_home")
    assert told(asked(at, GRUS_TOKEN="mine")) == (LAB.server, "Bearer mine")
    with pytest.raises(NotFound, match="there are: home, lab"):
        chosen_context({"GRUS_CONTEXT": "nowhere"}, at)


def test_a_server_named_in_another_way_never_gets_the_token_of_a_context(at: GrusPaths) -> None:
    keep(at)
    request = asked(at, GRUS_SERVER="http://127.0.0.1:7609", GRUS_TOKEN="other")
    assert told(request) == ("http://127.0.0.1:7609", "Bearer other")
    assert "Authorization" not in asked(at, GRUS_SERVER="http://127.0.0.1:7609").headers


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_can_read_is_refused(at: GrusPaths, mode: int) -> None:
    keep(at, mode=mode)
    with pytest.raises(BadInput, match="chmod 600"):
        read_contexts(at)


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"current": "", "contexts": {"a": {}}}), "\xff"])
def test_a_damaged_file_is_told_with_a_way_out(at: GrusPaths, text: str) -> None:
    contexts_file(at).write_text(text)
    contexts_file(at).chmod(0o600)
    with pytest.raises(BadInput, match="grus login"):
        read_contexts(at)


def test_certificates_come_from_the_variable_then_the_context_then_the_system() -> None:
    with pytest.raises(BadInput, match=r"/no/such/ca\.pem"):
        trust({"GRUS_CA": "/no/such/ca.pem"}, LAB)
    assert trust({}, LAB) is True
    assert trust({}, None) is True
    with pytest.raises(ssl.SSLError):
        trust({}, Context("https://x", "t", "no certificate"))
