"""What a registry says of an image, against a small one on loopback."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from grus.compare import registry
from grus.compare.environments import Check, PreflightStatus
from grus.compare.registry import image_of

MANIFEST = json.dumps({"schemaVersion": 2}).encode()
DIGEST = f"sha256:{hashlib.sha256(MANIFEST).hexdigest()}"
OTHER = f"sha256:{'0' * 64}"
WHO = base64.b64encode(b"ada:grey").decode()


class Small(BaseHTTPRequestHandler):
    """One image, team/train:3. With `closed` set on the server, only for ada, who gets a token first."""

    server: "Registry"

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path == "/token":
            right = self.headers.get("Authorization") == f"Basic {WHO}" and "scope=" in query
            self.answer(200 if right else 401, json.dumps({"token": "secret"} if right else {}).encode())
        elif not self.refused():
            there = path in (f"/v2/team/train/manifests/{name}" for name in ("3", DIGEST))
            self.answer(200 if there else 404, MANIFEST if there else b"{}")

    def do_POST(self) -> None:
        if self.refused():
            return
        self.server.uploads.add("one")
        self.answer(202, b"", Location="/v2/team/train/blobs/uploads/one")

    def do_DELETE(self) -> None:
        self.server.uploads.discard(self.path.rpartition("/")[2])
        self.answer(204, b"")

    def refused(self) -> bool:
        if not self.server.closed or self.headers.get("Authorization") == "Bearer secret":
            return False
        where = f"http://{self.headers['Host']}/token"
        wanted = f'Bearer realm="{where}",service="small",scope="repository:team/train:pull,push"'
        self.answer(401, b"", **{"WWW-Authenticate": wanted})
        return True

    def answer(self, code: int, body: bytes, **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


class Registry(ThreadingHTTPServer):
    closed = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Small)
        self.uploads: set[str] = set()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with Registry() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def checks(image: str, image_id: str = "", *, never_pulled: bool = False) -> dict[str, Check]:
    return {one.name: one for one in registry.checks(image, image_id, never_pulled=never_pulled)}


def test_an_image_by_its_digest_is_pulled_and_pushed_and_nothing_is_left(small: Registry) -> None:
    found = checks(f"{small.host}/team/train@{DIGEST}")
    assert [str(one.verdict) for one in found.values()] == ["ok", "ok"]
    assert found["registry pull"].found == DIGEST
    assert small.uploads == set()


def test_a_tag_may_change_so_the_digest_to_write_is_told(small: Registry) -> None:
    pull = checks(f"{small.host}/team/train:3", f"containerd://{DIGEST}")["registry pull"]
    assert pull.verdict is PreflightStatus.WARNING
    assert f"{small.host}/team/train@{DIGEST}" in pull.fix


def test_a_node_that_ran_an_older_image_of_the_tag_is_found_out(small: Registry) -> None:
    pull = checks(f"{small.host}/team/train:3", f"{small.host}/team/train@{OTHER}")["registry pull"]
    assert f"the node ran {OTHER}" in pull.found


def test_an_image_that_is_not_there_is_told_with_its_tag(small: Registry) -> None:
    pull = checks(f"{small.host}/team/train:4")["registry pull"]
    assert (str(pull.verdict), "4: 404" in pull.found) == ("warning", True)


def test_a_closed_registry_takes_what_docker_login_has_kept(small: Registry, tmp_path: Path) -> None:
    small.closed = True
    image = f"{small.host}/team/train@{DIGEST}"
    assert {str(one.verdict) for one in checks(image).values()} == {"warning"}
    (tmp_path / "config.json").write_text(json.dumps({"auths": {small.host: {"auth": WHO}}}))
    assert {str(one.verdict) for one in checks(image).values()} == {"ok"}


def test_a_registry_that_does_not_answer_is_told() -> None:
    pull = checks("127.0.0.1:9/team/train:3")["registry pull"]
    assert (str(pull.verdict), "127.0.0.1:9 does not answer" in pull.found) == ("warning", True)


def test_pods_that_never_pull_need_no_registry() -> None:
    assert {str(one.verdict) for one in checks("localhost/x:1", never_pulled=True).values()} == {
        "not applicable"
    }


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("train", ("", "train", "latest")),
        ("team/train:3", ("", "team/train", "3")),
        ("localhost/train", ("localhost", "train", "latest")),
        ("host.example:5000/a/b:v1.2", ("host.example:5000", "a/b", "v1.2")),
        (f"host.example/a@{DIGEST}", ("host.example", "a", DIGEST)),
    ],
)
def test_a_name_is_taken_apart(name: str, parts: tuple[str, str, str]) -> None:
    image = image_of(name)
    assert image is not None
    assert (image.host, image.path, image.reference) == parts


@pytest.mark.parametrize(
    "name", ["host.example/../x", "host.example/a?b=c", "host.example/a@sha256:1", "A B"]
)
def test_what_is_no_name_never_becomes_an_address(name: str) -> None:
    assert image_of(name) is None
