"""torchrun gets from a job's environment what it needs, and passes on what it is told."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from grus.elastic.adapters.torchrun import devices, options
from tests.elastic.parts import PATIENCE, free_port

SCRIPT = """
import os, signal, sys
import torch.distributed as dist
from grus.sdk.sigterm import SignalFlag

dist.init_process_group("gloo")
total = [None] * dist.get_world_size()
seen = (dist.get_rank(), os.environ["LOCAL_RANK"], os.environ["CUDA_VISIBLE_DEVICES"])
dist.all_gather_object(total, seen)
asked = SignalFlag()
signal.signal(signal.SIGTERM, lambda *_: asked.set())
print("met", sorted(total), flush=True)
if "--wait" in sys.argv:
    asked.wait(180)
    open(sys.argv[-1] + os.environ["RANK"], "w").write("saved")
dist.destroy_process_group()  # else gloo's own threads now and then end the process with SIGABRT
sys.exit(int(sys.argv[1]))
"""


def of_a_job(rank: int = 0, world: int = 2, **more: str) -> dict[str, str]:
    return {
        "GRUS_JOB": "j0123456789",
        "GRUS_ATTEMPT": "3",
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "20001",
        **more,
    }


def test_a_worker_a_node_starts_a_process_for_each_of_its_gpus() -> None:
    job = of_a_job(rank=1, GRUS_GPUS="8", CUDA_VISIBLE_DEVICES="n-0,n-1,n-2,n-3")
    assert options(job)[:3] == ["--nnodes=2", "--node-rank=1", "--nproc-per-node=4"]
    assert "--rdzv-endpoint=127.0.0.1:20001" in options(job)
    assert devices(job) == "n-0,n-1,n-2,n-3"


def test_a_worker_a_gpu_starts_one_process_on_its_own_gpu() -> None:
    """It sees its peers' GPUs, but torchrun calls its process number 0, which takes the first it sees."""
    job = of_a_job(rank=1, GRUS_GPUS="2", CUDA_VISIBLE_DEVICES="n-0,n-1")
    assert options(job)[:3] == ["--nnodes=2", "--node-rank=1", "--nproc-per-node=1"]
    assert devices(job) == "n-1"


def test_outside_a_job_it_is_one_process_here() -> None:
    assert options({"PATH": "/bin"}) == ["--standalone", "--nproc-per-node=1"]


def start(folder: Path, rank: int, port: int, *words: str, world: int = 2) -> "subprocess.Popen[str]":
    script = folder / "script.py"
    script.write_text(SCRIPT)
    env = of_a_job(rank, world, MASTER_PORT=str(port), GRUS_GPUS="2", CUDA_VISIBLE_DEVICES="a,b")
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "TMPDIR") if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-m", "grus.elastic.adapters.torchrun", str(script), *words],
        env={**kept, **env, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def rest(process: "subprocess.Popen[str]") -> str:
    try:
        return process.communicate(timeout=PATIENCE)[0]
    finally:
        process.kill()
        process.wait()


def test_two_workers_of_a_job_meet_are_told_to_end_and_save(tmp_path: Path) -> None:
    port = free_port()
    workers = [start(tmp_path, rank, port, "0", "--wait", str(tmp_path / "saved")) for rank in range(2)]
    try:
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "met [(0, '0', 'a'), (1, '0', 'b')]\n"
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
    finally:
        for worker in workers:
            rest(worker)
    assert [worker.returncode for worker in workers] == [128 + signal.SIGTERM] * 2
    assert [(tmp_path / f"saved{rank}").read_text() for rank in range(2)] == ["saved", "saved"]


def test_its_exit_code_says_how_the_script_ended(tmp_path: Path) -> None:
    both = [start(tmp_path, 0, free_port(), code, world=1) for code in ("0", "3")]
    assert all("met" in text for text in map(rest, both))
    assert [one.returncode for one in both] == [0, 1]
