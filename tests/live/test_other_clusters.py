"""Ray and Dask, the real ones, on a gang of Grus: the examples form their clusters and use every GPU."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.environments import python_with
from tests.cli.real import RealGrus
from tests.live.environments import DASK, RAY
from tests.server.process import eventually

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE = 400.0
"""Seconds: Ray takes ten to start on a quiet machine, and a minute on a busy one."""
WATCHER = """
import time, ray

ray.init(logging_level="ERROR")
seen = []
while seen != [2, 1, 2]:
    gpus = int(ray.cluster_resources().get("GPU", 0))
    if seen[-1:] != [gpus]:
        seen.append(gpus)
        print(seen, flush=True)
    time.sleep(0.2)
"""


@pytest.fixture
def grus(tmp_path: Path) -> Iterator[RealGrus]:
    made = RealGrus(tmp_path)
    made.configure("[server]\nport = 0\n")
    made.up("--virtual", "1x4x16GB")
    yield made
    made.down()


def submitted(grus: RealGrus, example: str, requirement: str, **env: str) -> None:
    """The example as it lies in the work folder, or is there, with a Python that has the package."""
    try:
        python = python_with(requirement)
    except RuntimeError as error:
        pytest.skip(str(error))
    for file in (EXAMPLES / example).iterdir():
        if not (grus.work / file.name).exists():
            shutil.copy(file, grus.work)
    variables = {"PATH": f"{python.parent}:/usr/bin:/bin", "TMPDIR": tempfile.gettempdir(), **env}
    with (grus.work / "job.yaml").open("a") as file_:
        file_.write(f"env: {json.dumps(variables)}\n")
    grus("submit", "job.yaml")


def ended(grus: RealGrus, example: str) -> tuple[str, str]:
    """The id of its job, which has succeeded, and what it said."""
    ends = ("succeeded", "failed", "stopped")
    eventually(lambda: phase(grus, example) in ends, f"{example} to end", PATIENCE)
    said = grus("logs", example, "--all").stdout
    assert phase(grus, example) == "succeeded", said
    return grus.json("describe", example)["job"]["id"], said


def phase(grus: RealGrus, example: str) -> str:
    found: str = grus.json("describe", example)["job"]["phase"]
    return found


def processes_with(words: str) -> list[str]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue  # it has ended
            if words in command:
                found.append(command)
    return found


def test_a_gang_forms_a_ray_cluster_behind_a_token_and_leaves_nothing_behind(grus: RealGrus) -> None:
    submitted(grus, "ray", RAY, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="0123456789abcdef" * 4)
    job, said = ended(grus, "ray")
    assert "Ray has 3 nodes" in said
    assert "2 GPUs on 2 nodes" in said
    assert "y = 2.000 x + -1.000" in said
    assert "Token authentication is disabled" not in said
    assert processes_with(f"grus-ray-{job}") == []
    assert list(Path("/tmp").glob(f"grus-ray-{job}-*")) == []


def test_a_ray_cluster_grows_and_shrinks_while_its_program_runs(grus: RealGrus) -> None:
    job = (EXAMPLES / "ray" / "job.yaml").read_text()
    (grus.work / "job.yaml").write_text(job.replace("replicas: 2", "replicas: 1..2") + "resize: live\n")
    (grus.work / "program.py").write_text(WATCHER)
    submitted(grus, "ray", RAY)

    def sees(gpus: str) -> None:
        told = lambda: gpus in grus("logs", "ray", code=None).stdout  # noqa: E731 - asked again and again
        eventually(told, f"a cluster of {gpus} GPUs", PATIENCE)

    sees("[2]")
    grus("scale", "ray", "1")
    sees("[2, 1]")
    grus("scale", "ray", "2")
    ended(grus, "ray")
    assert grus.json("describe", "ray")["job"]["attempt"] == 1


def test_a_gang_forms_a_dask_cluster_and_its_program_uses_every_worker(grus: RealGrus) -> None:
    submitted(grus, "dask", DASK)
    _, said = ended(grus, "dask")
    assert "pi is about 3.14, from 2 workers" in said
