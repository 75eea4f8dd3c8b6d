"""Real jobs are recognised from their telemetry, and what is decided uses it: `grus why` says so."""

import subprocess
import sys
import time
from pathlib import Path

from grus.simulator.recorded.decision_recorder import lines
from grus.simulator.recorded.replay import replay
from tests.live import epochs
from tests.live.pool import PATIENCE
from tests.live.test_replay import RecordedPool
from tests.server.process import eventually

BUSY, REST = 9.0, 5.0
RECOGNISED = 180.0
"""Seconds within which a rhythm must be recognised; usually it takes a few periods."""
IDLE = {"below": "10%", "for": "20s", "action": "pause"}


class Watched:
    """Three GPUs: one job trains on a borrowed one, another does nothing on its own, and a third waits."""

    def __init__(self, folder: Path) -> None:
        self.pool = RecordedPool(folder, "1x3x1GB", a={"quota": 1}, b={"quota": 1}, c={"quota": 1})
        self._told = folder / "epochs"
        self._checkpoint = {"path": str(folder / "ckpt"), "grace": "5s"}

    def begin(self) -> None:
        run = [sys.executable, epochs.__file__, str(self._told), str(BUSY), str(REST)]
        self.pool.submit("kept", "a")
        self.pool.run("lent", "a", run=run, checkpoint=self._checkpoint)
        self.pool.run("sleeps", "c", idle=IDLE)
        self.pool.submit("next", "c")

    def notes(self, name: str) -> str:
        return "\n".join(self.pool.grus.why(self.pool.handles[name].id).notes)

    def epochs(self) -> list[float]:
        """When the training's epochs began, by its own word."""
        return [float(line) for line in self._told.read_text().split()]

    def scheduler_knows(self) -> bool:
        """Whether the rhythm is on record among what the scheduler was told."""
        with self.pool.record.open("rb") as file:
            noted = [line.note for _, line in lines(file) if line.note is not None]
        job = self.pool.handles["lent"].id
        return any(note.job == job and note.tag is not None and note.tag.period for note in noted)

    def near_its_end(self) -> bool:
        return 0.72 < (time.time() - self.epochs()[-1]) / (BUSY + REST) < 0.8

    def grus_why(self, name: str) -> str:
        command = [sys.executable, "-m", "grus.cli.main", "why", name]
        done = subprocess.run(
            command, env=self.pool.env, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def test_a_training_is_paused_at_the_end_of_its_epoch_and_one_that_idles_by_its_policy(
    tmp_path: Path,
) -> None:
    watched = Watched(tmp_path)
    pool = watched.pool
    with pool:
        watched.begin()
        eventually(lambda: "a period of" in watched.notes("lent"), "its rhythm is recognised", RECOGNISED)
        assert "recognised as training" in watched.notes("lent")
        eventually(watched.scheduler_knows, "the scheduler was told", PATIENCE)
        # Near the end of an epoch it is worth to wait for it.
        eventually(watched.near_its_end, "an epoch is nearly over")
        pool.submit("asks", "b")
        eventually(lambda: pool["asks"].phase == "running", "it got its GPU", PATIENCE)
        eventually(lambda: pool["next"].phase == "running", "who idles has made room", RECOGNISED)
        pool.settle()

        told = {event.job: event for event in pool.pauses()}
        paused = told[pool.handles["lent"].id]
        assert "it goes at the end of an epoch (one every 14 s)" in paused.text
        said = watched.grus_why("lent")
        assert "it was paused because a was over quota; asks" in said
        assert "it goes at the end of an epoch (one every 14 s)" in said

        kinds = [event.kind for event in pool.events() if event.job == pool.handles["sleeps"].id]
        assert kinds.index("idle") < kinds.index("pausing"), "it was warned first"
        assert "paused by its idle policy: nothing of its 1 GPU used" in watched.grus_why("sleeps")
        assert pool["sleeps"].paused_by == "idle"
    with pool.record.open("rb") as file:
        again = replay(file)
    assert again.difference is None, again.difference
    assert b'{"note"' in pool.record.read_bytes()
