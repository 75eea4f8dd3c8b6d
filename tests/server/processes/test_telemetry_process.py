"""A real server measures real processes, and what it has recorded outlasts its death."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grus.api.wire_types.timestamps import parse_time
from grus.sdk.client import Client
from tests.server.process import ServerProcess, eventually

BUSY = "while True: sum(range(1000))"
LOST = 5.0
"""Seconds that a kill may cost: the journal is written every 3 s."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    built = ServerProcess(tmp_path / "home")
    try:
        built.start()
        yield built
    finally:
        built.end()


def known(client: Client, job: str, measure: str) -> dict[float, float]:
    """What is recorded of the job's last minutes, by second."""
    found = client.series("job", measure, job, last="5m", step=1.0)
    start = parse_time(found.start)
    return {start + i: value for i, value in enumerate(found.values) if value is not None}


def test_a_busy_job_is_seen_and_its_past_outlasts_a_kill_of_the_server(server: ServerProcess) -> None:
    with server.client() as client:
        job = client.submit({"run": [sys.executable, "-c", BUSY], "workdir": "/", "resources": {"gpu": 1}})
        recorded: dict[float, float] = {}

        def long_enough() -> bool:
            recorded.update(known(client, job.id, "cpu"))
            return len(recorded) >= 8

        eventually(lambda: bool(workers(client, job.id)), "the worker is measured")
        eventually(long_enough, "eight seconds are recorded")
        assert max(recorded.values()) > 0.05
        [gpu] = [one for one in client.telemetry().figures if one.gpu and one.values.get("memory")]
        assert gpu.values["utilisation"] >= 0.0
        server.kill()
        server.start()
        again = known(client, job.id, "cpu")
        last = max(recorded) - LOST
        assert {at: value for at, value in recorded.items() if at < last} == {
            at: value for at, value in again.items() if min(recorded) <= at < last
        }
        eventually(lambda: max(known(client, job.id, "cpu")) > max(recorded), "measuring goes on")
        client.stop(job.id)


def workers(client: Client, job: str) -> list[str]:
    return [one.worker for one in client.telemetry().figures if one.job == job]
