"""Workers in boxes through the whole product.

Stages hand on what they made, a model is served, a job is paused and goes on; and none of them reaches what
is the server's, or another's.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.real import RealGrus
from tests.live.pool import PATIENCE, LivePool
from tests.live.test_stages import EXAMPLE, STAGES, answered, graph, submitted
from tests.server.process import eventually

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs Debian's package bubblewrap")
BOXED = 'isolation = "bubblewrap"\n'


@pytest.fixture
def grus(tmp_path: Path) -> Iterator[RealGrus]:
    command = RealGrus(tmp_path)
    shutil.copytree(EXAMPLE, command.work, dirs_exist_ok=True)
    command.configure(f"[server]\n{BOXED}")
    command.up("--virtual", "1x2x16GB", "--port", "0")
    try:
        yield command
    finally:
        command.down()


def test_stages_hand_on_what_they_made_and_the_model_answers(grus: RealGrus) -> None:
    ids = submitted(grus)
    found = graph(grus)
    assert {found[name]["phase"] for name in STAGES} == {"succeeded"}
    assert abs(sum(answered(grus, ids["serve"])) - 1.0) < 0.01


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[LivePool]:
    made = LivePool(tmp_path, "1x2x1GB")
    made.more = BOXED
    with made:
        yield made


def test_a_job_reads_neither_secrets_nor_other_jobs_and_ends_nobody(pool: LivePool) -> None:
    state, token = pool.places.state, pool.places.token_file
    other = pool.grus.submit({"run": "sleep 1000", "env": {"OTHER": "hidden-value"}, "workdir": "/"})
    eventually(lambda: other.refresh().phase == "running", "the other one runs")
    secrets = [token, *(state / name for name in ("grus.db", "session.key", "server.log", "lock"))]
    assert all(path.exists() for path in secrets)
    line = f"""
for file in {" ".join(map(str, secrets))}; do test -s "$file" && echo "read $file"; done
grep -l hidden'-'value /proc/*/environ {state}/engine/workers/*/spec.json 2>/dev/null | grep -v self
kill -0 {os.getpid()} 2>/dev/null && echo reached
echo looked
"""
    spy = pool.grus.submit({"run": line, "workdir": "/"})
    assert spy.wait(PATIENCE).phase == "succeeded"
    assert "".join(spy.logs()).split() == ["looked"]
    assert other.refresh().phase == "running"


SAVES = """
import signal, sys, time
def save(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
time.sleep(1000)
"""


def test_a_pause_lets_the_program_save_and_a_server_that_was_killed_finds_it_again(pool: LivePool) -> None:
    job = pool.grus.submit(
        {"run": [sys.executable, "-c", SAVES], "workdir": "/", "checkpoint": {"grace": "20s"}}
    )
    eventually(lambda: "up" in "".join(job.logs()), "it is up")
    pool.kill()
    pool.start()
    eventually(lambda: job.refresh().phase == "running", "it goes on")
    job.pause()
    eventually(lambda: job.refresh().phase == "paused", "it is paused")
    assert "saved" in "".join(job.logs())


def test_a_server_that_can_make_no_boxes_does_not_start_without_them(tmp_path: Path) -> None:
    pool = LivePool(tmp_path, "1x1x1GB")
    pool.more = BOXED
    pool.env["PATH"] = str(tmp_path)
    assert pool.launch().wait(PATIENCE) != 0
    assert 'server.isolation: cannot be "bubblewrap" here (there is no bwrap on PATH' in pool.said.read_text()
