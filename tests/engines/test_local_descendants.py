"""Nothing that a worker started outlives it, and memory caps hit the right one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grus.engines.local import processes
from grus.engines.local.engine import LocalEngine
from grus.engines.local.memory import proportional
from grus.model.identifiers import DeviceId, WorkerId
from grus.model.interfaces import WorkerState
from grus.model.jobs import Exit, ExitCause
from grus.model.resources import GPU
from tests.contracts.engine_contract import SAVES, STUBBORN, end_of, until, until_says, until_state
from tests.engines.test_local import a_worker

DAEMONS = """
(setsid sh -c 'echo $$ >> pids; trap "" TERM HUP; while :; do sleep 1; done' &)
(sh -c 'echo $$ >> pids; exec sleep 1000' &)
sh -c 'echo $$ >> pids; trap "" TERM; sleep 1000; sleep 1000' &
while test $(wc -l < pids) -lt 3; do sleep 0.01; done; echo ready
"""
"""Starts a daemon in a session of its own, an orphan, and a plain child."""


def living(folder: Path) -> list[int]:
    pids = [int(line) for line in (folder / "pids").read_text().split()]
    assert len(pids) == 3
    return [pid for pid in pids if (found := processes.read(pid)) is not None and found.alive]


def test_daemons_die_with_a_worker_that_ends_by_itself(local: LocalEngine, tmp_path: Path) -> None:
    (tmp_path / "pids").touch()
    local.start(a_worker("j1", DAEMONS + "exit 5", workdir=str(tmp_path)))
    assert end_of(local, WorkerId("j1")).code == 5
    assert living(tmp_path) == []


def test_daemons_die_with_a_worker_that_is_stopped(local: LocalEngine, tmp_path: Path) -> None:
    (tmp_path / "pids").touch()
    local.start(a_worker("j1", DAEMONS + SAVES, workdir=str(tmp_path)))
    until_says(local, WorkerId("j1"), b"ready")
    assert len(living(tmp_path)) == 3
    local.stop(WorkerId("j1"), 60)
    assert end_of(local, WorkerId("j1")).code == 0
    assert living(tmp_path) == []


def test_a_program_below_a_shell_hears_the_stop_and_has_the_grace(local: LocalEngine) -> None:
    """The shell dies of SIGTERM at once; the program below it must still be able to save."""
    program = f"trap 'sleep 0.1; echo saved; exit 0' TERM; {STUBBORN.partition('; ')[2]}"
    local.start(a_worker("j1", f"""sh -c "{program}"; echo never"""))
    until_says(local, WorkerId("j1"), b"ready")
    local.stop(WorkerId("j1"), 60)
    found = end_of(local, WorkerId("j1"))
    assert found.cause is ExitCause.STOPPED
    assert local.log(WorkerId("j1"))[0] == b"ready\nsaved\n"


def test_a_stopped_main_process_hears_the_stop(local: LocalEngine) -> None:
    local.start(a_worker("j1", SAVES.replace("echo ready;", "echo ready; kill -STOP $$;")))
    until_says(local, WorkerId("j1"), b"ready")
    pid = until_state(local, WorkerId("j1"), WorkerState.RUNNING).pid
    assert pid is not None
    until(lambda: (found := processes.read(pid)) is not None and found.state == "T")
    local.stop(WorkerId("j1"), 60)
    assert end_of(local, WorkerId("j1")).code == 0


HOG = "blocks = []\nimport time\nfor _ in range({blocks}):\n    blocks.append(bytearray(10_000_000)){then}"


def hog(megabytes: int, then: str = "") -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", HOG.format(blocks=megabytes // 10, then=then))


def test_a_worker_that_wants_more_than_its_slice_is_told_so_and_its_neighbour_goes_on(
    local: LocalEngine,
) -> None:
    gpu = (DeviceId("node-0/gpu-0"),)
    slices = {"devices": gpu, "share": GPU // 160, "gpu_memory": 100_000_000}
    local.start(a_worker("neighbour", "echo ready; exec sleep 1000", **slices))
    until_says(local, WorkerId("neighbour"), b"ready")
    local.start(a_worker("hog", "", argv=hog(400, "\ntime.sleep(1000)"), **slices))
    found = end_of(local, WorkerId("hog"))
    assert (found.cause, found.code) == (ExitCause.GPU_MEMORY, 1)
    assert "slice of GPU memory of 100 MB did not suffice" in found.text
    assert b"MemoryError" in local.log(WorkerId("hog"))[0]
    assert until_state(local, WorkerId("neighbour"), WorkerState.RUNNING)


def test_a_fraction_caps_memory_to_its_part_of_the_device(local: LocalEngine) -> None:
    local.start(a_worker("hog", "", argv=hog(400, "\ntime.sleep(1000)"), share=GPU // 100))
    found = end_of(local, WorkerId("hog"))
    assert (found.cause, "160 MB" in found.text) == (ExitCause.GPU_MEMORY, True)


def test_what_a_worker_and_its_children_have_together_ends_at_the_gpus_memory(local: LocalEngine) -> None:
    """No single one of them goes beyond it: the kernel is told anew how much is left."""
    hungry = f"{sys.executable} -I -S -c '{HOG.format(blocks=8, then=chr(10) + 'time.sleep(1000)')}'"
    each = f"( {hungry} || kill $$ ) & "  # who is refused memory ends them all
    local.start(a_worker("family", each * 3 + "wait", share=GPU // 100))
    found = end_of(local, WorkerId("family"))
    assert (found.cause, "160 MB" in found.text) == (ExitCause.GPU_MEMORY, True)


def test_who_lets_go_after_being_told_has_the_gpus_memory_again(local: LocalEngine) -> None:
    """As a program does that halves its batch when its GPU's memory does not suffice."""
    again = (
        "blocks = []\ntry:\n    while True: blocks.append(bytearray(10_000_000))\n"
        "except MemoryError: most, blocks = len(blocks), []\n"
        "import time\nuntil, got = time.monotonic() + 60, 0\n"
        "while got < most // 2 and time.monotonic() < until:\n"
        "    try: blocks.append(bytearray(10_000_000)); got += 1\n"
        "    except MemoryError: pass\n"
        "raise SystemExit(0 if 0 < most <= 16 and got >= most // 2 else 3)"
    )
    local.start(a_worker("halves", "", argv=(sys.executable, "-I", "-S", "-c", again), share=GPU // 100))
    assert end_of(local, WorkerId("halves")) == Exit(ExitCause.DONE, 0, "")


def test_the_children_of_a_worker_count_against_its_host_memory(local: LocalEngine) -> None:
    each = f"{sys.executable} -I -S -c '{HOG.format(blocks=8, then='')}\ntime.sleep(1000)' & "
    local.start(a_worker("family", each * 3 + "wait", devices=(), memory=150_000_000))
    found = end_of(local, WorkerId("family"))
    assert found.cause is ExitCause.MEMORY
    assert "host memory" in found.text


def test_pages_that_children_share_are_counted_once(local: LocalEngine) -> None:
    """A parent with 80 MB and four forked children uses little more than 80 MB, not 400."""
    forks = (
        "\nimport os\nfor _ in range(4):\n    os.fork() or (time.sleep(0.6), os._exit(0))\ntime.sleep(0.7)"
    )
    local.start(a_worker("loaders", "", argv=hog(80, forks), devices=(), memory=250_000_000))
    assert end_of(local, WorkerId("loaders")).cause is ExitCause.DONE


def test_a_process_that_has_ended_has_no_memory_before_its_parent_takes_notice() -> None:
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        found = processes.read(child.pid)
        assert found is not None
        assert not found.alive
        assert proportional(found._replace(resident=80_000_000)) == 0


@pytest.mark.parametrize("fault", ["no-such", "a-file"])
def test_a_workdir_that_is_none_is_a_start_failure(local: LocalEngine, tmp_path: Path, fault: str) -> None:
    (tmp_path / "a-file").touch()
    local.start(a_worker("j1", "echo ran", workdir=str(tmp_path / fault)))
    found = end_of(local, WorkerId("j1"))
    assert found.cause is ExitCause.START
    assert str(tmp_path / fault) in found.text


def test_start_failures_say_what_is_wrong(local: LocalEngine, tmp_path: Path) -> None:
    plain, script, text = tmp_path / "plain", tmp_path / "script", tmp_path / "text"
    plain.write_text("#!/bin/sh\n")
    script.write_text("#!/no/such/interpreter\n")
    text.write_text("just words\n")
    for path in (script, text):
        path.chmod(0o755)
    cases = {
        "a": ((str(plain),), "no permission to run"),
        "b": ((str(script),), "interpreter"),
        "c": ((str(text),), "is no program"),
        "d": (("/no/such/command",), "no such command: /no/such/command"),
        "e": (("nowhere",), "no such command on PATH: nowhere"),
        "f": ((), "no command"),
        "g": (("echo", "zero\0byte"), "zero byte"),
        "h": (("echo", "x" * 3_000_000), "too long"),
    }
    for name, (argv, words) in cases.items():
        local.start(a_worker(name, "", argv=argv))
        found = end_of(local, WorkerId(name))
        assert (name, found.cause, words in found.text) == (name, ExitCause.START, True), found.text


@pytest.mark.parametrize("name", ["../evil", "a/b", "", ".hidden", "UPPER", "a" * 300, "späte", "a\nb"])
def test_an_id_that_could_be_a_path_never_becomes_one(local: LocalEngine, tmp_path: Path, name: str) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    local.start(a_worker(name, "echo ran"))
    assert end_of(local, WorkerId(name)).cause is ExitCause.START
    local.forget(WorkerId(name))
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_gpu_that_is_not_in_the_pool_is_a_start_failure(local: LocalEngine) -> None:
    local.start(a_worker("j1", "echo ran", devices=(DeviceId("node-7/gpu-0"),)))
    assert "node-7/gpu-0" in end_of(local, WorkerId("j1")).text
