"""Calls in order within a lane, side by side between lanes."""

import threading
from collections.abc import Iterator

import pytest

from grus.engines.kubernetes.keyed_executor import Lanes, Later
from grus.model.errors import Unreachable

PATIENCE = 300.0


@pytest.fixture
def lanes() -> Iterator[Lanes]:
    made = Lanes(4)
    yield made
    made.close()


def test_a_lane_keeps_its_order_and_lanes_do_not_wait_for_each_other(lanes: Lanes) -> None:
    gate = threading.Event()
    done: list[int] = []

    def wait() -> None:
        gate.wait(PATIENCE)

    lanes.submit("slow", wait)
    for number in range(50):
        lanes.submit("slow", lambda number=number: done.append(number))  # type: ignore[misc]  # a default
    assert lanes.settle("quick", PATIENCE)
    assert done == []
    gate.set()
    assert lanes.settle("slow", PATIENCE)
    assert done == list(range(50))
    assert not lanes.busy("quick")


def test_what_cannot_be_done_yet_is_done_later_and_holds_up_its_own_lane_only(lanes: Lanes) -> None:
    ready = threading.Event()
    done: list[str] = []

    def first() -> None:
        if not ready.is_set():
            raise Later(0.01)
        done.append("first")

    lanes.submit("a", first)
    lanes.submit("a", lambda: done.append("second"))
    assert lanes.settle("b", PATIENCE)
    assert done == []
    ready.set()
    assert lanes.settle("a", PATIENCE)
    assert done == ["first", "second"]


def test_a_server_that_does_not_answer_is_asked_again(lanes: Lanes) -> None:
    troubles = iter([Unreachable("away"), Unreachable("away")])
    done: list[str] = []

    def call() -> None:
        for trouble in troubles:
            raise trouble
        done.append("call")

    lanes.submit("a", call)
    assert lanes.settle("a", PATIENCE)
    assert done == ["call"]


def test_a_call_that_fails_does_not_stop_those_after_it(
    lanes: Lanes, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []
    lanes.submit("a", lambda: [][0])
    lanes.submit("a", lambda: done.append("next"))
    assert lanes.settle("a", PATIENCE)
    assert done == ["next"]
    assert "a call for a failed" in caplog.text
