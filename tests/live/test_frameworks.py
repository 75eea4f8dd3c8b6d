"""Unchanged scripts of Transformers, Accelerate and Lightning, on 1 and 2 virtual GPUs."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from grus.sdk.client import Handle
from tests.live import without_finalization
from tests.live.pool import LivePool
from tests.server.process import eventually

PATIENCE = 300.0
SCRIPTS = Path(__file__).parents[2] / "examples" / "frameworks"
OFFLINE = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
TRANSFORMERS, ACCELERATE, LIGHTNING = "transformers_trainer.py", "accelerate_loop.py", "lightning_fit.py"


@dataclass(frozen=True)
class Case:
    """A script, how many virtual GPUs it gets, and how it has to run on them."""

    script: str
    gpus: int
    launch: str | None
    processes: int
    result: str
    mode: str = ""
    """Its framework's word for how it runs; empty where the script prints none."""
    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.script.split('_')[0]}-{self.gpus}-{self.launch or 'default'}"

    def lines(self) -> set[str]:
        """Last lines of its processes: together they take all 32 samples, 4 at a time."""
        steps = 32 // 4 // self.processes
        ends = {f"process {one} of {self.processes}: {steps} steps" for one in range(self.processes)}
        return ends | ({f"mode: {self.mode}"} if self.mode else set())


CASES = (
    Case(TRANSFORMERS, 1, None, 1, "transformers/model.safetensors", "not_parallel"),
    Case(TRANSFORMERS, 2, "once", 1, "transformers/model.safetensors", "not_parallel"),
    Case(TRANSFORMERS, 2, "per-gpu", 2, "transformers/model.safetensors", "distributed"),
    Case(ACCELERATE, 1, None, 1, "accelerate.pt", "NO"),
    Case(ACCELERATE, 2, "per-gpu", 2, "accelerate.pt", "MULTI_CPU"),
    Case(LIGHTNING, 1, None, 1, "lightning.ckpt", arguments=("1",)),
    Case(LIGHTNING, 2, None, 2, "lightning.ckpt", arguments=("2",)),
)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivePool]:
    with LivePool(tmp_path_factory.mktemp("frameworks"), "1x4x1GB") as pool:
        yield pool


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_unchanged_script_finishes(pool: LivePool, tmp_path: Path, case: Case) -> None:
    wrapper = [without_finalization.__file__] if case.processes > 1 else []  # only these use gloo
    job = {
        "name": case.name,
        "run": [sys.executable, *wrapper, str(SCRIPTS / case.script), *case.arguments],
        "resources": {"gpu": case.gpus},
        "env": OFFLINE,
        "workdir": str(tmp_path),
        **({"launch": case.launch} if case.launch else {}),
    }
    handle = pool.grus.submit(job)
    ended = handle.wait(PATIENCE)
    workers = case.processes if case.launch == "per-gpu" else 1
    log = "".join("".join(handle.logs(worker=worker)) for worker in range(workers))
    assert ended.phase == "succeeded", log
    assert not [line for line in case.lines() if line not in log], log
    assert (tmp_path / "out" / case.result).stat().st_size


def test_a_line_is_in_the_log_while_the_script_runs(pool: LivePool, tmp_path: Path) -> None:
    """It is printed without a flush, into a pipe."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    script = f"print('first line'); open({str(gate)!r}).read()"
    handle = pool.grus.submit({"run": [sys.executable, "-c", script], "workdir": str(tmp_path)})
    eventually(lambda: "first line" in text_of(handle), "the line is in the log", PATIENCE)
    assert handle.refresh().phase == "running"
    gate.open("w").close()
    assert handle.wait(PATIENCE).phase == "succeeded"


def text_of(handle: Handle) -> str:
    return "".join(handle.logs())
