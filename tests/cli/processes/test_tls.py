"""A server with TLS: its own machine's commands work, and each problem is named at once."""

import http.client
import json
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grus.cli.server import background_process
from grus.model.errors import GrusError
from grus.sdk.state_paths import GrusPaths, running
from tests.cli.real import RealGrus
from tests.server.certificates import make_certificate

POOL = ("--virtual", "1x2x8GB")


@pytest.fixture
def grus(tmp_path: Path) -> Iterator[RealGrus]:
    command = RealGrus(tmp_path / "home")
    command.work.mkdir(exist_ok=True)
    yield command
    command.down()


def options(folder: Path, *names: str) -> list[str]:
    certificate, key = make_certificate(folder, *names)
    return ["--tls-cert", str(certificate), "--tls-key", str(key)]


def test_every_command_of_the_machine_works_with_tls(tmp_path: Path, grus: RealGrus) -> None:
    tls = options(tmp_path, "DNS:localhost", "DNS:gpu.lab")
    said = grus.up(*POOL, "--host", "localhost", "--port", "0", *tls)
    server = running(GrusPaths(grus.home, grus.home / "state"))
    assert server is not None
    assert server.address.startswith("https://localhost:")
    assert "other machines" not in said  # they cannot reach localhost
    assert "to change its options: `grus down`" in grus.up("--port", "0", code=1)
    assert server.address in grus("status").stdout
    assert grus.json("dashboard")["address"].startswith(f"{server.address}/sign-in")
    assert "has ended" in grus("down").stdout
    assert server.address in grus.up()  # host, certificate, key and port are those of the last start
    grus("down")
    assert server.address in grus.up(
        *options(tmp_path, "DNS:localhost")
    )  # a renewed certificate keeps host and port


def test_others_reach_it_with_the_certificate_and_not_without(tmp_path: Path, grus: RealGrus) -> None:
    grus.up(*POOL, "--host", "localhost", "--port", "0", *options(tmp_path, "DNS:localhost", "DNS:gpu.lab"))
    server = running(GrusPaths(grus.home, grus.home / "state"))
    assert server is not None
    port = server.address.rpartition(":")[2]
    token = (grus.home / "token").read_text().strip()
    away = RealGrus(tmp_path / "away")
    there: dict[str, Any] = {"GRUS_SERVER": server.address, "GRUS_TOKEN": token}
    assert "GRUS_CA" in away("status", code=6, **there).stderr
    assert server.address in away("status", GRUS_CA=str(tmp_path / "tls.crt"), **there).stdout
    # A name of the certificate is a name of the server, though nobody listed it.
    context = ssl.create_default_context(cafile=str(tmp_path / "tls.crt"))
    connection = http.client.HTTPSConnection("localhost", int(port), context=context)
    for host, status in (("gpu.lab", 200), ("evil.example", 421)):
        connection.request("GET", "/healthz", headers={"Host": f"{host}:{port}"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
    connection.close()


def test_plain_http_against_tls_is_named_at_once_and_tls_against_plain_http(
    tmp_path: Path, grus: RealGrus
) -> None:
    grus.up(*POOL, "--host", "localhost", "--port", "0", *options(tmp_path, "DNS:localhost"))
    port = json.loads((grus.home / "state" / "listen.json").read_text())["port"]
    said = grus("ps", code=6, GRUS_SERVER=f"http://127.0.0.1:{port}").stderr
    assert f"speaks TLS. Ask for https://127.0.0.1:{port}" in said
    grus("down")
    grus.up("--host", "127.0.0.1")
    said = grus("ps", code=6, GRUS_SERVER=f"https://127.0.0.1:{port}").stderr
    assert f"does not speak TLS. Ask for http://127.0.0.1:{port}" in said


def test_a_problem_is_named_before_anything_starts(tmp_path: Path, grus: RealGrus) -> None:
    tls = options(tmp_path, "DNS:gpu.lab")
    said = grus.up(*POOL, "--host", "other.lab", *tls, code=2)
    assert "--host: is not among the names" in said
    said = grus.up(*POOL, "--host", "gpu.lab", *tls[:2], "--tls-key", str(tmp_path / "tls.crt"), code=2)
    assert "--tls-key" in said
    assert not (grus.home / "state").exists()


def test_down_ends_a_server_that_refuses_the_token(tmp_path: Path, grus: RealGrus) -> None:
    grus.up(*POOL, "--port", "0")
    grus("down", "--jobs", code=5, GRUS_TOKEN="unknown")
    assert background_process.is_running(GrusPaths(grus.home, grus.home / "state")) is not None
    done = grus("down", GRUS_TOKEN="unknown")
    assert "not listed" in done.stderr
    assert "has ended" in done.stdout


def test_up_never_stops_a_server_that_does_not_answer_it(
    grus: RealGrus, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = GrusPaths(grus.home, grus.home / "state")
    children: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def popen(*words: Any, **more: Any) -> subprocess.Popen[bytes]:
        children.append(real(*words, **more))
        return children[-1]

    monkeypatch.setenv("GRUS_HOME", str(grus.home))
    monkeypatch.setattr(background_process, "PATIENCE", 1.0)
    monkeypatch.setattr(background_process, "trouble", lambda server: "refused")
    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(GrusError, match=r"does not answer at .* \(refused\)\. It was not stopped"):
        background_process.start(at, [*POOL, "--port", "0"])
    monkeypatch.undo()
    assert background_process.is_running(at) is not None
    assert grus.json("status")["pool"]["gpus"] == 2
    grus("down")
    assert children[0].wait(60.0) == 0
