"""Background thread: a step that repeats, is woken, survives errors and ends."""

import queue
import threading

from grus.concurrency.background_thread import BackgroundThread

SOON = 60.0


def test_the_first_step_waits_for_a_wake_if_it_is_told_to() -> None:
    steps: queue.Queue[int] = queue.Queue()
    thread = BackgroundThread("test", lambda: steps.put(1), first=None)
    thread.start()
    assert steps.empty()
    thread.wake()
    assert steps.get(timeout=SOON) == 1
    thread.close()
    assert steps.empty()


def test_a_step_follows_after_the_pause_that_the_last_one_returned() -> None:
    steps: queue.Queue[float | None] = queue.Queue()
    pauses = iter([0.0, 0.001, None])

    def step() -> float | None:
        pause = next(pauses)
        steps.put(pause)
        return pause

    thread = BackgroundThread("test", step)
    thread.start()
    assert [steps.get(timeout=SOON) for _ in range(3)] == [0.0, 0.001, None]
    thread.close()


def test_a_wake_during_a_step_brings_one_more_step() -> None:
    began, may_end = threading.Semaphore(0), threading.Semaphore(0)

    def step() -> None:
        began.release()
        may_end.acquire(timeout=SOON)

    thread = BackgroundThread("test", step)
    thread.start()
    assert began.acquire(timeout=SOON)
    thread.wake()
    thread.wake()
    may_end.release()
    assert began.acquire(timeout=SOON)
    may_end.release(2)
    thread.close()
    assert not began.acquire(blocking=False)


def test_a_step_that_fails_is_repeated() -> None:
    steps: queue.Queue[str] = queue.Queue()
    results = iter(["fails", "fails", "works"])

    def step() -> None:
        steps.put(result := next(results))
        if result == "fails":
            raise ValueError("not yet")

    thread = BackgroundThread("test", step, retry=0.001)
    thread.start()
    assert [steps.get(timeout=SOON) for _ in range(3)] == ["fails", "fails", "works"]
    thread.close()
    assert steps.empty()


def test_a_last_step_follows_the_close() -> None:
    seen: list[bool] = []
    thread = BackgroundThread("test", lambda: seen.append(thread.closing.is_set()), first=None, finish=True)
    thread.start()
    thread.close()
    assert seen == [True]


def test_a_step_may_end_its_own_thread() -> None:
    steps: queue.Queue[int] = queue.Queue()

    def step() -> float:
        steps.put(1)
        thread.close()
        return 0.0

    thread = BackgroundThread("test", step)
    thread.start()
    assert steps.get(timeout=SOON) == 1
    thread._thread.join(SOON)
    assert not thread._thread.is_alive()
    assert steps.empty()
