"""Network bytes of processes: their own connections' only, also of those that are closed by now."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from grus.telemetry.counter_rates import rates
from grus.telemetry.network_traffic import Traffic, interfaces
from grus.telemetry.samples import Measure
from tests.contracts.engine_contract import until
from tests.telemetry.usages import a_usage

CHILD = """
import socket, sys
connection = None
for line in sys.stdin:
    word, number = line.split()
    if word == "connect":
        connection = socket.create_connection(("127.0.0.1", int(number)))
    elif word == "send":
        connection.sendall(bytes(int(number)))
    else:
        connection.close()
    print(word, flush=True)
"""


class Child:
    """A process that connects and sends when it is told to."""

    def __init__(self, stack: ExitStack) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        stack.enter_context(self._process)
        stack.callback(self._process.kill)
        self.pid = self._process.pid

    def does(self, word: str, number: int = 0) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word} {number}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == f"{word}\n"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connected(child: Child, stack: ExitStack) -> socket.socket:
    """Our end of a new connection of the child's."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        child.does("connect", server.getsockname()[1])
        return stack.enter_context(server.accept()[0])


def drained(end: socket.socket, size: int) -> None:
    while size:
        size -= len(end.recv(min(size, 1 << 20)))


def test_bytes_are_those_of_the_process_that_has_the_connection(stack: ExitStack) -> None:
    one, other = Child(stack), Child(stack)
    end = connected(one, stack)
    traffic: Traffic[str] = Traffic()
    groups = {"one": [one.pid], "other": [other.pid]}
    before = traffic.count(groups, 0)["one"]
    one.does("send", 3_000_000)
    drained(end, 3_000_000)
    end.sendall(bytes(1000))
    clock = iter(range(2, 10_000, 2))
    # What was sent is acknowledged a moment later.
    until(lambda: traffic.count(groups, next(clock))["one"].sent - before.sent >= 3_000_000)
    after = traffic.count(groups, next(clock))
    assert after["one"].sent - before.sent == 3_000_000
    assert after["one"].received - before.received == 1000
    assert after["other"][1:] == (0, 0)


def test_what_went_over_a_connection_stays_counted_when_it_is_closed(stack: ExitStack) -> None:
    child = Child(stack)
    traffic: Traffic[str] = Traffic()
    clock = iter(range(0, 100_000, 2))
    sums: list[int] = []
    for size in (50_000, 70_000):
        end = connected(child, stack)
        end.sendall(bytes(size))
        before = sum(sums)
        until(
            lambda before=before, size=size: (  # type: ignore[misc]  # mypy does not know its defaults
                traffic.count({"a": [child.pid]}, next(clock))["a"].received == before + size
            )
        )
        child.does("close")
        sums.append(size)
    assert traffic.count({"a": [child.pid]}, next(clock))["a"].received == 120_000


def test_it_is_counted_once_a_second_at_most_and_says_when(stack: ExitStack) -> None:
    child = Child(stack)
    traffic: Traffic[str] = Traffic(every=1)
    assert traffic.count({"a": [child.pid]}, 100.0)["a"].at == 100
    connected(child, stack)
    assert traffic.count({"a": [child.pid]}, 100.9)["a"].at == 100
    assert traffic.count({"a": [child.pid]}, 101.0)["a"].at == 101


def test_a_process_that_has_ended_has_no_more_to_count_and_is_no_error() -> None:
    with subprocess.Popen(["/bin/true"]) as ended:
        ended.wait()
    traffic: Traffic[str] = Traffic()
    assert traffic.count({"a": [ended.pid]}, 0)["a"][1:] == (0, 0)
    assert traffic.count({}, 5) == {}


def test_a_process_that_may_not_be_looked_at_is_unknown_and_not_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "listdir", refused)
    assert Traffic[str]().count({"a": [os.getpid()]}, 0) == {}


def test_a_network_of_its_own_is_counted_by_its_interfaces_without_the_loopback(tmp_path: Path) -> None:
    file = tmp_path / "dev"
    file.write_text(
        "Inter-|   Receive                                                |  Transmit\n"
        " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n"
        "    lo: 9999 4 0 0 0 0 0 0 9999 4 0 0 0 0 0 0\n"
        "  eth0: 1500 10 0 0 0 0 0 0 700 9 0 0 0 0 0 0\n"
        "  eth1:20 1 0 0 0 0 0 0 30 1 0 0 0 0 0 0\n"
    )
    assert interfaces(str(file)) == (1520, 730)
    assert interfaces(str(tmp_path / "gone")) is None


def test_rates_are_absent_between_two_counts_and_where_a_counter_began_anew() -> None:
    first = a_usage(at=10, cpu=5, disk_read=100, disk_write=50, network_in=10, network_out=0, network_at=10)
    same = a_usage(at=10.5, cpu=6, disk_read=300, disk_write=20, network_in=10, network_out=0, network_at=10)
    assert rates(None, first) == {Measure.HOST_MEMORY: 1}
    assert rates(first, same) == {Measure.HOST_MEMORY: 1, Measure.CPU: 2, Measure.DISK_READ: 400}
    later = a_usage(at=12, cpu=6, disk_read=None, disk_write=20, network_in=50, network_out=8, network_at=12)
    assert rates(same, later) == {
        Measure.HOST_MEMORY: 1,
        Measure.CPU: 0,
        Measure.DISK_WRITE: 0,
        Measure.NETWORK_IN: 20,
        Measure.NETWORK_OUT: 4,
    }
