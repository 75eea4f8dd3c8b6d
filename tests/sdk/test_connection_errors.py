"""Errors before an answer: they name the variable or file at fault, and what to do."""

from pathlib import Path

import httpx2
import pytest

from grus.model.errors import BadInput, NotLoggedIn, Unreachable
from grus.sdk import transport
from grus.sdk.transport import Transport

ADDRESS = "https://gpu.lab:7600"


def failing(text: str, **env: str) -> str:
    """Text of the error when the connection fails with this text."""

    def handler(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError(text)

    env = {"GRUS_SERVER": ADDRESS, "GRUS_TOKEN": "grus_a", **env}
    backend = httpx2.MockTransport(handler)
    made = Transport(None, None, timeout=1.0, patience=0.0, env=env, backend=backend)
    with pytest.raises(Unreachable) as caught:
        made.request("GET", "/v1/status")
    return str(caught.value)


def refused(env: dict[str, str]) -> str:
    """Text of the error when the server wants a token."""
    body = {"error": {"code": "not_logged_in", "message": "send the header"}}
    backend = httpx2.MockTransport(lambda _: httpx2.Response(401, json=body))
    made = Transport(None, None, timeout=1.0, patience=0.0, env=env, backend=backend)
    with pytest.raises(NotLoggedIn) as caught:
        made.request("GET", "/v1/status")
    return str(caught.value)


@pytest.mark.parametrize("token", ["grus_…", "grus_ä", "grus_a b", "grus_a\nb", "\N{ZERO WIDTH SPACE}grus_a"])
def test_a_token_that_cannot_be_sent_is_refused_with_its_variable(token: str, tmp_path: Path) -> None:
    env = {"GRUS_HOME": str(tmp_path), "GRUS_SERVER": ADDRESS, "GRUS_TOKEN": token}
    with pytest.raises(NotLoggedIn, match=r"token of GRUS_TOKEN is not a whole token: .*U\+.*grus token new"):
        Transport(None, None, timeout=1.0, patience=0.0, env=env)


@pytest.mark.parametrize("content", ["grus_…\n".encode(), b"grus_\xff\n"])
def test_a_token_file_that_cannot_be_sent_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(content)
    env = {"GRUS_HOME": str(tmp_path), "GRUS_SERVER": ADDRESS}
    with pytest.raises(NotLoggedIn, match=f"token of {tmp_path}/token is not a whole token"):
        Transport(None, None, timeout=1.0, patience=0.0, env=env)


def test_the_error_does_not_repeat_the_token(tmp_path: Path) -> None:
    env = {"GRUS_HOME": str(tmp_path), "GRUS_SERVER": ADDRESS, "GRUS_TOKEN": "grus_geheim…"}
    with pytest.raises(NotLoggedIn) as caught:
        Transport(None, None, timeout=1.0, patience=0.0, env=env)
    assert "geheim" not in str(caught.value)


def test_a_missing_token_is_told_with_the_variable_and_the_command(tmp_path: Path) -> None:
    env = {"GRUS_HOME": str(tmp_path), "GRUS_SERVER": ADDRESS}
    assert "GRUS_TOKEN is not set" in refused(env)
    empty = refused({**env, "GRUS_TOKEN": ""})
    assert "GRUS_TOKEN is empty" in empty
    assert f"`grus login {ADDRESS}`" in empty
    assert refused({**env, "GRUS_TOKEN": "grus_unknown"}) == "send the header"


@pytest.mark.parametrize(
    ("address", "likely"),
    [
        ("gpu.lab:17600", "https://gpu.lab:17600"),
        ("127.0.0.1:7600", "http://127.0.0.1:7600"),
        ("[::1]:7600", "http://[::1]:7600"),
    ],
)
def test_an_address_without_a_scheme_is_suggested_with_one(address: str, likely: str) -> None:
    with pytest.raises(BadInput, match="did you mean") as caught:
        Transport(address, "grus_a", timeout=1.0, patience=0.0, env={})
    assert f"did you mean {likely}?" in str(caught.value)


def test_an_unknown_host_is_told_with_the_variable_that_names_it() -> None:
    text = failing("[Errno -2] Name or service not known")
    assert "knows no host gpu.lab: check the name in GRUS_SERVER" in text
    assert "grus up" not in text
    assert "grus up" in failing("[Errno 111] Connection refused")


def test_a_certificate_that_does_not_verify_names_the_file_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "trust", lambda *_: True)
    wrong = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate"
    assert "GRUS_CA)" in failing(wrong)
    assert "not one of mine.crt (GRUS_CA)" in failing(wrong, GRUS_CA="mine.crt")
