"""A real server process: started, killed, started again; what was said yes to is kept, what ran runs on."""

import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from grus.model.errors import Conflict
from grus.sdk.client import Handle
from grus.sdk.state_paths import running
from tests.server.process import ServerProcess, eventually


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    built = ServerProcess(tmp_path / "home")
    try:
        built.start()
        yield built
    finally:
        built.end()


def a_sleeper(server: ServerProcess, handle: Handle) -> int:
    """The pid of a running job's process."""
    eventually(lambda: handle.refresh().phase == "running", "the job runs")
    with server.client() as client:
        (worker,) = client.workers(handle.id)
    assert worker.pid is not None
    return worker.pid


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_job_runs_to_its_end_and_its_output_can_be_followed(server: ServerProcess) -> None:
    with server.client() as client:
        handle = client.submit({"run": "echo one; echo two >&2; exit 3", "workdir": "/"})
        assert sorted("".join(handle.logs(follow=True)).splitlines()) == ["one", "two"]
        ended = handle.wait(300)
        assert (ended.phase, ended.exit and ended.exit.code) == ("failed", 3)
        assert handle.events()[0].kind == "submitted"


def test_what_a_script_reports_is_on_its_job(server: ServerProcess) -> None:
    script = "import grus; grus.report(step=3, total=4, loss=float('nan')); grus.saved()"
    with server.client() as client:
        ended = client.submit({"run": [sys.executable, "-c", script], "workdir": "/"}).wait(30)
        assert ended.progress == {"step": 3, "total": 4}
        assert ended.saved_at is not None
        assert str(ended.submitted_at) < ended.saved_at < str(ended.ended_at)


def test_after_kill_9_everything_acknowledged_is_there_and_what_ran_runs_on(server: ServerProcess) -> None:
    with server.client() as client:
        sleeper = client.submit({"run": ["sleep", "600"], "workdir": "/", "checkpoint": {"grace": "1s"}})
        pid = a_sleeper(server, sleeper)
        waiting = [client.submit({"run": "true", "resources": {"gpu": 4}, "workdir": "/"}) for _ in range(5)]
        server.kill()
        server.start()
        assert {job.id for job in client.jobs()} == {sleeper.id, *(handle.id for handle in waiting)}
        assert alive(pid)
        assert (sleeper.refresh().phase, sleeper.job.attempt) == ("running", 1)
        sleeper.stop()
        assert sleeper.wait(300).phase == "stopped"
        assert not alive(pid)
        assert {handle.wait(300).phase for handle in waiting} == {"succeeded"}
        assert {handle.job.attempt for handle in waiting} == {1}


def test_a_clean_stop_leaves_jobs_running_and_takes_the_address_back(server: ServerProcess) -> None:
    with server.client() as client:
        pid = a_sleeper(server, client.submit({"run": ["sleep", "600"], "workdir": "/"}))
    for number in (signal.SIGTERM, signal.SIGINT):
        assert server.stop(number) == 0
        assert running(server.places) is None
        assert alive(pid)
        server.start()


def test_open_streams_do_not_hold_up_the_stop_and_go_on_with_the_next_server(server: ServerProcess) -> None:
    with server.client() as client, closing(client.watch(after=0)) as events:
        first = client.submit({"run": "true", "workdir": "/"})
        seen = [next(events)]
        assert server.stop() == 0
        server.start()
        last = client.submit({"run": "true", "workdir": "/"})
        while seen[-1].job != last.id:
            seen.append(next(events))
        numbers = [event.seq for event in seen]
        assert numbers == list(range(1, len(numbers) + 1))
        assert seen[0].job == first.id


def test_a_second_server_is_refused_with_the_pid_of_the_first(
    server: ServerProcess,
) -> None:
    assert server.process is not None
    second = server.launch()
    assert second.wait(300) == 1
    assert f"pid {server.process.pid}" in server.said.read_text()
    with server.client() as client:
        assert client.status().user == "admin"


def test_secrets_and_state_are_for_the_owner_alone(server: ServerProcess) -> None:
    secret = server.places.token_file.read_text().strip()
    assert stat.S_IMODE(server.places.token_file.stat().st_mode) == 0o600
    assert secret not in server.said.read_text()
    assert f"is in {server.places.token_file}" in server.said.read_text()
    assert secret not in server.places.log_file.read_text()
    for path in server.places.state.rglob("*"):
        if path.is_file():
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    server.stop()
    server.start()
    assert secret not in server.said.read_text()


def test_the_administrator_is_warned_when_several_people_share_one_unix_user(server: ServerProcess) -> None:
    with server.client() as client:
        if os.geteuid() != 0:
            with pytest.raises(Conflict, match="--accept-shared-account"):
                client.put_user("ada", {"role": "member"})
        client.put_user("ada", {"role": "member", "accept_shared_account": True})
    server.stop()
    server.start()
    warned = "all jobs run as the same" in server.said.read_text()
    assert warned is (os.geteuid() != 0)
