"""Copies of what workers printed: whole, without repeats, and without a kubelet's excuses."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from grus.engines.kubernetes.logs import Copy, Logs, LogSource, after, printed, take
from grus.kubernetes.client.api import Api
from grus.kubernetes.client.errors import Refused
from grus.model.errors import NotFound
from grus.model.identifiers import JobId, WorkerId

GONE = b"unable to retrieve container logs for containerd://0a1b"
LATE = b'rpc error: code = NotFound desc = an error occurred when try to find container "0a1b": not found'
ENDED = LogSource("team", "p", "main", True)
LIVING = LogSource("team", "p", "main", False)
WORKER, JOB = WorkerId("j1.1.main.0.1"), JobId("j1")


class Kubelet:
    """Gives what a container printed; in place of an Api."""

    def __init__(self, text: bytes | None) -> None:
        self.text = text
        self.asked = 0

    @contextmanager
    def log(self, *_: Any, **__: Any) -> Iterator[Iterator[bytes]]:
        self.asked += 1
        if self.text is None:
            raise Refused(400, "BadRequest", "container is waiting to start")
        yield iter([self.text[i : i + 3] for i in range(0, len(self.text), 3)])


def api(kubelet: Kubelet) -> Api:
    return cast(Api, kubelet)


def text_of(logs: Logs, source: LogSource | None = LIVING) -> bytes:
    return logs.read(WORKER, JOB, source, 0, 10_000)[0]


def test_a_kubelets_excuses_are_no_output() -> None:
    assert b"".join(printed(iter([GONE]))) == b""
    assert b"".join(printed(iter([b"saved\n", LATE]))) == b"saved\n"
    assert b"".join(printed(iter([b"saved\nhalf" + LATE]))) == b"saved\nhalf"
    assert b"".join(printed(iter([LATE + b" and more\n"]))) == LATE + b" and more\n"


def test_what_is_known_is_skipped() -> None:
    assert b"".join(after(iter([b"abc", b"def", b"ghi"]), 4, b"cd")) == b"efghi"
    assert b"".join(after(iter([b"abc"]), 0, b"")) == b"abc"
    assert b"".join(after(iter([]), 4, b"cd")) == b""


def test_a_log_that_grows_is_copied_once(tmp_path: Path) -> None:
    kubelet = Kubelet(b"one\n")
    copy = Copy(tmp_path / "log")
    for text in (b"one\n", b"one\ntwo\n", b"one\ntwo\nthree\n"):
        kubelet.text = text
        take(copy, api(kubelet), LIVING)
    assert copy.writer is not None
    assert copy.writer.tail(100) == b"one\ntwo\nthree\n"
    again = Copy(tmp_path / "log")
    take(again, api(kubelet), LIVING)
    assert again.writer is not None
    assert again.writer.tail(100) == b"one\ntwo\nthree\n"


def test_output_that_the_kubelet_has_rotated_away_is_kept_here(tmp_path: Path) -> None:
    kubelet = Kubelet(b"".join(b"%d\n" % i for i in range(1000)))
    copy = Copy(tmp_path / "log")
    take(copy, api(kubelet), LIVING)
    for text in (range(900, 1100), range(1050, 1200)):
        kubelet.text = b"".join(b"%d\n" % i for i in text)
        take(copy, api(kubelet), LIVING)
    assert copy.writer is not None
    found = [int(line) for line in copy.writer.tail(100_000).split()]
    assert found == list(range(1200))


def test_a_worker_that_has_not_printed_has_an_empty_log(tmp_path: Path) -> None:
    assert text_of(Logs(api(Kubelet(None)), tmp_path)) == b""


def test_the_whole_log_of_an_ended_worker_is_fetched_once(tmp_path: Path) -> None:
    kubelet = Kubelet(b"all\n")
    logs = Logs(api(kubelet), tmp_path)
    assert text_of(logs, ENDED) == text_of(logs, ENDED) == b"all\n"
    assert kubelet.asked == 1


def test_a_forgotten_workers_log_is_kept_until_it_is_removed(tmp_path: Path) -> None:
    logs = Logs(api(Kubelet(b"all\n")), tmp_path)
    logs.keep(WORKER, JOB, ENDED)
    assert logs.kept(WORKER).is_dir()
    logs.remove(JOB)
    with pytest.raises(NotFound, match=re.escape(WORKER)):
        logs.kept(WORKER)
