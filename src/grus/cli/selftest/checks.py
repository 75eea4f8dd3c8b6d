"""The checks of `grus selftest`, in the order in which they run. Each is one small function.

Jobs run on a server of the selftest's own, in a folder that is removed afterwards.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from grus.cli.selftest.host_inventory import Machine
from grus.cli.selftest.results import CheckFailed, SelftestCheck
from grus.telemetry.nvidia_nvml import PATIENCE, Probe

if TYPE_CHECKING:
    from grus.sdk.client import Client

PROGRAMS = Path(__file__).parent / "jobs" / "gpu_memory.py"
EXAMPLES = (
    *("gang.yaml", "elastic.yaml", "checkpoint.yaml"),
    *("fraction.yaml", "memory-slice.yaml", "restart.yaml"),
)
TORCH_EXAMPLES = ("images.yaml", "digits.yaml", "gpt.yaml", "ddp.yaml")
LONGEST_JOB = 900.0
LONGEST_ELASTIC = 1800.0
SAMPLES = 30
MOST_SAMPLE_MS = 100.0
"""A sample of all GPUs may take so long: they are taken once a second."""
SLICE = "2GB"
WITHIN, BEYOND = 1000, 3000
"""Megabytes that fit such a slice, the CUDA context included, and that do not."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Folder that the checks work in."""

    folder: Path
    examples: Path | None
    """The folder `examples` of the sources; None if it is not there."""
    virtual: str = ""
    """A pool such as 2x4x16GB to rehearse on; empty for the real one."""


def checks(bench: Bench) -> list[SelftestCheck]:
    """All of them."""
    rehearsed = bool(bench.virtual)
    needs = _nothing if rehearsed else _a_gpu
    return [
        SelftestCheck("nvml", "readings of every GPU", _a_gpu, _nvml),
        SelftestCheck("sampling", "cost of a sample", _a_gpu, _sampling),
        SelftestCheck(
            "estimates", "measured peaks against estimates", _torch_on_a_gpu, lambda: _estimates(bench)
        ),
        SelftestCheck("slices", "memory limits of slices", _torch_on_a_gpu, lambda: _slices(bench)),
        SelftestCheck("mps", "limits of slices by MPS", _mps, lambda: _mps_limits(bench)),
        SelftestCheck(
            "elastic",
            "grow, shrink, kill and hang",
            _torch if rehearsed else _two_gpus,
            lambda: _elastic("gloo" if rehearsed else "nccl"),
        ),
        SelftestCheck(
            "examples",
            "the examples that need no torch",
            _with_examples(bench, needs),
            lambda: _run_examples(bench, EXAMPLES),
        ),
        SelftestCheck(
            "torch examples",
            "the examples that train with torch",
            _with_examples(bench, _torch if rehearsed else _torch_on_a_gpu),
            lambda: _run_examples(bench, TORCH_EXAMPLES),
        ),
    ]


# ------------------------------------------------------------------------------------------ what they need


def _nothing(machine: Machine) -> str:  # noqa: ARG001 - the shape of a need
    return ""


def _a_gpu(machine: Machine) -> str:
    return "" if machine.gpus else "no NVIDIA GPU is visible by its driver (NVML)"


def _torch(machine: Machine) -> str:
    return "" if machine.torch else "torch is not installed: pip install 'grus-gpu[torch]'"


def _torch_on_a_gpu(machine: Machine) -> str:
    lacks = _a_gpu(machine) or _torch(machine)
    return lacks or ("" if machine.torch_gpus else "torch sees no GPU: install its CUDA build")


def _two_gpus(machine: Machine) -> str:
    lacks = _torch_on_a_gpu(machine)
    return lacks or ("" if machine.torch_gpus > 1 else "NCCL needs two GPUs or more; here is one")


def _mps(machine: Machine) -> str:
    lacks = _torch_on_a_gpu(machine)
    return lacks or ("" if machine.mps else "no MPS daemon runs here: start `nvidia-cuda-mps-control -d`")


def _with_examples(bench: Bench, needs: Callable[[Machine], str]) -> Callable[[Machine], str]:
    def lacks(machine: Machine) -> str:
        if bench.examples is None:
            return "the folder `examples` of the sources is not here; name it with --examples"
        return needs(machine)

    return lacks


# ----------------------------------------------------------------------------------------------- telemetry


def _nvml() -> str:
    probe = Probe("pynvml")
    try:
        driver, readings, _ = probe.ask(PATIENCE)
    finally:
        probe.end()
    blind = [reading.id for reading in readings if not reading.memory]
    if blind:
        raise CheckFailed(f"no memory is reported of {', '.join(blind)}")
    return f"driver {driver}: {len(readings)} GPUs with type and memory"


def _sampling() -> str:
    """The time between a question to the driver and its answer, of all GPUs together."""
    probe, times = Probe("pynvml"), []
    try:
        probe.ask(PATIENCE)
        for _ in range(SAMPLES):
            begin = time.perf_counter()
            probe.say("figures")
            if probe.hear(PATIENCE) is None:
                raise CheckFailed(f"the driver did not answer within {PATIENCE:g} s")
            times.append(1000 * (time.perf_counter() - begin))
    finally:
        probe.end()
    text = f"{median(times):.1f} ms a sample of all GPUs (longest {max(times):.1f} ms)"
    if median(times) > MOST_SAMPLE_MS:
        raise CheckFailed(f"{text}; more than {MOST_SAMPLE_MS:g} ms")
    return text


# -------------------------------------------------------------------------------------------------- memory


def _estimates(bench: Bench) -> str:
    answer = _grus(bench, "estimate", f"{PROGRAMS}:make", "--gpu", "80GB", "-o", "json")
    found = json.loads(answer)["estimates"][0]
    with _server(bench) as client:
        log = _succeeds(client, bench, "peak", ["train"], 1)
    peak = json.loads(log.strip().splitlines()[-1])["peak"]
    estimate, upper = found["estimate"], found["upper"]
    text = f"measured {_gb(peak)}, estimated {_gb(estimate)} (at most {_gb(upper)})"
    if peak > upper:
        raise CheckFailed(f"{text}: the measured peak is above the upper bound")
    return text


def _gb(size: float) -> str:
    return f"{size / 1e9:.2f} GB"


def _slices(bench: Bench) -> str:
    """A job within its slice succeeds, and one that takes more than its slice does not."""
    with _server(bench) as client:
        _succeeds(client, bench, "within", ["allocate", str(WITHIN)], SLICE)
        job = _ended(client, bench, "beyond", ["allocate", str(BEYOND)], SLICE)
        how = client.status().mechanisms.get("slices", "")
    if job.phase == "succeeded":
        raise CheckFailed(f"a job took {BEYOND} MB with a slice of {SLICE} ({how})")
    return f"{WITHIN} MB fit a slice of {SLICE}, {BEYOND} MB did not ({how})"


def _mps_limits(bench: Bench) -> str:
    """The limits of MPS reach a job on half a GPU."""
    names = ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")
    with _server(bench) as client:
        log = _succeeds(client, bench, "half", ["limits", *names], 0.5)
    found = json.loads(log.strip().splitlines()[-1])
    if missing := [name for name in names if not found.get(name)]:
        raise CheckFailed(f"a job on half a GPU has no {' and no '.join(missing)}")
    return ", ".join(f"{name}={value}" for name, value in found.items())


# ------------------------------------------------------------------------------------------ elastic training


def _elastic(backend: str) -> str:
    command = [sys.executable, "-m", "grus.elastic.selftest", "--backend", backend]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_ELASTIC, check=False)
    lines = asked.stdout.strip().splitlines()
    if not lines or not lines[-1].startswith("{"):
        raise CheckFailed(f"{backend} ended with code {asked.returncode}: {_last(asked.stderr)}")
    found: dict[str, Any] = json.loads(lines[-1])
    wrong = [f"{one['name']}: {one['detail']}" for one in found["checks"] if not one["ok"]]
    if wrong:
        raise CheckFailed(f"{backend}, {found['workers']} workers: {'; '.join(wrong)}")
    times = ", ".join(f"{one['name']} {one['seconds']:.1f} s" for one in found["checks"])
    return f"{backend}, {found['workers']} workers: {times}"


# ------------------------------------------------------------------------------------------------ examples


def _run_examples(bench: Bench, names: tuple[str, ...]) -> str:
    assert bench.examples is not None
    copy = bench.folder / "examples"  # jobs write beside their files
    shutil.copytree(bench.examples, copy, dirs_exist_ok=True)
    done = []
    with _server(bench) as client:
        for name in names:
            begin = time.monotonic()
            answer = json.loads(_grus(bench, "submit", str(copy / name), "-o", "json"))
            id_ = answer["id"] if isinstance(answer, dict) else answer[0]["id"]
            job = client.handle(id_).wait(LONGEST_JOB)
            if job.phase != "succeeded":
                raise CheckFailed(f"{name} {job.phase}: {job.reason}")
            done.append(f"{name} {time.monotonic() - begin:.0f} s")
    return ", ".join(done)


# ------------------------------------------------------------------------------------------------ a server


@contextmanager
def _server(bench: Bench) -> "Iterator[Client]":
    """A server of the selftest's own; afterwards its jobs and itself are gone."""
    from grus.cli.demo_run.demo import own_server

    pool = f'pool = "virtual {bench.virtual}"\n' if bench.virtual else ""
    home = bench.folder / f"server-{time.monotonic_ns()}"
    home.mkdir()
    with own_server(home, f"[server]\nport = 0\n{pool}") as client:
        yield client


def _ended(client: "Client", bench: Bench, name: str, words: list[str], gpu: float | str) -> Any:
    job = {
        "name": name,
        "run": [sys.executable, str(PROGRAMS), *words],
        "resources": {"gpu": gpu},
        "workdir": str(bench.folder),
        "max_runtime": "10m",
    }
    return client.submit(job).wait(LONGEST_JOB)


def _succeeds(client: "Client", bench: Bench, name: str, words: list[str], gpu: float | str) -> str:
    """The log of a job that must succeed."""
    job = _ended(client, bench, name, words, gpu)
    log = client.log(job.id, offset=-20_000)[0].decode(errors="replace")
    if job.phase != "succeeded":
        raise CheckFailed(f"{name} {job.phase}: {job.reason}; {_last(log)}")
    return log


def _grus(bench: Bench, *words: str) -> str:
    """The output of a command of this installation; it uses the server of the check, if there is one."""
    command = [sys.executable, "-m", "grus.cli.main", *words]
    env = dict(os.environ)  # as `own_server` has set it
    asked = subprocess.run(
        command, capture_output=True, text=True, timeout=LONGEST_JOB, env=env, cwd=bench.folder, check=False
    )
    if asked.returncode:
        said = _last(asked.stderr)
        raise CheckFailed(f"`grus {' '.join(words[:2])}` ended with code {asked.returncode}: {said}")
    return asked.stdout


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no output"
