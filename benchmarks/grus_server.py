"""A real Grus server for measuring: a process of its own, a virtual pool, state in a temporary folder.

Requests go over kept connections of the standard library's http.client, so that the server is measured and
not a client library. What was started is ended by its pid.
"""

import http.client
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from benchmarks.machine import wait_for

LIVE = ("pending", "starting", "running", "pausing", "paused")


class GrusServer:
    """One life of a pool; the server in it may be killed and started again."""

    def __init__(self, pool: str = "2x4x16GB", queues: Mapping[str, int] | None = None) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="grus-bench-"))
        self.pool = pool
        self._process: subprocess.Popen[bytes] | None = None
        self._own = threading.local()
        (self.root / "config.toml").write_text(configuration(queues or {}))

    def __enter__(self) -> "GrusServer":
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ------------------------------------------------------------------------------------------ life

    def start(self) -> None:
        (self.root / "state" / "server.json").unlink(missing_ok=True)
        with (self.root / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "grus.cli.main",
                    "up",
                    "--foreground",
                    "--port",
                    "0",
                    "--virtual",
                    self.pool,
                ],
                env={**os.environ, "GRUS_HOME": str(self.root)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_for(self._answers, 30, f"the server; its log: {self.log()[-2000:]}")

    def _answers(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(f"the server ended at once:\n{self.log()[-2000:]}")
        try:
            connection = Connection(self.address, self.token)
            with closing(connection):
                return connection.ask("GET", "/healthz")[0] == 200
        except (OSError, ValueError, http.client.HTTPException):
            return False

    def kill(self) -> None:
        """kill -9 of the server; its jobs go on."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._own = threading.local()

    def stop(self) -> None:
        if (connection := getattr(self._own, "connection", None)) is not None:
            connection.close()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
        for pid in self._left_over():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        shutil.rmtree(self.root, ignore_errors=True)

    def _left_over(self) -> Iterator[int]:
        """Supervisors and jobs of this pool: their environment names its folder."""
        mark = str(self.root).encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if mark in (entry / "environ").read_bytes():
                        yield int(entry.name)
                except OSError:
                    continue

    def log(self) -> str:
        try:
            return (self.root / "server.log").read_text(errors="replace")
        except FileNotFoundError:
            return ""

    # ----------------------------------------------------------------------------------------- verbs

    @property
    def address(self) -> str:
        address: str = json.loads((self.root / "state" / "server.json").read_text())["address"]
        return address

    @property
    def token(self) -> str:
        return (self.root / "token").read_text().strip()

    def connection(self) -> "Connection":
        """The calling thread's own."""
        found: Connection | None = getattr(self._own, "connection", None)
        if found is None:
            found = self._own.connection = Connection(self.address, self.token)
        return found

    def submit(self, job: Mapping[str, object]) -> str:
        status, answer = self.connection().ask("POST", "/v1/jobs", json.dumps(job).encode())
        if status != 201:
            raise RuntimeError(f"not accepted ({status}): {answer[:500]!r}")
        id: str = json.loads(answer)["id"]
        return id

    def live(self, limit: int = 1000, phases: Sequence[str] = LIVE) -> list[str]:
        """Ids of the jobs that have not ended."""
        query = urlencode([*(("phase", phase) for phase in phases), ("limit", limit)])
        status, answer = self.connection().ask("GET", f"/v1/jobs?{query}")
        if status != 200:
            raise RuntimeError(f"no list of jobs ({status}): {answer[:500]!r}")
        return [job["id"] for job in json.loads(answer)]

    def wait_until_done(self, patience: float) -> float:
        """Wait until no job is left; the time then."""
        wait_for(lambda: not self.live(limit=1), patience, "all jobs to end")
        return time.time()

    def stop_jobs(self) -> None:
        for id in self.live():
            self.connection().ask("POST", f"/v1/jobs/{id}/stop")
        self.wait_until_done(60)


def configuration(queues: Mapping[str, int]) -> str:
    lines = ["[server]", "requests_per_second = 1000000"]
    for name, quota in queues.items():
        lines += [f"[queues.{name}]", f"quota = {quota}"]
    return "\n".join(lines) + "\n"


class Connection:
    """One kept connection."""

    def __init__(self, address: str, token: str) -> None:
        self._http = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def close(self) -> None:
        self._http.close()

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        self._http.request(method, path, body, self._headers)
        answer = self._http.getresponse()
        return answer.status, answer.read()


# -------------------------------------------------------------------------------------------- many clients


@dataclass(frozen=True, slots=True)
class Load:
    """What many clients together did: how many were acknowledged, between which times."""

    accepted: int
    began: float
    ended: float

    @property
    def per_second(self) -> float:
        return self.accepted / (self.ended - self.began)


def submit_many(server: GrusServer, job: Mapping[str, object], *, clients: int, each: int) -> Load:
    """`clients` processes, each with one kept connection, submit `each` copies as fast as they can."""
    context = multiprocessing.get_context("fork")
    ready = context.Barrier(clients)
    results: multiprocessing.Queue[tuple[int, float, float]] = context.Queue()
    body = json.dumps(job).encode()
    arguments = (server.address, server.token, body, each, ready, results)
    processes = [context.Process(target=_client, args=arguments) for _ in range(clients)]
    for process in processes:
        process.start()
    told = [results.get(timeout=600) for _ in processes]
    for process in processes:
        process.join()
    counts, starts, ends = zip(*told, strict=True)
    return Load(sum(counts), min(starts), max(ends))


def _client(
    address: str,
    token: str,
    body: bytes,
    each: int,
    ready: "multiprocessing.synchronize.Barrier",
    results: "multiprocessing.Queue[tuple[int, float, float]]",
) -> None:
    connection = Connection(address, token)
    connection.ask("GET", "/healthz")
    ready.wait()
    began = time.time()
    accepted = sum(connection.ask("POST", "/v1/jobs", body)[0] == 201 for _ in range(each))
    results.put((accepted, began, time.time()))
