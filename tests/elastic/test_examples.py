"""The training examples run by themselves, under torchrun, and in jobs that are resized and hurt."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grus.api.inputs.yaml_job_file import parse_job_file
from grus.model.identifiers import JobId
from grus.model.jobs import Phase
from tests.elastic.harness import Pool
from tests.live import without_finalization

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE = 300.0
"""Seconds for a script that is started several times; the deadline is for broken code only."""
SMALL = {
    "images.py": ("--epochs", "2", "--samples", "1024"),
    "gpt.py": ("--epochs", "1", "--letters", "20000", "--bfloat16"),
    "gan.py": ("--epochs", "2", "--samples", "512"),
    "horovod_style.py": ("--epochs", "2", "--samples", "512"),
}
SAYS = {
    "images.py": r"on pictures never seen: loss [\d.]+, accuracy 0\.[3-9]",
    "gpt.py": r"it writes: the ",
    "gan.py": r"step 16, \d workers: 0\.\d+ of its bars are right",
    "horovod_style.py": r"epoch 1, \d workers: loss [\d.]+",
}


def outcome(command: list[str], folder: Path) -> str:
    kept = {
        name: os.environ[name]
        for name in ("PATH", "PYTHONPATH", "HOME", "TMPDIR", "ONEDNN_MAX_CPU_ISA")
        if name in os.environ
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env={**kept, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("script", SMALL)
def test_it_runs_by_itself(script: str, tmp_path: Path) -> None:
    said = outcome([sys.executable, str(EXAMPLES / script), *SMALL[script]], tmp_path)
    assert re.search(SAYS[script], said)


def test_it_runs_under_torchrun(tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    said = outcome([*torchrun, str(EXAMPLES / "images.py"), *SMALL["images.py"]], tmp_path)
    assert re.search(SAYS["images.py"], said)
    assert "2 workers" in said


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    with Pool(tmp_path, gpus=3) as made:
        yield made


def submit(pool: Pool, file: str, *more: str, size: int | None = None) -> JobId:
    """The job as its file says, with more options for its script; it writes to the test's folder."""
    (job,) = parse_job_file((EXAMPLES / file).read_text(), folder=str(EXAMPLES))
    given = job.model_dump(by_alias=True, exclude_unset=True, mode="json")
    run = given.pop("run").replace("python3 ", f"exec {sys.executable} ", 1)
    run = run.replace("torchrun ", f"torchrun {without_finalization.__file__} ")  # it uses gloo
    given["checkpoint"]["path"] = str(pool.folder / given["checkpoint"]["path"])
    (pool.folder / "out").mkdir(exist_ok=True)
    gpu = given.pop("resources")["gpu"]
    return pool.submit(" ".join([run, *more]), gpu, size, **given)


def said(pool: Pool, job: JobId) -> str:
    return "\n".join(pool.logs(job).values())


@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("images.yaml", ("--epochs", "200")),
        ("horovod_style.yaml", ("--epochs", "1000", "--samples", "512")),
    ],
)
def test_in_a_job_it_shrinks_survives_kill_9_and_goes_on_after_a_pause(
    pool: Pool, file: str, options: tuple[str, ...]
) -> None:
    job = submit(pool, file, *options)
    pool.until_size(job, 3)
    pool.until(lambda: "3 workers: loss" in said(pool, job))
    pool.scale(job, 2)
    pool.until_size(job, 2)
    number = pool.number(job)
    pool.kill(job, 0)
    pool.until(lambda: pool.number(job) > number)
    pool.until(lambda: "1 worker: loss" in said(pool, job) or pool.size(job) == 2)
    pool.until_size(job, 2)
    assert pool.job(job).attempt == 1
    pool.pause(job)
    pool.until_phase(job, Phase.PAUSED)
    reached = furthest(said(pool, job))
    pool.resume(job)
    pool.until(lambda: pool.job(job).attempt == 2 and pool.size(job) == 2)
    again = pool.until(lambda: first_of_attempt(pool, job, 2))
    assert again >= reached
    assert pool.job(job).failures == 0


def furthest(log: str) -> int:
    """The last step or epoch that was printed."""
    return max(int(number) for number in re.findall(r"^(?:step|epoch) (\d+)", log, re.MULTILINE))


def first_of_attempt(pool: Pool, job: JobId, attempt: int) -> int | None:
    for worker, log in pool.logs(job).items():
        if f"{job}.{attempt}." in worker and (
            numbers := re.findall(r"^(?:step|epoch) (\d+)", log, re.MULTILINE)
        ):
            return int(numbers[0])
    return None


@pytest.mark.parametrize(
    ("file", "begun", "done"),
    [
        ("restart.yaml", r"worker 0 of 1: 0 units", r"all 80 units are done, their sum is 167480"),
        ("ddp.yaml", r"worker 0 of 1: from epoch 0", r"epoch 3: loss"),
    ],
)
def test_in_a_job_a_plain_script_is_resized_by_saving_and_starting_again(
    pool: Pool, file: str, begun: str, done: str
) -> None:
    job = submit(pool, file, size=1)
    pool.until(lambda: re.search(begun, said(pool, job)))
    pool.scale(job, 2)
    ended = pool.until_phase(job, Phase.SUCCEEDED, seconds=PATIENCE)
    text = said(pool, job)
    assert re.search(r"worker 1 of 2", text)
    assert re.search(done, text)
    assert ended.failures == 0
