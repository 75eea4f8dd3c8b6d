"""The client: what it sends for a job, and how it waits for one."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from grus import Client, Handle, Job
from grus.api.wire_types.pool import QueueIn
from grus.model.errors import BadInput
from grus.sdk.client import _json
from grus.sdk.transport import Transport


class Pretended:
    """A server that stores nothing: it remembers requests and answers as it is told."""

    def __init__(self) -> None:
        self.seen: list[httpx2.Request] = []
        self.phases = ["pending", "running", "succeeded"]
        self.containers = False
        self.stream: Callable[[], httpx2.Response] = lambda: httpx2.Response(429, json=refusal())

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request)
        if request.headers.get("Accept") == "text/event-stream":
            return self.stream()
        if request.url.path == "/v1/graphs":
            jobs = [
                a_job(job.get("name", "job"), f"j{at}", "pending") for at, job in enumerate(self.body["jobs"])
            ]
            return httpx2.Response(201, json=jobs)
        if request.method == "POST":
            return httpx2.Response(
                201, json=a_job(self.body.get("name", "job"), f"j{len(self.seen)}", "pending")
            )
        if request.url.path == "/v1/status":
            self.seen.pop()  # asked once, before the first submission
            return httpx2.Response(200, json={"version": "0", "now": "", "containers": self.containers})
        phase = self.phases.pop(0) if len(self.phases) > 1 else self.phases[0]
        return httpx2.Response(200, json=a_job("job", "j1", phase))

    @property
    def body(self) -> dict[str, Any]:
        found = json.loads(self.seen[-1].content)
        assert isinstance(found, dict)
        return found


def a_job(name: str, number: str, phase: str) -> dict[str, Any]:
    whole = {"type": "train", "queue": "default", "user": "ada", "status": phase, "desired": "run"}
    return {**whole, "id": number, "name": name, "phase": phase}


def refusal() -> dict[str, Any]:
    return {"error": {"code": "too_many_streams", "message": "full"}}


@pytest.fixture
def server() -> Pretended:
    return Pretended()


@pytest.fixture
def transport(server: Pretended, monkeypatch: pytest.MonkeyPatch) -> Transport:
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setenv("VIRTUAL_ENV", "/venv")
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    return Transport(
        "http://127.0.0.1:1", "t", timeout=1, patience=0, env={}, backend=httpx2.MockTransport(server)
    )


@pytest.fixture
def client(transport: Transport) -> Client:
    return Client(transport=transport)


def test_to_a_server_with_containers_nothing_of_this_machine_is_sent_and_that_is_said(
    server: Pretended, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, transport: Transport
) -> None:
    server.containers = True
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    client = Client(transport=transport, notice=said.append)
    client.submit(f"run: python train.py\nworkdir: {tmp_path}\nenv: {{EPOCHS: '3'}}")
    assert server.body.get("workdir", "") == ""
    assert server.body["env"] == {"EPOCHS": "3"}
    assert "Not sent: PATH, VIRTUAL_ENV, the folder" in said[0]
    assert str(tmp_path) in said[0]
    assert "must be in the image" in said[0]
    client.submit({"run": "x", "workdir": "/only/in/the/image", "env": {"PATH": "/mine"}})
    assert (server.body["workdir"], server.body["env"]) == ("/only/in/the/image", {"PATH": "/mine"})
    client.submit_stages([{"name": "a", "run": "x"}, {"name": "b", "run": "x", "after": ["a"]}])
    assert all("PATH" not in job.get("env", {}) for job in server.body["jobs"])
    with pytest.warns(UserWarning, match="Not sent: PATH"):
        Client(transport=transport).submit({"run": "x"})


def test_a_job_is_sent_with_its_folder_and_the_way_to_its_python(client: Client, server: Pretended) -> None:
    client.submit(Job(run="python train.py", gpu="2..8"))
    assert server.body["workdir"] == str(Path.cwd())
    assert server.body["env"] == {"PATH": "/bin", "VIRTUAL_ENV": "/venv"}
    assert server.body["resources"] == {"gpu": "2..8"}
    assert server.seen[-1].headers["Authorization"] == "Bearer t"


def test_what_the_job_says_goes_before_where_it_comes_from(client: Client, server: Pretended) -> None:
    client.submit({"run": "x", "workdir": "/data", "env": {"PATH": "/mine"}})
    assert server.body["workdir"] == "/data"
    assert server.body["env"]["PATH"] == "/mine"


def test_a_section_finds_the_python_of_the_active_environment_first(
    client: Client, server: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.submit(Job(train={"make": "train.py:make"}))
    assert server.body["env"]["PATH"] == "/venv/bin:/bin"
    assert server.body["train"] == {"make": "train.py:make"}
    monkeypatch.delenv("VIRTUAL_ENV")
    client.submit(Job(train={"make": "train.py:make"}))
    assert server.body["env"]["PATH"] == f"{Path(sys.executable).parent}:/bin"


def test_each_submit_has_a_key_of_its_own_unless_one_is_given(client: Client, server: Pretended) -> None:
    for key in (None, None, "mine"):
        client.submit({"run": "x"}, key=key)
    keys = [request.headers["Idempotency-Key"] for request in server.seen]
    assert len(set(keys)) == 3
    assert keys[2] == "mine"


def test_the_text_of_a_job_file_can_be_submitted(client: Client, server: Pretended) -> None:
    assert isinstance(client.submit("run: python train.py\nname: resnet\n"), Handle)
    assert server.body["name"] == "resnet"


def test_several_documents_are_stages_and_not_one_job(client: Client, server: Pretended) -> None:
    with pytest.raises(BadInput, match="submit_stages"):
        client.submit("run: a\n---\nrun: b\n")
    assert server.seen == []


def test_stages_are_sent_together_under_one_key(client: Client, server: Pretended) -> None:
    first, second = client.submit_stages(
        [
            {"name": "prepare", "run": "a", "outputs": ["d"]},
            {"name": "train", "run": "b", "inputs": {"d": "prepare.d"}},
        ],
        key="k",
        fresh=True,
    )
    (request,) = server.seen
    assert (request.url.path, request.headers["Idempotency-Key"]) == ("/v1/graphs", "k")
    assert server.body["fresh"] is True
    sent = server.body["jobs"]
    assert [job["env"]["PATH"] for job in sent] == ["/bin", "/bin"]
    assert sent[1]["inputs"] == {"d": "prepare.d"}
    assert (first.job.name, second.job.name) == ("prepare", "train")


def test_one_job_that_leaves_nothing_is_no_graph(client: Client, server: Pretended) -> None:
    client.submit_stages([{"run": "a"}])
    assert server.seen[-1].url.path == "/v1/jobs"


def test_mistakes_are_found_before_anything_is_sent(client: Client, server: Pretended) -> None:
    with pytest.raises(BadInput):
        client.submit({"run": "x", "gpus": 3})
    assert server.seen == []


@pytest.mark.parametrize(
    ("send", "field"),
    [
        (lambda client: client.submit({"run": 3}), "run"),
        (lambda client: client.put_queue("a", {"quota": "x"}), "quota"),
        (lambda client: client.put_user("a", {"role": "king"}), "role"),
        (lambda client: client.new_token({}), "user"),
        (lambda client: client.scale("j1", "many"), "size"),
    ],
)
def test_every_input_is_refused_in_the_same_words(
    client: Client, server: Pretended, send: Callable[[Client], object], field: str
) -> None:
    with pytest.raises(BadInput) as caught:
        send(client)
    assert [mistake.field for mistake in caught.value.mistakes] == [field]
    assert server.seen == []


def test_a_queue_with_whole_gpus_is_sent_without_a_warning() -> None:
    assert json.loads(_json(QueueIn(quota=4, reserved=1, limit=8))) == {"quota": 4, "reserved": 1, "limit": 8}


def test_a_key_makes_stages_repeatable(client: Client, server: Pretended) -> None:
    for _ in range(2):
        client.submit_stages([{"run": "a"}, {"run": "b"}], key="nightly")
    keys = [request.headers["Idempotency-Key"] for request in server.seen]
    assert keys == ["nightly", "nightly"]


def test_waiting_looks_now_and_then_where_no_stream_is_to_be_had(client: Client, server: Pretended) -> None:
    pauses: list[float] = []
    assert client.handle("j1").wait(pause=pauses.append).phase == "succeeded"
    assert pauses


def test_waiting_ends_with_the_stream_of_the_job(client: Client, server: Pretended) -> None:
    end = "event: end\ndata: {}\n\n"
    headers = {"Content-Type": "text/event-stream"}
    server.stream = lambda: httpx2.Response(200, headers=headers, text=end)
    assert client.handle("j1").wait(pause=lambda _: pytest.fail("no need to look")).phase == "succeeded"


def test_waiting_too_long_is_a_timeout(client: Client, server: Pretended) -> None:
    server.phases = ["running"]
    with pytest.raises(TimeoutError, match="still running"):
        client.handle("j1").wait(timeout=0.0)


@pytest.mark.parametrize("size", [4, "2..6", "auto"])
def test_scale_sends_the_size_as_it_was_written(client: Client, server: Pretended, size: int | str) -> None:
    client.handle("j1").scale(size)
    assert server.body == {"size": size}


def test_names_cannot_leave_their_place_in_the_path(client: Client, server: Pretended) -> None:
    client.job("../users/admin?x=1#y")
    assert server.seen[-1].url.raw_path == b"/v1/jobs/..%2Fusers%2Fadmin%3Fx%3D1%23y"
