"""Requests that fail: which are repeated, and what the caller hears. On a pretend server, by plain HTTP."""

import errno
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grus.kubernetes.client.api import Api, Conflicts, Forbidden, Refused, Unreachable
from grus.kubernetes.client.resource_kinds import CONFIG_MAPS, PODS
from grus.kubernetes.client.write_guard import GuardedHTTPS
from tests.kubernetes.faults import configuration
from tests.kubernetes.servers import Pretend


@pytest.fixture
def pretend() -> Iterator[Pretend]:
    server = Pretend()
    yield server
    server.close()


@pytest.fixture
def api(pretend: Pretend, tmp_path: Path) -> Iterator[Api]:
    (tmp_path / "kubeconfig").write_text(json.dumps(configuration(pretend.address)))
    connected = Api.connect(tmp_path / "kubeconfig")
    yield connected
    connected.close()


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
def test_what_can_be_repeated_is_repeated_until_the_server_can(pretend: Pretend, api: Api, code: int) -> None:
    pretend.codes = [code, code]
    api.get(PODS, "worker")
    pretend.codes = [code]
    api.patch(CONFIG_MAPS, "crane", {"data": {}})
    assert pretend.asked == ["GET"] * 3 + ["PATCH"] * 2


@pytest.mark.parametrize("code", [500, 502, 503, 504])
def test_what_may_have_been_done_is_not_done_twice(pretend: Pretend, api: Api, code: int) -> None:
    calls: tuple[Callable[[], object], ...] = (
        lambda: api.create(CONFIG_MAPS, {"metadata": {"name": "crane"}}),
        lambda: api.replace(CONFIG_MAPS, {"metadata": {"name": "crane"}}),
        lambda: api.patch(CONFIG_MAPS, "crane", [], how="json"),
        lambda: api.patch(CONFIG_MAPS, "crane", {"metadata": {"resourceVersion": "7"}}),
    )
    for call in calls:
        pretend.codes = [code]
        with pytest.raises(Unreachable) as trouble:
            call()
        assert trouble.value.arrived
    assert len(pretend.asked) == 4


def test_what_the_server_had_no_time_for_is_repeated_whatever_it_is(pretend: Pretend, api: Api) -> None:
    pretend.codes = [429, 429]
    api.create(CONFIG_MAPS, {"metadata": {"name": "crane"}})
    assert pretend.asked == ["POST"] * 3


def test_what_changes_something_is_sent_only_while_the_guard_says_yes(pretend: Pretend, api: Api) -> None:
    answers = iter([False, False, *[True] * 10])
    asked: list[bool] = []

    def may() -> bool:
        asked.append(next(answers))
        return asked[-1]

    guarded = api.guarded(may)
    guarded.get(PODS, "worker")
    assert (asked, pretend.asked) == ([], ["GET"])
    guarded.create(CONFIG_MAPS, {"metadata": {"name": "crane"}})
    assert (asked[:3], pretend.asked) == ([False, False, True], ["GET", "POST"])
    never = api.patient(0).guarded(lambda: False)
    with pytest.raises(Unreachable):
        never.delete(PODS, "worker")
    assert pretend.asked == ["GET", "POST"]


def test_patience_has_an_end(pretend: Pretend, api: Api) -> None:
    pretend.codes = [503] * 1000
    with pytest.raises(Unreachable, match="503"):
        api.patient(0.3).get(PODS, "worker")
    assert 1 < len(pretend.asked) < 20
    pretend.asked.clear()
    with pytest.raises(Unreachable):
        api.patient(0).get(PODS, "worker")
    assert len(pretend.asked) == 1


def test_closing_ends_the_wait_for_a_repetition(pretend: Pretend, api: Api) -> None:
    pretend.codes = [503] * 1000
    raised = threading.Event()

    def ask() -> None:
        with pytest.raises(Unreachable):
            api.patient(3600).get(PODS, "worker")
        raised.set()

    thread = threading.Thread(target=ask)
    thread.start()
    api.close()
    thread.join(300)
    assert raised.is_set()


def test_nobody_there_is_unreachable_and_nothing_arrived(pretend: Pretend, api: Api) -> None:
    pretend.close()
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1") as trouble:
        api.patient(0.1).create(CONFIG_MAPS, {"metadata": {"name": "crane"}})
    assert not trouble.value.arrived


def test_a_refusal_is_never_repeated(pretend: Pretend, api: Api) -> None:
    pretend.codes = [409, 400]
    with pytest.raises(Conflicts):
        api.get(PODS, "worker")
    with pytest.raises(Refused, match="400"):
        api.get(PODS, "worker")
    assert len(pretend.asked) == 2


def test_a_token_file_that_was_rewritten_is_read_again(pretend: Pretend, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    content = configuration(pretend.address, {"tokenFile": "token"})
    (tmp_path / "kubeconfig").write_text(json.dumps(content))
    api = Api.connect(tmp_path / "kubeconfig")
    pretend.taken = "first"
    api.get(PODS, "worker")
    pretend.taken = "second"
    with pytest.raises(Forbidden):
        api.get(PODS, "worker")
    (tmp_path / "token").write_text("second\n")
    api.create(PODS, {"metadata": {"name": "worker"}})
    assert pretend.tokens == ["Bearer first", "Bearer first", "Bearer first", "Bearer second"]
    api.close()


def test_a_credential_program_is_asked_again_when_its_token_is_not_taken(
    pretend: Pretend, tmp_path: Path
) -> None:
    program = tmp_path / "login"
    asked = 'test -n "$KUBERNETES_EXEC_INFO"'
    program.write_text(
        f'#!/bin/sh\n{asked} && echo "{{\\"status\\": {{\\"token\\": \\"$(cat $1)$MORE\\"}}}}"\n'
    )
    program.chmod(0o755)
    (tmp_path / "now").write_text("first")
    run = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(program),
        "args": [str(tmp_path / "now")],
        "env": [{"name": "MORE", "value": "-of-me"}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(configuration(pretend.address, {"exec": run})))
    api = Api.connect(tmp_path / "kubeconfig")
    pretend.taken = "first-of-me"
    api.get(PODS, "worker")
    pretend.taken = "second-of-me"
    (tmp_path / "now").write_text("second")
    api.get(PODS, "worker")
    assert pretend.tokens == ["Bearer first-of-me", "Bearer first-of-me", "Bearer second-of-me"]
    (tmp_path / "now").unlink()
    pretend.taken = "third"
    with pytest.raises(Forbidden):
        api.get(PODS, "worker")
    program.unlink()
    with pytest.raises(Unreachable, match="is not there"):
        api.get(PODS, "worker")
    api.close()


def test_a_connection_that_is_reset_before_its_handshake_leaves_no_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CPython before 3.11.8 leaves it open where the peer is gone as soon as it has accepted."""

    def gone(*_: object) -> None:
        raise OSError(errno.ENOTCONN, "not connected")

    def reset(*_: object) -> bytes:
        raise ConnectionResetError(errno.ECONNRESET, "reset")

    opened: list[ssl.SSLSocket] = []

    def noted(self: ssl.SSLSocket) -> None:
        opened.append(self)
        gone()

    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(ssl.SSLSocket, "getpeername", noted)
        monkeypatch.setattr(ssl.SSLSocket, "recv", reset)
        connection = GuardedHTTPS(
            "127.0.0.1", server.getsockname()[1], ssl_context=ssl.create_default_context()
        )
        with pytest.raises(ConnectionResetError):
            connection.connect()
    assert [one.fileno() for one in opened] == [-1]
