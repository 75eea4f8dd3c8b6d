"""Keys to be looked at: each once at a time, none forgotten."""

import threading

from grus.concurrency.workqueue import WorkQueue


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_key_comes_once_however_often_it_was_added() -> None:
    work: WorkQueue[str] = WorkQueue()
    for _ in range(3):
        work.add("a")
    work.add("b")
    assert (work.take(), work.take()) == ("a", "b")


def test_a_key_that_changes_while_somebody_works_on_it_comes_again_afterwards() -> None:
    work: WorkQueue[str] = WorkQueue()
    work.add("a")
    assert work.take() == "a"
    work.add("a")
    work.add("b")
    assert work.take() == "b"
    work.done("a")
    assert work.take() == "a"


def test_a_key_that_failed_comes_again_after_a_pause_that_grows() -> None:
    clock = Clock()
    work: WorkQueue[str] = WorkQueue(clock)
    work.add("a")
    waited: list[float] = []
    for _ in range(3):
        assert work.take() == "a"
        work.failed("a")
        before = clock.now
        work.add("b")
        assert work.take() == "b"  # a is not due yet
        work.done("b")
        clock.now += 0.2 * 2 ** len(waited)
        waited.append(clock.now - before)
    assert work.take() == "a"
    assert waited == sorted(waited)


def test_closing_ends_the_waiting() -> None:
    work: WorkQueue[str] = WorkQueue()
    ends: list[str | None] = []
    waiting = threading.Thread(target=lambda: ends.append(work.take()))
    waiting.start()
    work.close()
    waiting.join(timeout=300)
    assert ends == [None]
