"""What the local engine measures, and whom its workers run as."""

import os
import pwd
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from grus.engines.local import processes, state_files
from grus.engines.local.engine import LocalEngine
from grus.model.identifiers import DeviceId, WorkerId
from grus.model.interfaces import Usage, WorkerState
from grus.model.jobs import ExitCause
from grus.telemetry import disk_io
from grus.telemetry.virtual_gpus import VirtualSource
from tests.contracts.engine_contract import end_of, until, until_says, until_state
from tests.engines.test_local import a_worker

ONE = WorkerId("j1")


def use_of(engine: LocalEngine, worker: WorkerId) -> Usage | None:
    return next((use for use in engine.usage() if use.worker == worker), None)


def test_memory_and_utilisation_of_a_virtual_gpu_are_those_of_its_processes(local: LocalEngine) -> None:
    argv = (
        sys.executable,
        "-I",
        "-S",
        "-c",
        "x = bytearray(60_000_000)\nprint(1, flush=True)\nwhile True: pass",
    )
    idle = "echo ready; exec sleep 1000"
    local.start(a_worker("busy", "", argv=argv))
    local.start(a_worker("idle", idle, devices=(DeviceId("node-0/gpu-1"),)))
    until_says(local, WorkerId("busy"), b"1")
    until_says(local, WorkerId("idle"), b"ready")
    until(lambda: (use := use_of(local, WorkerId("busy"))) and (use.gpu_utilisation or 0) > 0.1)
    busy = use_of(local, WorkerId("busy"))
    assert busy is not None
    assert busy.gpu_memory is not None
    assert 60_000_000 < busy.gpu_memory < 200_000_000
    idling = use_of(local, WorkerId("idle"))
    assert idling is not None
    assert idling.gpu_utilisation is not None
    assert idling.gpu_utilisation < 0.2


def test_cpu_time_of_ended_children_is_counted(local: LocalEngine) -> None:
    burn = "i=0; while test $i -lt 60000; do i=$((i+1)); done"
    local.start(a_worker("j1", f"sh -c '{burn}'; (setsid sh -c '{burn}' &); echo ready; exec sleep 1000"))
    until_says(local, ONE, b"ready")
    until(lambda: (use := use_of(local, ONE)) and use.cpu_seconds > 0.04)
    before = use_of(local, ONE)
    after = use_of(local, ONE)
    assert before is not None
    assert after is not None
    assert after.cpu_seconds >= before.cpu_seconds


WRITER = """
import os, sys
with open(sys.argv[1], "wb") as file:
    file.write(bytes(4 << 20))
    file.flush()
    os.fsync(file.fileno())
"""


def test_disk_bytes_are_the_workers_own_and_stay_when_their_process_has_ended(
    local: LocalEngine, tmp_path: Path
) -> None:
    written = 4 << 20
    if not _counts_writes(tmp_path):
        pytest.skip("needs a temporary folder on a disk: the kernel counts nothing for one in memory")
    line = f"{sys.executable} -I -S -c '{WRITER}' {tmp_path}/file; echo ready; exec sleep 1000"
    local.start(a_worker("writer", line))
    local.start(a_worker("idle", "echo ready; exec sleep 1000", devices=(DeviceId("node-0/gpu-1"),)))
    until_says(local, WorkerId("writer"), b"ready")
    until_says(local, WorkerId("idle"), b"ready")
    until(
        lambda: use_of(local, WorkerId("idle")) is not None and use_of(local, WorkerId("writer")) is not None
    )
    writer, idle = use_of(local, WorkerId("writer")), use_of(local, WorkerId("idle"))
    assert writer is not None
    assert idle is not None
    assert written <= (writer.disk_write or 0) < written + (1 << 20)
    assert idle.disk_write == 0


def _counts_writes(folder: Path) -> bool:
    before = disk_io.of_processes([os.getpid()])
    with (folder / "probe").open("wb") as file:
        file.write(bytes(1 << 16))
        file.flush()
        os.fsync(file.fileno())
    after = disk_io.of_processes([os.getpid()])
    return before is not None and after is not None and after.written > before.written


SENDER = """
import socket, sys, time
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as end:
    end.sendall(bytes(500_000))
    print("ready", flush=True)
    time.sleep(1000)
"""


def test_network_bytes_are_those_of_the_workers_own_connections(local: LocalEngine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        local.start(a_worker("sender", "", argv=(sys.executable, "-I", "-S", "-c", SENDER, port)))
        local.start(a_worker("idle", "exec sleep 1000", devices=(DeviceId("node-0/gpu-1"),)))
        until_state(local, WorkerId("idle"), WorkerState.RUNNING)
        with server.accept()[0] as end:
            left = 500_000
            while left:
                left -= len(end.recv(left))
            until_says(local, WorkerId("sender"), b"ready")
            until(lambda: (use := use_of(local, WorkerId("sender"))) and (use.network_out or 0) >= 500_000)
            sender, idle = use_of(local, WorkerId("sender")), use_of(local, WorkerId("idle"))
    assert sender is not None
    assert idle is not None
    assert (sender.network_out or 0) < 500_100
    assert (sender.network_in, idle.network_in, idle.network_out) == (0, 0, 0)
    assert sender.network_at is not None
    assert sender.network_at <= sender.at


def test_a_supervisor_is_light(local: LocalEngine, state: Path) -> None:
    """Few megabytes of its own: hundreds of them must cost little."""
    local.start(a_worker("j1", "echo ready; exec sleep 1000"))
    until_says(local, ONE, b"ready")
    assert local._running is not None
    pid = local._running.records[ONE].supervisor
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    own = sum(int(row.split()[1]) for row in rows if row.startswith("Private_"))
    assert own < 8_000, f"{own} kB"


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A state folder that other users can reach: pytest's own folders are closed to them."""
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        yield Path(folder) / "engine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a worker as somebody else")
def test_a_worker_runs_as_its_unix_user_and_reads_its_control_file_only(reachable: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    engine = LocalEngine(reachable, VirtualSource("1x1x16GB"))
    engine.open(1)
    line = (
        "id -u; id -G; while ! cat $GRUS_CONTROL 2>/dev/null; do sleep 0.01; done; echo;"
        "folder=$(dirname $GRUS_CONTROL); cat $folder/spec.json 2>/dev/null; touch $folder/x 2>/dev/null;"
        "ls $folder 2>/dev/null; exit 0"
    )
    engine.start(a_worker("j1", line, unix_user="nobody"))
    engine.publish(ONE, "the control text")
    assert end_of(engine, ONE).cause is ExitCause.DONE
    groups = " ".join(str(group) for group in os.getgrouplist("nobody", nobody.pw_gid))
    assert engine.log(ONE)[0].decode() == f"{nobody.pw_uid}\n{groups}\nthe control text\n"
    engine.start(a_worker("j2", "exit 0", unix_user="no-such-user"))
    assert "no-such-user" in end_of(engine, WorkerId("j2")).text
    engine.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a worker as somebody else")
def test_a_worker_of_another_user_is_stopped_with_all_its_children(reachable: Path) -> None:
    engine = LocalEngine(reachable, VirtualSource("1x1x16GB"))
    engine.open(1)
    engine.start(
        a_worker("j1", "trap '' TERM; (setsid sleep 1000 &); echo ready; sleep 1000", unix_user="nobody")
    )
    until_says(engine, ONE, b"ready")
    assert engine._running is not None
    until_state(engine, ONE, WorkerState.RUNNING)
    below = processes.descendants([engine._running.records[ONE].supervisor], processes.scan())
    assert len(below) >= 2
    engine.stop(ONE, 0)
    end_of(engine, ONE)
    left = [one for one in below if (now := processes.read(one.pid)) and now.start == one.start and now.alive]
    assert left == []
    engine.close()


def test_the_files_of_a_worker_are_closed_to_others(local: LocalEngine, state: Path) -> None:
    local.start(a_worker("j1", "echo secret"))
    local.publish(ONE, "{}")
    end_of(local, ONE)
    folder = state / state_files.WORKERS / "j1"
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path
    assert (state / state_files.LOGS).stat().st_mode & 0o077 == 0
