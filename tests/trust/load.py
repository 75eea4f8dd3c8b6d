"""Load on a server with a long past: `python -m tests.trust.load [--minutes 1] [--rate 200] [--history N]`.

The past is made at once in the file: ended jobs, ten events each. Then clients submit at a fixed rate: when
each request is due is decided in advance, and its latency counts from then, however late it could be sent
(an open loop, so that a server that stalls is charged for all who would have come). Lists, explanations and
events are asked for at the same time. The jobs wait for a GPU that is taken, so that only taking them is
measured: jobs that ran would be processes of the machine under test. Retention goes by every few seconds,
not every hour, and has a tenth of the past to remove. One JSON line; exit code 1 if a request failed, or if
on a quiet machine the 99th percentile of a submit is above the aim.
"""

import argparse
import http.client
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.grus_server import Connection
from benchmarks.machine import wait_for, wait_until_quiet
from tests.server.process import ServerProcess
from tests.trust import history

AIM_MS = 100.0
"""Of a submit's 99th percentile."""
QUIET = 0.25
"""Share of the machine that others may use for the aim to be held against."""
SUBMITTERS = 16
READS_PER_S = 5.0
"""Of each kind."""
RETENTION = 10.0
"""Seconds between two prunes; what is older than `KEPT` goes."""
KEPT = 86400.0
MARK = 5.0
"""Seconds between two looks at the server's memory."""
FULL = {
    "name": "full",
    "run": ["/bin/sleep", "3600"],
    "resources": {"gpu": 1},
    "workdir": "/",
    "checkpoint": {"grace": "1s"},
}
WAITS = {"name": "waits", "run": "/bin/true", "resources": {"gpu": 1}, "workdir": "/"}
CONFIG = """[server]
port = 0
pool = "virtual 1x1x1GB"
requests_per_second = 1000000
[retention]
events = "1d"
jobs = "1d"
"""


@dataclass(slots=True)
class Asked:
    """One kind of request: latencies from when each was due, in seconds, and what went wrong."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        """In milliseconds."""
        ordered = sorted(self.seconds)
        return round(1000 * ordered[max(0, math.ceil(share * len(ordered)) - 1)], 1) if ordered else math.inf


@dataclass(slots=True, kw_only=True)
class Figures:
    rate: float
    minutes: float
    history_jobs: int
    events: int
    start_s: float = 0.0
    """From the start of the process to its first answer, with that past."""
    submitted: int = 0
    errors: int = 0
    submit_p50_ms: float = 0.0
    submit_p99_ms: float = 0.0
    list_p99_ms: float = 0.0
    why_p99_ms: float = 0.0
    events_p99_ms: float = 0.0
    rss_mb: float = 0.0
    """At the end."""
    rss_growth_mb_per_min: float = 0.0
    """By least squares, over the marks after the first third."""
    rss_kb_per_waiting_job: float = 0.0
    pruned: int = 0
    """Events that retention removed meanwhile."""
    others_busy: float = 0.0
    """Share of the machine that others used just before: above 0.25 the aim is not held against."""
    first_error: str = ""

    @property
    def kept(self) -> bool:
        return self.errors == 0 and (self.submit_p99_ms <= AIM_MS or self.others_busy > QUIET)


class LoadedServer(ServerProcess):
    """A server on a state with a past."""

    def launch(self) -> "subprocess.Popen[str]":
        self.home.mkdir(exist_ok=True)
        self.places.config_file.write_text(CONFIG)
        command = [sys.executable, "-m", "tests.trust.load_server", str(RETENTION)]
        with self.said.open("a") as said:
            return subprocess.Popen(command, env=self.env, stdout=said, stderr=said, text=True)

    def connect(self) -> Connection:
        told = json.loads(self.places.server_file.read_text())
        return Connection(told["address"], self.places.token_file.read_text().strip())

    @property
    def rss_mb(self) -> float:
        assert self.process is not None
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise ValueError("the kernel does not tell the resident memory")


# ---------------------------------------------------------------------------------------------- clients


Ask = Callable[[Connection], tuple[int, bytes]]


def on_time(
    server: LoadedServer, asked: Asked, ask: Ask, rate: float, until: float, begin: float, clients: int
) -> list[threading.Thread]:
    """Threads that send requests when they are due: number n at `begin` + n / `rate`, before `until`."""
    numbers = itertools.count()

    def client() -> None:
        connection = server.connect()
        while (due := begin + next(numbers) / rate) < until:  # next() on a count is atomic
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                status, body = ask(connection)
                if status >= 300:
                    asked.errors.append(f"{status}: {body[:200]!r}")
            except (OSError, http.client.HTTPException) as error:
                asked.errors.append(repr(error))
                connection.close()
                connection = server.connect()
            asked.seconds.append(time.monotonic() - due)
        connection.close()

    return [threading.Thread(target=client) for _ in range(clients)]


def asking(method: str, path: str, body: object = None) -> Ask:
    content = None if body is None else json.dumps(body).encode()
    return lambda connection: connection.ask(method, path, content)


# ------------------------------------------------------------------------------------------------- run


def measure(server: LoadedServer, figures: Figures) -> None:
    """Load for as long as it was asked for, and fill in what was seen."""
    with closing(server.connect()) as connection:
        status, answer = connection.ask("POST", "/v1/jobs", json.dumps(FULL).encode())
        assert status == 201, answer
        full = json.loads(answer)["id"]
        wait_for(lambda: _phase(connection, full) == "running", 30, "the pool to be full")
        status, answer = connection.ask("POST", "/v1/jobs", json.dumps(WAITS).encode())
        waiting = json.loads(answer)["id"]
    submits, lists, whys, events = Asked(), Asked(), Asked(), Asked()
    begin = time.monotonic() + 0.5
    until = begin + 60 * figures.minutes
    threads = [
        *on_time(server, submits, asking("POST", "/v1/jobs", WAITS), figures.rate, until, begin, SUBMITTERS),
        *on_time(server, lists, asking("GET", "/v1/jobs?limit=100"), READS_PER_S, until, begin, 2),
        *on_time(server, whys, asking("GET", f"/v1/jobs/{waiting}/why"), READS_PER_S, until, begin, 2),
        *on_time(
            server,
            events,
            asking("GET", f"/v1/events?after={figures.events - 500}&limit=200"),
            READS_PER_S,
            until,
            begin,
            2,
        ),
    ]
    for thread in threads:
        thread.start()
    marks = _watch_memory(server, submits, begin, until)
    for thread in threads:
        thread.join()
    all_asked = (submits, lists, whys, events)
    errors = [error for asked in all_asked for error in asked.errors]
    figures.submitted = len(submits.seconds) - len(submits.errors)
    figures.errors, figures.first_error = len(errors), errors[0] if errors else ""
    figures.submit_p50_ms, figures.submit_p99_ms = submits.percentile(0.5), submits.percentile(0.99)
    figures.list_p99_ms, figures.why_p99_ms = lists.percentile(0.99), whys.percentile(0.99)
    figures.events_p99_ms = events.percentile(0.99)
    figures.rss_mb = round(server.rss_mb, 1)
    late = marks[len(marks) // 3 :]
    if len(late) >= 2:
        slope = statistics.linear_regression([at for at, _ in late], [mb for _, mb in late]).slope
        figures.rss_growth_mb_per_min = round(60 * slope, 1)
        figures.rss_kb_per_waiting_job = round(1024 * slope / figures.rate, 2)


def _phase(connection: Connection, job: str) -> str:
    phase: str = json.loads(connection.ask("GET", f"/v1/jobs/{job}")[1])["phase"]
    return phase


def _watch_memory(
    server: LoadedServer, submits: Asked, begin: float, until: float
) -> Sequence[tuple[float, float]]:
    """(seconds, MB) every few seconds; says how it goes."""
    marks: list[tuple[float, float]] = []
    for number in itertools.count():
        due = begin + MARK * number
        if due > until:
            return marks
        time.sleep(max(0.0, due - time.monotonic()))
        marks.append((due - begin, server.rss_mb))
        _say(
            f"{due - begin:4.0f} s: {len(submits.seconds)} submits, p99 {submits.percentile(0.99)} ms, "
            f"{len(submits.errors)} errors, {marks[-1][1]:.0f} MB"
        )
    return marks


def run(folder: Path, *, rate: float = 200.0, minutes: float = 1.0, jobs: int = 100_000) -> Figures:
    server = LoadedServer(folder / "home")
    now = time.time()
    # A tenth is old enough to go, a little more with every prune of a long run.
    events = history.make(
        server.places.state / "grus.db", jobs, now - 1.1 * KEPT + 60 * minutes, now - 0.1 * KEPT
    )
    os.sync()  # a past is on its disk; else the first commits would wait for all that was just written
    _say(f"a past of {jobs} jobs and {events} events in {time.time() - now:.0f} s")
    figures = Figures(rate=rate, minutes=minutes, history_jobs=jobs, events=events)
    figures.others_busy = round(wait_until_quiet(QUIET, 30.0), 2)
    began = time.monotonic()
    try:
        server.start()
        figures.start_s = round(time.monotonic() - began, 2)
        _say(f"the server answers after {figures.start_s} s; others use {figures.others_busy:.0%}")
        measure(server, figures)
        with closing(server.connect()) as connection:
            first = json.loads(connection.ask("GET", "/v1/events?limit=1")[1])
        figures.pruned = first[0]["seq"] - 1
    finally:
        if server.process is not None and server.process.poll() is None:
            _end(server)
    return figures


def _end(server: LoadedServer) -> None:
    """The one job that runs, then the server; those that wait would take long to stop one by one."""
    with closing(server.connect()) as connection:
        for job in json.loads(connection.ask("GET", "/v1/jobs?phase=running&limit=10")[1]):
            connection.ask("POST", f"/v1/jobs/{job['id']}/pause")
        wait_for(
            lambda: json.loads(connection.ask("GET", "/v1/jobs?phase=pausing&phase=running")[1]) == [],
            30,
            "nothing runs",
        )
    server.stop()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--rate", type=float, default=200.0, help="submits a second")
    parser.add_argument("--history", type=int, default=100_000, help="jobs that have ended before")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        figures = run(Path(temporary), rate=options.rate, minutes=options.minutes, jobs=options.history)
    print(json.dumps(asdict(figures)))
    return 0 if figures.kept else 1


if __name__ == "__main__":
    sys.exit(main())
