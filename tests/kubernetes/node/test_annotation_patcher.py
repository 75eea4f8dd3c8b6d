"""What the agent says arrives, newest first, in spite of an API server that does not always answer."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from grus.kubernetes.client.errors import Invalid, Missing, Unreachable
from grus.kubernetes.node.annotation_patcher import Address, Notes, Send, Writer
from tests.contracts.engine_contract import until

ONE, OTHER = Address("team", "one", "1"), Address("team", "other", "2")


class Server:
    """Takes what is said, once it is let; fails as told."""

    def __init__(self) -> None:
        self.said: list[tuple[str, dict[str, str | None]]] = []
        self.failures: list[Exception] = []
        self.open = threading.Event()
        self.open.set()
        self.waiting = threading.Semaphore(0)

    def __call__(self, pod: Address, notes: Notes) -> None:
        self.waiting.release()
        self.open.wait(20)
        if self.failures:
            raise self.failures.pop(0)
        self.said.append((pod.name, dict(notes)))


@contextmanager
def writing(server: Send) -> Iterator[Writer]:
    writer = Writer(server, again=0.01)
    yield writer
    writer.close()


def test_while_one_word_is_on_its_way_the_newest_of_the_others_wins() -> None:
    server = Server()
    server.open.clear()
    with writing(server) as writer:
        writer.put(ONE, {"said": "1"})
        assert server.waiting.acquire(timeout=300)
        for number in range(2, 100):
            writer.put(ONE, {"said": str(number)})
        writer.put(ONE, {"read": "true"})
        server.open.set()
    assert server.said == [("one", {"said": "1"}), ("one", {"said": "99", "read": "true"})]


def test_one_pod_does_not_wait_for_another() -> None:
    server = Server()
    stuck = threading.Event()

    def send(pod: Address, notes: Notes) -> None:
        if pod == ONE:
            stuck.wait(20)
        server(pod, notes)

    with writing(send) as writer:
        writer.put(ONE, {"said": "1"})
        writer.put(OTHER, {"said": "2"})
        until(lambda: server.said)
        assert server.said == [("other", {"said": "2"})]
        stuck.set()


def test_what_could_not_be_said_is_said_again_unless_there_is_something_newer() -> None:
    server = Server()
    server.failures = [Unreachable("away"), Unreachable("away")]
    with writing(server) as writer:
        writer.put(ONE, {"said": "old", "uuids": "x"})
        writer.put(ONE, {"said": "new"})
        until(lambda: server.said)
    assert server.said[-1][1]["said"] == "new"
    assert {**server.said[0][1], **server.said[-1][1]} == {"said": "new", "uuids": "x"}


@pytest.mark.parametrize(
    "refusal",
    [Missing(404, "NotFound", "gone"), Invalid(422, "Invalid", "too long"), ValueError("a defect")],
    ids=["gone", "bad", "defect"],
)
def test_what_is_refused_is_not_said_again(refusal: Exception) -> None:
    server = Server()
    server.failures = [refusal]
    with writing(server) as writer:
        writer.put(ONE, {"said": "1"})
        until(lambda: not server.failures)
        writer.put(OTHER, {"said": "2"})
        until(lambda: server.said)
    assert server.said == [("other", {"said": "2"})]


def test_what_is_waiting_at_the_end_is_said_once() -> None:
    server = Server()
    server.open.clear()
    writer = Writer(server)
    writer.put(ONE, {"said": "1"})
    assert server.waiting.acquire(timeout=300)
    writer.put(ONE, {"read": "true"})
    server.failures = [Unreachable("away")]
    server.open.set()
    writer.close()
    assert server.said == [("one", {"read": "true"})]
