"""The death of the server, the launcher, a supervisor or the machine: what the next engine finds."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from grus.engines.local import processes, state_files
from grus.engines.local.engine import LocalEngine
from grus.model.identifiers import WorkerId
from grus.model.interfaces import WorkerState
from grus.model.jobs import ExitCause
from grus.telemetry.virtual_gpus import VirtualSource
from tests.contracts.engine_contract import SAVES, end_of, status_of, until, until_says, until_state
from tests.engines.test_local import a_worker

ONE = WorkerId("j1")


class Server:
    """A child process with an engine; `kill` is kill -9."""

    def __init__(self, state: Path, epoch: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.engines.server", str(state), str(epoch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            cwd=Path(__file__).parents[2],
        )
        assert self._answer() == "open"

    def start(self, name: str, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{name} {line}\n")
        assert self._answer() == name

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture
def server(state: Path) -> Iterator[Server]:
    server = Server(state, 1)
    yield server
    server.kill()


@pytest.fixture
def next_engine(state: Path) -> Iterator[LocalEngine]:
    """Not open yet; what it has at the end is killed."""
    engine = LocalEngine(state, VirtualSource("2x4x16GB"))
    yield engine
    for status in engine.workers():
        engine.stop(status.id, 0)
    until(lambda: all(one.state is WorkerState.ENDED for one in engine.workers()))
    engine.close()


def claim_of(state: Path, worker: WorkerId) -> dict[str, object]:
    found: dict[str, object] = json.loads(
        (state / state_files.WORKERS / worker / state_files.CLAIM).read_bytes()
    )
    return found


def supervisor_of(state: Path, worker: WorkerId) -> int:
    return int(str(claim_of(state, worker)["pid"]))


def dead(pid: int) -> bool:
    found = processes.read(pid)
    return found is None or not found.alive


def test_after_kill_9_of_the_server_workers_go_on_and_ends_are_known(
    server: Server, state: Path, next_engine: LocalEngine, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    server.start("j1", SAVES)
    server.start("j2", f"while ! test -e {gate}; do sleep 0.01; done; exit 7")
    exits = state / state_files.WORKERS / "j2" / state_files.EXIT
    until(lambda: (state / state_files.WORKERS / "j1" / state_files.STARTED).exists())
    server.kill()
    gate.touch()
    until(exits.exists)

    next_engine.open(2)
    assert end_of(next_engine, WorkerId("j2")).code == 7
    assert until_state(next_engine, ONE, WorkerState.RUNNING).pid is not None
    until_says(next_engine, ONE, b"ready")
    next_engine.stop(ONE, 60)
    assert end_of(next_engine, ONE).code == 0


def test_starts_repeated_across_kills_of_the_server_run_once(state: Path, next_engine: LocalEngine) -> None:
    """Killed right after `start` returned, at whatever point the launcher and the supervisor are then."""
    rounds = 6
    for epoch in range(1, rounds + 1):
        server = Server(state, epoch)
        for number in range(epoch):
            server.start(f"j{number}", f"echo ran{number}")
        server.kill()
    next_engine.open(rounds + 1)
    for number in range(rounds):
        next_engine.start(a_worker(f"j{number}", f"echo ran{number}"))
    for number in range(rounds):
        worker = WorkerId(f"j{number}")
        found = end_of(next_engine, worker)
        ran = next_engine.log(worker)[0].count(b"ran")
        assert (found.cause, ran) in {(ExitCause.DONE, 1), (ExitCause.LOST, 0)}, (worker, found)


def test_a_start_that_an_old_launcher_still_has_does_not_happen_under_a_new_epoch(
    state: Path, next_engine: LocalEngine
) -> None:
    old = LocalEngine(state, VirtualSource("2x4x16GB"))
    old.open(1)
    assert old._running is not None
    launcher = old._running._launcher.pid
    os.kill(launcher, signal.SIGSTOP)
    old.start(a_worker("j1", "echo old"))
    next_engine.open(2)
    os.kill(launcher, signal.SIGCONT)
    until(lambda: not old.workers())
    old.close()
    assert next_engine.workers() == ()
    next_engine.start(a_worker("j1", "echo new"))
    end_of(next_engine, ONE)
    assert next_engine.log(ONE)[0] == b"new\n"


def test_a_launcher_that_is_killed_is_replaced(local: LocalEngine) -> None:
    assert local._running is not None
    for number in range(3):
        launcher = local._running._launcher.pid
        os.kill(launcher, signal.SIGKILL)
        local.start(a_worker(f"j{number}", "echo ran"))
        found = end_of(local, WorkerId(f"j{number}"))
        assert found.cause is ExitCause.DONE


def test_a_killed_supervisor_means_lost_after_all_its_processes_are_dead(
    local: LocalEngine, state: Path, tmp_path: Path
) -> None:
    line = "(setsid sh -c 'echo $$ > pid; exec sleep 1000' &) ; trap '' TERM; echo ready; sleep 1000"
    local.start(a_worker("j1", line, workdir=str(tmp_path)))
    until_says(local, ONE, b"ready")
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
    daemon = int((tmp_path / "pid").read_text())
    main = until_state(local, ONE, WorkerState.RUNNING).pid
    assert main is not None
    os.kill(supervisor_of(state, ONE), signal.SIGKILL)
    assert end_of(local, ONE).cause is ExitCause.LOST
    assert dead(daemon)
    assert dead(main)


def test_a_supervisor_killed_while_no_engine_lives_is_found_lost(
    server: Server, state: Path, next_engine: LocalEngine
) -> None:
    server.start("j1", "trap '' TERM; sleep 1000; sleep 1000")
    started = state / state_files.WORKERS / "j1" / state_files.STARTED
    until(started.exists)
    main = int(json.loads(started.read_bytes())["pid"])
    server.kill()
    os.kill(supervisor_of(state, ONE), signal.SIGKILL)
    assert not dead(main)
    next_engine.open(2)
    assert end_of(next_engine, ONE).cause is ExitCause.LOST
    assert dead(main)


def test_a_worker_of_another_boot_is_lost(state: Path, next_engine: LocalEngine) -> None:
    folder = state / state_files.WORKERS / "j1.3.main.0.1"
    folder.mkdir(parents=True)
    (folder / state_files.CLAIM).write_text(
        json.dumps({"pid": os.getpid(), "start": 1, "boot": "x", "at": 0})
    )
    next_engine.open(1)
    (status,) = next_engine.workers()
    assert (status.id, status.job, status.attempt) == ("j1.3.main.0.1", "j1", 3)
    assert status.exit is not None
    assert status.exit.cause is ExitCause.LOST


def test_a_folder_that_a_loss_of_power_left_half_written_is_lost(
    state: Path, next_engine: LocalEngine
) -> None:
    folder = state / state_files.WORKERS / "j1"
    folder.mkdir(parents=True)
    (folder / state_files.SPEC).write_text('{"job": "j1", "at')
    (folder / state_files.EXIT).write_text("")
    next_engine.open(1)
    assert end_of(next_engine, ONE).cause is ExitCause.LOST


def test_a_process_that_got_the_pid_of_a_dead_supervisor_is_left_alone(
    state: Path, next_engine: LocalEngine
) -> None:
    """Same pid, same boot, another start time: somebody else."""
    with subprocess.Popen(["/bin/sleep", "1000"]) as bystander:
        found = processes.read(bystander.pid)
        assert found is not None
        folder = state / state_files.WORKERS / "j1"
        folder.mkdir(parents=True)
        claim = {"pid": found.pid, "start": found.start - 1, "boot": processes.boot_id(), "at": 0}
        (folder / state_files.CLAIM).write_text(json.dumps(claim))
        next_engine.open(1)
        next_engine.stop(ONE, 0)
        assert end_of(next_engine, ONE).cause is ExitCause.LOST
        assert bystander.poll() is None
        assert not processes.send(found.pid, found.start - 1, signal.SIGKILL)
        bystander.kill()


def test_a_supervisor_that_comes_late_does_not_start_what_was_given_up(
    state: Path, next_engine: LocalEngine
) -> None:
    """An engine that finds an unclaimed folder claims it; the supervisor then finds it taken."""
    next_engine.open(1)
    next_engine.start(a_worker("j1", "echo ran"))
    end_of(next_engine, ONE)
    late = state / state_files.WORKERS / "j2"
    late.mkdir()
    (late / state_files.SPEC).write_bytes(
        (state / state_files.WORKERS / "j1" / state_files.SPEC).read_bytes()
    )
    next_engine.open(2)
    found = end_of(next_engine, WorkerId("j2"))
    assert (found.cause, "never started" in found.text) == (ExitCause.LOST, True)

    program = "import sys; from grus.engines.local.supervisor import supervise; supervise(*sys.argv[1:])"
    subprocess.run([sys.executable, "-c", program, str(state), "j2"], check=True, timeout=300)
    assert claim_of(state, WorkerId("j2"))["pid"] == 0
    assert not (late / state_files.STARTED).exists()


def test_subscribers_of_a_new_engine_hear_of_ends_after_reattach(
    server: Server, state: Path, next_engine: LocalEngine, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    server.start("j1", f"while ! test -e {gate}; do sleep 0.01; done")
    until(lambda: (state / state_files.WORKERS / "j1" / state_files.STARTED).exists())
    server.kill()
    ended = threading.Event()
    next_engine.subscribe(lambda status: ended.set() if status.state is WorkerState.ENDED else None)
    next_engine.open(2)
    status = status_of(next_engine, ONE)
    assert status is not None
    assert status.state is WorkerState.RUNNING
    gate.touch()
    assert ended.wait(300)
