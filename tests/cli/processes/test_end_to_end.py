"""The command against a real server with real processes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.real import RealGrus


@pytest.fixture(scope="module")
def grus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealGrus]:
    command = RealGrus(tmp_path_factory.mktemp("home"))
    command.configure("[queues.vision]\nquota = 4\n[queues.language]\nquota = 4\n")
    command.up("--virtual", "2x4x16GB", "--port", "0")
    try:
        yield command
    finally:
        command.down()


def test_run_shows_the_output_and_returns_the_code(grus: RealGrus) -> None:
    done = grus("run", "-q", "vision", "--", "sh", "-c", "echo out; echo err >&2; exit 7", code=7)
    assert "out\n" in done.stdout
    assert "err\n" in done.stdout


def test_run_in_this_folder_with_its_gpus_and_the_given_environment(grus: RealGrus) -> None:
    script = 'pwd; echo "$A"; echo "$CUDA_VISIBLE_DEVICES" | tr , "\\n" | wc -l'
    done = grus("run", "-q", "vision", "--gpu", "2", "-e", "A=b", "--quiet", "--", "sh", "-c", script)
    assert done.stdout.split() == [str(grus.work), "b", "2"]
    assert done.stderr == ""


def test_run_tells_a_signal_apart(grus: RealGrus) -> None:
    grus("run", "-q", "vision", "--", "sh", "-c", "kill -9 $$", code=137)


def test_a_command_that_is_not_there_is_127(grus: RealGrus) -> None:
    grus("run", "-q", "vision", "--", "no-such-command", code=127)


def test_what_can_never_fit_is_refused_and_not_stored(grus: RealGrus) -> None:
    before = len(grus.json("ps", "-a"))
    done = grus("run", "-q", "vision", "--gpu", "64", "--", "true", code=123)
    assert "error:" in done.stderr
    (grus.work / "big.yaml").write_text("run: 'true'\nqueue: vision\nresources: {gpu: 64}\n")
    grus("submit", "big.yaml", code=3)
    assert len(grus.json("ps", "-a")) == before


def test_the_output_of_every_attempt_is_shown(grus: RealGrus) -> None:
    script = 'echo "attempt $GRUS_ATTEMPT"; test "$GRUS_ATTEMPT" = 2'
    done = grus("run", "-q", "vision", "--retries", "1", "--", "sh", "-c", script)
    assert done.stdout.splitlines() == ["attempt 1", "attempt 2"]


def test_stages_run_in_their_order(grus: RealGrus) -> None:
    text = """
name: first
queue: vision
run: echo one >> order
---
name: second
queue: vision
run: echo two >> order
after: [first]
"""
    (grus.work / "stages.yaml").write_text(text)
    grus("submit", "stages.yaml", "--watch")
    assert (grus.work / "order").read_text() == "one\ntwo\n"


def test_the_same_key_submits_once(grus: RealGrus) -> None:
    (grus.work / "once.yaml").write_text("name: once\nqueue: vision\nrun: 'true'\n")
    first = grus.json("submit", "once.yaml", "--key", "a-key")
    assert grus.json("submit", "once.yaml", "--key", "a-key")["id"] == first["id"]


def test_a_plan_says_where_and_stores_nothing(grus: RealGrus) -> None:
    (grus.work / "plan.yaml").write_text("name: planned\nqueue: vision\nrun: 'true'\nresources: {gpu: 2}\n")
    plan = grus.json("submit", "plan.yaml", "--plan")
    assert plan["fits"] is True
    assert [job for job in grus.json("ps", "-a") if job["name"] == "planned"] == []


def test_pause_resume_stop_and_attach(grus: RealGrus) -> None:
    job = grus(
        "run", "-q", "vision", "-d", "--name", "sleeper", "--grace", "1s", "--", "sleep", "600"
    ).stdout.strip()
    grus("resume", job, "--wait", code=None)
    assert grus.json("pause", "sleeper", "--wait")["phase"] == "paused"
    assert "paused" in grus("why", "sleeper").stdout.lower()
    assert grus.json("resume", job, "--wait")["phase"] == "running"
    assert grus.json("stop", job[:6], "--wait")["phase"] == "stopped"
    grus("attach", job, code=143)


def test_an_interrupted_run_leaves_the_job_running(grus: RealGrus) -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "grus.cli.main",
            "run",
            "-q",
            "vision",
            "--name",
            "left",
            "--",
            "sh",
            "-c",
            "echo ready; sleep 600",
        ],
        env=grus.env,
        cwd=grus.work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "goes on without us" in told
    assert grus.json("describe", "left")["job"]["phase"] == "running"
    grus("stop", "left", "--wait")


def test_a_waiting_job_says_why_who_holds_what_and_what_would_start_it(grus: RealGrus) -> None:
    held = grus(
        "run", "-q", "vision", "--gpu", "4", "--type", "dev", "--name", "holder", "-d", "--", "sleep", "600"
    ).stdout
    grus("run", "-q", "vision", "--gpu", "1", "--type", "dev", "--name", "waiter", "-d", "--", "sleep", "600")
    why = grus.json("why", "waiter")
    assert why["sentence"]
    assert [job["name"] for job in grus.json("ps", "--phase", "pending")] == ["waiter"]
    grus("stop", held.strip(), "waiter", "--wait")


def test_nodes_can_be_cordoned(grus: RealGrus) -> None:
    node = grus.json("nodes")[0]["id"]
    grus("cordon", node)
    assert grus.json("nodes")[0]["cordoned"] is True
    grus("uncordon", node)
    assert grus.json("nodes")[0]["cordoned"] is False


def test_a_member_may_not_change_queues(grus: RealGrus) -> None:
    grus("user", "set", "ada", "--role", "member", "--accept-shared-account")
    secret = grus("token", "new", "ada").stdout.strip()
    grus("queue", "set", "vision", "--quota", "8", code=5, GRUS_TOKEN=secret)
    assert grus("ps", GRUS_TOKEN=secret).exit_code == 0
    grus("user", "delete", "ada")
    assert "token" in grus("ps", code=5, GRUS_TOKEN=secret).stderr.lower()


def test_a_second_up_is_refused_with_the_pid_of_the_first(grus: RealGrus) -> None:
    pid = json.loads((grus.home / "state" / "server.json").read_text())["pid"]
    assert f"pid {pid}" in grus.up(code=1)


def test_jobs_go_on_without_the_server_and_are_found_again(tmp_path: Path) -> None:
    grus = RealGrus(tmp_path)
    grus.up("--virtual", "1x2x8GB", "--port", "0")
    try:
        job = grus("run", "-d", "--name", "lasting", "--", "sh", "-c", "echo begun; sleep 600").stdout.strip()
        grus("resume", job, "--wait", code=None)
        said = grus("down").stdout
        assert f"1 job goes on without it: {job}" in said
        grus("ps", code=6)
        grus.up("--virtual", "1x2x8GB", "--port", "0")
        found = grus.json("describe", job)["job"]
        assert (found["phase"], found["attempt"]) == ("running", 1)
        pid = grus.json("describe", job)["workers"][0]["pid"]
    finally:
        grus.down()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_purge_removes_the_state_only_when_told_to(tmp_path: Path) -> None:
    grus = RealGrus(tmp_path)
    grus.up("--virtual", "1x2x8GB", "--port", "0")
    try:
        assert "--yes" in grus("down", "--purge", code=2).stderr
        grus("status")
    finally:
        grus("down", "--purge", "--yes")
    assert not (tmp_path / "state").exists()


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    grus = RealGrus(tmp_path)
    assert "many" in grus.up("--virtual", "many", "--port", "0", code=2)
    grus.configure("[server]\nport = 'x'\nhostt = 1\n")
    said = grus.up(code=2)
    assert "server.port" in said
    assert "server.hostt" in said
