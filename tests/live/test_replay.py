"""What a real server decided, the simulator decides too: a recorded run is played again, one by one."""

import subprocess
import sys
from pathlib import Path

import pytest

from grus.simulator.recorded.replay import Replay, replay
from tests.live.pool import PATIENCE, LivePool, QueueRules

ELASTIC = {"launch": "per-gpu"}


class RecordedPool(LivePool):
    """A live pool whose server records what its scheduler is told and what it decides."""

    def __init__(self, folder: Path, pool: str, **queues: QueueRules) -> None:
        super().__init__(folder, pool, **queues)
        self.record = folder / "decisions.jsonl"
        self._config = self._config.replace("[server]\n", f'[server]\nrecord = "{self.record}"\n')


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with borrowing, taking back, priorities, gangs, growing, shrinking, wishes of users, a cordon and
    a server that is killed and started again."""
    folder = tmp_path_factory.mktemp("recorded")
    queues: dict[str, QueueRules] = {"a": {"quota": 3}, "b": {"quota": 3}, "c": {"quota": 2, "reserved": 1}}
    with RecordedPool(folder, "2x4x1GB", **queues) as pool:
        pool.run("a4", "a", 4)
        pool.run("stretch", "a", "1..6", **ELASTIC)
        pool.run("b3", "b", 3, priority=60)  # takes back what was lent
        pool.run("dev", "c", type="dev")
        pool.submit_many("b", 3)
        pool.settle()
        pool.run("late", "a", 2, priority=90)
        pool.handles["stretch"].scale("1..2")
        pool.settle()
        pool.handles["b3"].pause()
        pool.settle()
        pool.handles["b3"].resume()
        pool.settle()
        pool.grus.cordon("node-1")
        pool.run("after", "c", after=[pool.handles["a4"].id])
        pool.delete("late")
        pool.kill()
        pool.start()
        pool.grus.uncordon("node-1")
        pool.run("share", "b", "0.5")
        pool.delete("stretch")
        while running := pool.running():
            pool.finish(min(running))
        assert {event.kind for event in pool.events()} >= {"resized", "pausing", "paused", "stopped"}
    return pool.record


def test_every_decision_of_the_live_run_is_made_again(record: Path) -> None:
    with record.open("rb") as file:
        found = replay(file)
    assert found.difference is None, found.difference
    assert found.lives == 2
    assert found.decisions >= 50
    assert found.actions >= 15
    # What a decision does to a job is the same too, for all that nobody else changed meanwhile.
    assert found.carried >= 0.8 * found.actions
    assert found.left >= 3
    assert found.sentence() == f"{found.decisions} decisions, all equal"


def test_a_decision_that_was_not_made_so_is_found(record: Path) -> None:
    """The proof can fail: one device of one start is another one in the record."""
    lines = record.read_bytes().splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines) if b'"decide"' in line and b'"does":"start"' in line)
    changed = lines[number].replace(b"node-0/gpu-0", b"node-1/gpu-3").replace(b"node-0", b"node-1")
    assert changed != lines[number]
    found = replay([*lines[:number], changed, *lines[number + 1 :]])
    assert found.difference is not None
    assert found.difference.line == number + 1
    assert "node-1" in found.difference.live
    assert "node-0" in found.difference.simulated
    assert "differs" in found.sentence()


def test_the_command_says_so(record: Path) -> None:
    command = [sys.executable, "-m", "grus.cli.main", "simulate", "--replay", str(record)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    assert "decisions, all equal" in done.stdout


def test_what_jobs_run_is_not_on_record(record: Path) -> None:
    text = record.read_text()
    assert "left-out" in text
    assert '"cat"' not in text
    assert str(record.parent) not in text
    assert isinstance(replay(text.encode().splitlines()), Replay)
