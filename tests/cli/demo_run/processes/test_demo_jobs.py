"""The demo's programs by themselves: they save, resume, meet and share as the story needs."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grus.cli.demo_run.story import ENOUGH, JOBS, RESUMED, ObservedJob
from tests.cli.fake import a_job

SOON = 20.0


def start(script: str, *options: str, folder: Path, **env: str) -> "subprocess.Popen[str]":
    surroundings = {"PATH": os.environ["PATH"], "GRUS_CHECKPOINT": str(folder), **env}
    command = [sys.executable, "-u", str(JOBS / script), *options]
    return subprocess.Popen(command, env=surroundings, stdout=subprocess.PIPE, text=True)


def read_until(process: "subprocess.Popen[str]", words: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return
    pytest.fail(f"it ended without saying {words!r}")


def rest(process: "subprocess.Popen[str]") -> str:
    said, _ = process.communicate(timeout=SOON)
    return said


def test_a_run_that_is_asked_to_pause_saves_and_goes_on_from_there(tmp_path: Path) -> None:
    first = start("train.py", "--steps", "50", "--step-seconds", "0.02", folder=tmp_path)
    read_until(first, "step 3/")
    first.send_signal(signal.SIGTERM)
    assert "asked to pause" in rest(first)
    assert first.returncode == 0
    second = start("train.py", "--steps", "50", "--step-seconds", "0.001", folder=tmp_path)
    said = rest(second)
    assert RESUMED in said
    assert "step 3/" not in said
    assert said.endswith("finished\n")


def test_a_run_that_is_killed_goes_on_from_its_last_step(tmp_path: Path) -> None:
    first = start("train.py", "--steps", "50", "--step-seconds", "0.02", folder=tmp_path)
    read_until(first, "step 2/")
    first.kill()
    rest(first)
    assert RESUMED in rest(start("train.py", "--steps", "4", "--step-seconds", "0.001", folder=tmp_path))


def test_the_ranks_of_a_gang_meet_and_agree_on_a_sum(tmp_path: Path, free_port: int) -> None:
    meeting = {"WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port)}
    ranks = [
        start("gang.py", "--steps", "2", "--step-seconds", "0.01", folder=tmp_path, RANK=str(rank), **meeting)
        for rank in range(4)
    ]
    for rank in ranks:
        assert "step 2/2, sum over all ranks 6" in rest(rank)
        assert rank.returncode == 0


def test_a_gang_that_loses_a_rank_fails_as_a_whole(tmp_path: Path, free_port: int) -> None:
    meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port)}
    ranks = [
        start(
            "gang.py", "--steps", "500", "--step-seconds", "0.01", folder=tmp_path, RANK=str(rank), **meeting
        )
        for rank in range(2)
    ]
    read_until(ranks[0], "step 2/")
    ranks[1].kill()
    rest(ranks[1])
    rest(ranks[0])
    assert ranks[0].returncode != 0


def test_workers_of_an_elastic_run_share_units_and_give_back_what_they_had(tmp_path: Path) -> None:
    first = start("elastic.py", "--unit-seconds", "0.02", folder=tmp_path, RANK="0")
    second = start("elastic.py", "--unit-seconds", "30", folder=tmp_path, RANK="1")
    read_until(second, "here")
    held = wait_for_claim_of(second.pid, tmp_path)
    second.send_signal(signal.SIGTERM)
    assert f"unit {held.stem} given back" in rest(second)
    read_until(first, f"unit {held.stem} done")
    (tmp_path / ENOUGH).touch()
    rest(first)
    assert (first.returncode, second.returncode) == (0, 0)


def test_a_short_wait_is_told_in_milliseconds() -> None:
    times = {"submitted_at": "2026-11-15T12:00:00.000Z", "first_started_at": "2026-11-15T12:00:00.038Z"}
    assert ObservedJob(a_job(**times)).wait == "38 ms"
    assert ObservedJob(a_job(first_started_at=None)).wait == "never"


def wait_for_claim_of(pid: int, folder: Path) -> Path:
    deadline = time.monotonic() + SOON
    while time.monotonic() < deadline:
        for claim in folder.glob("*.claimed"):
            try:
                if claim.read_text() == str(pid):
                    return claim
            except FileNotFoundError:
                continue
    pytest.fail("it never claimed a unit")


def test_a_session_lasts_until_it_is_told_to_end(tmp_path: Path) -> None:
    session = start("session.py", folder=tmp_path)
    read_until(session, "session ready")
    session.send_signal(signal.SIGTERM)
    rest(session)
    assert session.returncode == 0
