"""The load is what it says: due in advance, charged for stalls, on a past that is as real as any."""

import threading
import time
from pathlib import Path
from typing import cast

from grus.controlplane.integrity.check import check
from tests.trust import history, load
from tests.trust.load import Asked, LoadedServer, on_time


def test_the_past_is_one_that_an_examination_finds_nothing_wrong_with(tmp_path: Path) -> None:
    now = time.time()
    assert history.make(tmp_path / "grus.db", 50, now - 1000, now) == 50 * history.EVENTS
    verdict = check(tmp_path / "grus.db")
    assert verdict.findings == ()
    assert (verdict.jobs, verdict.events) == (50, 500)


class Stalls:
    """Answers at once, but for the first request, which takes half a second."""

    def __init__(self) -> None:
        self.begun = False
        self.lock = threading.Lock()

    def connect(self) -> "Stalls":
        return self

    def close(self) -> None:
        pass

    def ask(self, *_: object) -> tuple[int, bytes]:
        with self.lock:
            if not self.begun:
                self.begun = True
                time.sleep(0.5)  # not for anything to happen: this is the stall that must be seen
        return 201, b""


def test_a_stall_is_charged_to_all_who_were_due_meanwhile() -> None:
    asked, begin = Asked(), time.monotonic()
    server = cast(LoadedServer, Stalls())
    ask = load.asking("GET", "/")
    threads = on_time(server, asked, ask, rate=100.0, until=begin + 1.0, begin=begin, clients=2)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(asked.seconds) == 100
    assert sum(one > 0.1 for one in asked.seconds) >= 35  # those of the first half second, not one
    assert asked.percentile(0.99) >= 400


def test_a_refused_request_is_an_error(tmp_path: Path) -> None:
    class Refuses(Stalls):
        def ask(self, *_: object) -> tuple[int, bytes]:
            return 503, b"no"

    asked, begin = Asked(), time.monotonic()
    [thread] = on_time(
        cast(LoadedServer, Refuses()), asked, load.asking("GET", "/"), 100.0,
        begin + 0.05, begin, 1,
    )  # fmt: skip
    thread.start()
    thread.join()
    assert len(asked.errors) == 5
