"""What one replica answers, as an app without a server around it."""

import asyncio
import json
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import pytest
import torch

from grus.serving.app import LARGEST_BODY, App
from grus.serving.json_tensors import Form
from grus.serving.model_loader import Served

SECRET = "s" * 32
PROOF = (b"authorization", f"token {SECRET}".encode())
Message = MutableMapping[str, Any]


class Lost:
    """What was told as an error of the model's."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []


def doubled(samples: torch.Tensor) -> torch.Tensor:
    if 13 in samples:
        raise RuntimeError("unlucky\nand more that nobody outside needs to know")
    return samples * 2


@pytest.fixture
def lost() -> Lost:
    return Lost()


@pytest.fixture
def app(lost: Lost) -> Iterator[App]:
    found = App(Served("doubling", Form(shape=(1,)), forward=doubled), SECRET, 8, lost.errors.append)
    yield found
    found.close()


def ask(
    app: App,
    body: bytes | object = b"",
    *,
    method: str = "POST",
    path: str = "/predict",
    headers: tuple[tuple[bytes, bytes], ...] = (PROOF,),
    leaves: bool = False,
) -> tuple[int, Any]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    messages: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]
    if leaves:
        messages.append({"type": "http.disconnect"})
    sent: list[Message] = []

    async def receive() -> Message:
        if messages:
            return messages.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": list(headers)}
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"])


def test_inputs_become_outputs_and_are_counted(app: App) -> None:
    assert ask(app, {"inputs": [[1.0], [2.0]]}) == (200, {"outputs": [[2.0], [4.0]]})
    assert (app.figures["requests"], app.figures["failed"]) == (1.0, 0.0)
    assert app.used_at is not None


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ((b"authorization", b"token wrong"),),
        ((b"authorization", b"Bearer " + SECRET.encode()),),
        (PROOF, PROOF),
    ],
)
def test_without_the_secret_nothing_is_answered(app: App, headers: tuple[tuple[bytes, bytes], ...]) -> None:
    for method, path in (("POST", "/predict"), ("GET", "/healthz"), ("GET", "/nowhere")):
        status, said = ask(app, {"inputs": [[1.0]]}, method=method, path=path, headers=headers)
        assert (status, said["error"]["code"]) == (401, "not_logged_in")
    assert app.requests == 0


def test_there_is_a_way_to_see_that_it_is_ready_and_no_other(app: App) -> None:
    assert ask(app, method="GET", path="/healthz") == (200, {"ready": True})
    assert ask(app, method="GET")[0] == 404
    assert ask(app, path="/../predict")[0] == 404


def test_what_the_model_raises_is_told_by_its_first_line(app: App, lost: Lost) -> None:
    status, said = ask(app, {"inputs": [[13.0]]})
    assert (status, said["error"]["code"]) == (422, "bad_input")
    assert "RuntimeError: unlucky" in said["error"]["message"]
    assert "nobody outside" not in json.dumps(said)
    assert [str(error).partition("\n")[0] for error in lost.errors] == ["unlucky"]
    assert app.figures["failed"] == 1.0


@pytest.mark.parametrize("body", [b"", b"{", {}, {"inputs": [[1, 2]]}, {"inputs": [["a"]]}])
def test_a_mistake_in_the_request_is_no_error_of_the_model(app: App, lost: Lost, body: object) -> None:
    status, said = ask(app, body)
    assert status == 422
    assert said["error"]["mistakes"]
    assert lost.errors == []


def test_a_body_that_is_too_large_is_refused(app: App) -> None:
    assert ask(app, b" " * (LARGEST_BODY + 1))[0] == 413


def own(predict: Callable[[Any], Any]) -> App:
    return App(Served("own", Form(), predict=predict), SECRET, 8, lambda _: None)


@pytest.mark.parametrize(
    ("predict", "status", "said"),
    [
        (lambda inputs: {"n": len(inputs)}, 200, {"outputs": {"n": 2}}),
        (lambda inputs: torch.tensor(inputs).sum(), 200, {"outputs": 3}),
        (lambda _: float("nan"), 422, None),
        (lambda _: object(), 422, None),
        (lambda _: 1 // 0, 422, None),
    ],
)
def test_a_function_of_the_users_own_gets_inputs_as_they_were_sent(
    predict: Callable[[Any], Any], status: int, said: object
) -> None:
    app = own(predict)
    try:
        found = ask(app, {"inputs": [1, 2]})
    finally:
        app.close()
    assert found[0] == status
    assert said is None or found[1] == said


def test_for_one_who_has_left_nothing_more_is_computed() -> None:
    begun: list[int] = []

    def slow(samples: torch.Tensor) -> torch.Tensor:
        begun.append(len(samples))
        return samples

    app = App(Served("slow", Form(), forward=slow), SECRET, 1, lambda _: None)
    try:
        status, said = ask(app, {"inputs": [[1.0]] * 50_000}, leaves=True)
    finally:
        app.close()
    assert (status, said["error"]["code"]) == (400, "gone")
    assert len(begun) < 50_000
