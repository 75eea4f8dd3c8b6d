"""A request that a signal brings reaches whoever waits for it, at whatever moment it comes."""

import itertools
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

import pytest

from grus.sdk.sigterm import SignalFlag


def test_it_is_not_set_until_it_is_and_then_for_good() -> None:
    asked = SignalFlag()
    assert not asked.is_set()
    assert not asked.wait(0.0)
    assert not asked.wait(0.01)
    asked.set()
    asked.set()
    assert asked.is_set()
    assert asked.wait()
    assert asked.wait(0.0)


def test_whoever_waits_without_end_is_woken_by_another_thread() -> None:
    asked = SignalFlag()
    heard: list[bool] = []
    waiting = threading.Thread(target=lambda: heard.append(asked.wait()))
    waiting.start()
    asked.set()
    waiting.join(10)
    assert heard == [True]


def test_its_counter_goes_with_it() -> None:
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(100):
        SignalFlag().set()
    assert len(os.listdir("/proc/self/fd")) <= len(before) + 1


@pytest.mark.parametrize(("line", "seconds"), [(0, 60), (1, 60), (2, 60), (3, 0)], ids=str)
def test_a_signal_that_comes_at_any_line_of_the_waiting_is_heard(line: int, seconds: int) -> None:
    """At some lines of `threading.Event.wait` the handler would wait for a lock that its own thread holds."""
    asked, passed = SignalFlag(), itertools.count()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code is not SignalFlag.wait.__code__:
            return None
        if event == "line" and next(passed) == line:
            signal.raise_signal(signal.SIGUSR1)
        return trace

    before = signal.signal(signal.SIGUSR1, lambda *_: asked.set())
    traced = sys.gettrace()
    sys.settrace(trace)
    try:
        assert asked.wait(seconds)  # at the last line the waiting is over
    finally:
        sys.settrace(traced)
        signal.signal(signal.SIGUSR1, before)
    assert next(passed) > line
