"""A state that was really used: a server, people's jobs of every fate, an artefact; then the server ends.

Its jobs go on, as they do; whoever made it ends them by `LivePool.end`.
"""

import time
from pathlib import Path

from grus.controlplane.integrity.check import FsckResult, check
from grus.controlplane.integrity.orphans import Leftovers
from grus.controlplane.settings import Settings
from grus.model.jobs import TERMINAL, Phase
from tests.live.pool import LivePool
from tests.server.process import eventually

POOL = "1x4x1GB"
WAITS = {"run": ["true"], "resources": {"gpu": 4}, "workdir": "/", "queue": "vision"}
"""A job that waits for as long as the gang runs."""


def a_used_pool(folder: Path) -> LivePool:
    """Not started yet."""
    folder.mkdir(parents=True, exist_ok=True)
    return LivePool(folder, POOL, vision={"quota": 4})


def examined(state: Path) -> FsckResult:
    """As `grus fsck --artefacts` does."""
    settings = Settings(state=state, as_submitters=False)
    return check(state / "grus.db", Leftovers(settings, time.time()), read_all=True)


def use(pool: LivePool) -> None:
    """One job of every fate, and all that comes with them. The gang runs on."""
    grus = pool.grus
    output = {"run": "echo model > $GRUS_OUTPUT_MODEL/weights", "outputs": ["model"], "workdir": "/"}
    made = grus.submit({"name": "makes", "queue": "vision", **output})
    failed = grus.submit({"name": "fails", "queue": "vision", "run": "exit 3", "workdir": "/"})
    for job, phase in ((made, Phase.SUCCEEDED), (failed, Phase.FAILED)):
        assert job.wait(300).phase == phase
    pool.submit("gang", "vision", gpus=2, launch="per-gpu")
    eventually(lambda: pool["gang"].phase == Phase.RUNNING, "the gang runs")
    paused = grus.submit({"name": "rests", **WAITS})
    paused.pause()
    grus.submit({"name": "waits", **WAITS}, key="nightly")
    stopped = grus.submit({"name": "stops", **WAITS})
    stopped.stop()
    eventually(lambda: stopped.refresh().phase in TERMINAL, "it has stopped")
    eventually(lambda: len(grus.runs(limit=10)) == 3, "what has ended is kept")
