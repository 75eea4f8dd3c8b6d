"""The agent kills a pod's processes and nobody else's, and reads which GPUs they were given."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grus.kubernetes.agent.processes import Processes

UID = "0f1e-2d3c"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc in which the tests say what stands about their processes."""
    return tmp_path


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


def describe(
    proc: Path, pid: int, *, group: str, numbers: str = "", environ: bytes = b"", parent: int = 1
) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cgroup").write_text(f"0::/kubepods/pod{group}/c\n")
    (folder / "status").write_text(f"Name:\tx\nNSpid:\t{pid} {numbers}\nThreads:\t1\n")
    (folder / "stat").write_text(f"{pid} (a) b) S {parent}")
    (folder / "environ").write_bytes(environ)


def test_a_process_of_the_pod_is_killed(proc: Path, sleeper: subprocess.Popen[bytes]) -> None:
    describe(proc, sleeper.pid, group=UID, numbers="7")
    assert Processes(proc).kill(lambda: [sleeper.pid], UID, shared=True) == 1
    assert sleeper.wait(300) == -9


def test_a_pod_that_systemd_names_is_known_too(proc: Path, sleeper: subprocess.Popen[bytes]) -> None:
    describe(proc, sleeper.pid, group=UID.replace("-", "_"), numbers="7")
    assert Processes(proc).kill(lambda: [sleeper.pid], UID, shared=True) == 1
    assert sleeper.wait(300) == -9


def test_a_number_that_now_means_another_pods_process_is_left_alone(
    proc: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    describe(proc, sleeper.pid, group="9999-9999", numbers="7")
    assert Processes(proc).kill(lambda: [sleeper.pid], UID, shared=True) == 0
    assert sleeper.poll() is None


def test_the_process_that_holds_the_pod_together_is_spared(
    proc: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    describe(proc, sleeper.pid, group=UID, numbers="1")
    processes = Processes(proc)
    assert processes.kill(lambda: [sleeper.pid], UID, shared=True) == 0
    assert processes.workers(lambda: [sleeper.pid], shared=True) == []
    assert sleeper.poll() is None
    assert processes.kill(lambda: [sleeper.pid], UID, shared=False) == 1


def test_a_first_process_deeper_down_is_a_worker(proc: Path, sleeper: subprocess.Popen[bytes]) -> None:
    describe(proc, sleeper.pid, group=UID, numbers="12 1")
    assert Processes(proc).workers(lambda: [sleeper.pid], shared=True) == [sleeper.pid]


def test_only_the_main_process_is_told_to_end(proc: Path, sleeper: subprocess.Popen[bytes]) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(command) as child, subprocess.Popen(command) as orphan:
        pause = 1_000_000_000  # of no process here
        describe(proc, pause, group=UID, numbers="1", parent=99)
        describe(proc, sleeper.pid, group=UID, numbers="7", parent=99)
        describe(proc, child.pid, group=UID, numbers="8", parent=sleeper.pid)
        describe(proc, orphan.pid, group=UID, numbers="9", parent=pause)
        pids = [pause, sleeper.pid, child.pid, orphan.pid]
        assert Processes(proc).terminate(lambda: pids, UID, shared=True) == 1
        assert sleeper.wait(300) == -15
        assert child.poll() is None
        assert orphan.poll() is None
        child.kill()
        orphan.kill()


def test_who_is_found_only_while_others_are_frozen_is_killed_too(
    proc: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as child:
        for one in (sleeper, child):
            describe(proc, one.pid, group=UID, numbers="7")
        looks = iter([[sleeper.pid], [sleeper.pid, child.pid], [sleeper.pid, child.pid]])
        assert Processes(proc).kill(lambda: next(looks), UID, shared=True) == 2
        assert (sleeper.wait(300), child.wait(300)) == (-9, -9)


@pytest.mark.parametrize(
    ("environ", "gpus"),
    [
        (b"A=1\0NVIDIA_VISIBLE_DEVICES=GPU-a1,GPU-b2\0", "GPU-a1,GPU-b2"),
        (b"NVIDIA_VISIBLE_DEVICES=all\0", ""),
        (b"NVIDIA_VISIBLE_DEVICES=GPU-a1,<script>\0", ""),
        (b"", ""),
    ],
)
def test_gpus_are_read_and_nothing_else_is_taken_for_one(proc: Path, environ: bytes, gpus: str) -> None:
    describe(proc, 4242, group=UID, environ=environ)
    assert Processes(proc).gpus([4241, 4242]) == gpus
