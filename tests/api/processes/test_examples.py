import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from grus.api.inputs.job_spec import to_spec
from grus.api.inputs.yaml_job_file import parse_job_file
from grus.model.identifiers import JobId

EXAMPLES = Path(__file__).parents[3] / "examples"
FILES = sorted(EXAMPLES.rglob("*.yaml"))


def test_there_is_an_example_of_every_kind() -> None:
    names = {file.stem for file in FILES}
    assert names >= {
        "gang",
        "elastic",
        "dev-session",
        "fraction",
        "memory-slice",
        "roles",
        "stages",
        "checkpoint",
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_is_a_good_job_file_whose_scripts_exist(file: Path) -> None:
    names: dict[str, JobId] = {}
    for job in parse_job_file(file.read_text(), folder=str(file.parent)):
        spec = to_spec(job, after=names)
        names[spec.name] = JobId("j0123456789")
        assert spec.workdir == str(file.parent)
        for run in [spec.run, *(role.run for role in spec.request.roles)]:
            for script in re.findall(r"[\w./-]+\.py\b", " ".join(run)):
                assert (file.parent / script).is_file()


def test_every_example_is_in_their_list() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert all(f"({file.relative_to(EXAMPLES)})" in listed for file in FILES)


def start(folder: Path, *command: str, **env: str) -> "subprocess.Popen[str]":
    surroundings = {"PATH": os.environ["PATH"], "GRUS_JOB": "j0123456789", **env}
    script, *arguments = command
    return subprocess.Popen(
        [sys.executable, str(EXAMPLES / script), *arguments],
        cwd=folder,
        env=surroundings,
        stdout=subprocess.PIPE,
        text=True,
    )


def output(*running: "subprocess.Popen[str]") -> list[str]:
    """What they wrote, once all have ended well; none outlives the test."""
    try:
        texts = [one.communicate(timeout=300)[0] for one in running]
    finally:
        for one in running:
            one.kill()
            one.wait()
            assert one.stdout is not None
            one.stdout.close()
    assert [one.returncode for one in running] == [0] * len(running), texts
    return texts


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


def test_the_gang_adds_up_over_all_workers(tmp_path: Path) -> None:
    port = free_port()
    texts = output(
        *(
            start(tmp_path, "gang.py", RANK=str(n), WORLD_SIZE="3", MASTER_PORT=port)
            for n in reversed(range(3))
        )
    )
    assert all("together we have 14" in text for text in texts)


def test_the_farm_does_every_task_once(tmp_path: Path) -> None:
    port = free_port()
    workers = [start(tmp_path, "farm.py", "worker", MASTER_PORT=port) for _ in range(2)]
    texts = output(start(tmp_path, "farm.py", "launcher", MASTER_PORT=port), *workers)
    assert "all 24 tasks are done" in texts[0]
    assert sum(int(re.findall(r": (\d+) tasks", text)[0]) for text in texts[1:]) == 24


def test_the_checkpointing_job_goes_on_where_it_was_asked_to_pause(tmp_path: Path) -> None:
    saved = str(tmp_path / "saved")
    first = start(tmp_path, "checkpoint.py", GRUS_CHECKPOINT=saved, STEPS="30")
    assert first.stdout is not None
    assert "step 20 of 30" in first.stdout.readline()
    first.send_signal(signal.SIGTERM)
    (text,) = output(first)
    step = int(re.findall(r"saved after step (\d+)", text)[0])
    (text,) = output(start(tmp_path, "checkpoint.py", GRUS_CHECKPOINT=saved, STEPS="30", GRUS_RESUME="1"))
    assert text.splitlines() == [f"resumed after step {step}", "done"]


def test_small_jobs_and_sessions_end_by_themselves(tmp_path: Path) -> None:
    texts = output(
        start(tmp_path, "small.py", "--steps", "2"),
        start(tmp_path, "session.py", SESSION_SECONDS="0.1"),
    )
    assert "step 1" in texts[0]
    assert "closed after its time" in texts[1]


def test_elastic_workers_share_all_units(tmp_path: Path) -> None:
    texts = output(*(start(tmp_path, "elastic.py", RANK=str(n), WORLD_SIZE="4") for n in range(4)))
    assert sum(int(re.findall(r"(\d+) units were mine", text)[0]) for text in texts) == 60
