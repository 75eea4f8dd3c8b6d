"""Two real jobs on one pretended GPU: a pair that gains stays together, one that loses is parted.

What the product measured is held against what the jobs themselves wrote down of their steps.
"""

import re
import sys
from pathlib import Path

from benchmarks import pairs_program
from grus.api.wire_types.job import EventOut, JobOut
from grus.api.wire_types.timestamps import parse_time
from grus.scheduler.state.gpu_footprint import MEASURED
from grus.simulator.recorded.decision_recorder import lines
from grus.simulator.recorded.replay import replay
from tests.live.pool import PATIENCE
from tests.live.test_replay import RecordedPool
from tests.server.process import eventually

KNOWN = 120.0
"""Seconds within which something must be seen of jobs; it usually takes a few looks at their reports."""
LOOKED = re.compile(r"measured to do ([0-9.]+) times")


class Pair:
    """Two jobs that have one node with one GPU for themselves."""

    def __init__(self, pool: RecordedPool, folder: Path, name: str, avoid: str, *, turns: bool) -> None:
        self._pool = pool
        self._folder = folder
        self._turn = ["--turn", str(folder / f"{name}.turn")] if turns else []
        self._avoid = avoid
        self.guest, self.host = f"{name}-guest", f"{name}-host"

    def submit(self, name: str) -> None:
        command = [sys.executable, pairs_program.__file__, str(self._log(name)), *self._turn]
        takes = {"gpu": 1, "share": "auto"}
        self._pool.submit(name, run=command, resources=takes, affinity={"avoid_nodes": [self._avoid]})

    def job(self, name: str) -> JobOut:
        return self._pool[name]

    def is_(self, name: str, phase: str) -> bool:
        return self.job(name).phase == phase

    def seen(self, name: str) -> bool:
        """Whether the scheduler was told what it takes of a GPU that it has alone."""
        with self._pool.record.open("rb") as file:
            gauged = [line.gauge.job for _, line in lines(file) if line.gauge is not None]
        return self._pool.handles[name].id in gauged

    def events(self, name: str, kind: str) -> list[EventOut]:
        mine = self._pool.handles[name].id
        return [event for event in self._pool.events(kind) if event.job == mine]

    def measured(self) -> float:
        """The gain that the product tells, by the first word of it."""
        both = [*self.events(self.host, "measured"), *self.events(self.guest, "measured")]
        told = [*both, *self.events(self.guest, "pausing")]
        return next(float(found[1]) for event in told if (found := LOOKED.search(event.text)))

    def true_gain(self) -> float:
        """The same by what both wrote down of their steps while they shared, and before."""
        begin = parse_time(self.events(self.guest, "running")[-1].at) + 1.0
        shrunk = parse_time(self.events(self.host, "shared")[0].at)
        left = parse_time(self.events(self.guest, "pausing")[0].at)
        end = parse_time(self._end().at)
        guest = self._speed(self.guest, begin, end) / self._speed(self.guest, 0.0, left)
        return guest + self._speed(self.host, begin, end) / self._speed(self.host, 0.0, shrunk)

    def _end(self) -> EventOut:
        """When it was parted, or measured."""
        parted = [one for one in self.events(self.guest, "pausing") if LOOKED.search(one.text)]
        return [*parted, *self.events(self.guest, "measured")][0]

    def _speed(self, name: str, since: float, until: float) -> float:
        """Steps a second in this time."""
        moments = [float(word) for word in self._log(name).read_text().split()]
        inside = [moment for moment in moments if since < moment < until]
        return (len(inside) - 1) / (inside[-1] - inside[0])

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.steps"


def begin(pool: RecordedPool, pairs: list[Pair]) -> None:
    """Let both of each pair be seen alone, one after the other, and the first wait for the second."""
    for pair in pairs:
        pair.submit(pair.guest)
    for pair in pairs:
        eventually(lambda: pair.seen(pair.guest), f"{pair.guest} was seen alone", KNOWN)  # noqa: B023 - called at once
        pool.handles[pair.guest].pause()
    for pair in pairs:
        eventually(lambda: pair.is_(pair.guest, "paused"), "it has left its GPU", PATIENCE)  # noqa: B023 - called at once
        pair.submit(pair.host)
    for pair in pairs:
        eventually(lambda: pair.is_(pair.host, "running"), "the host runs", PATIENCE)  # noqa: B023 - called at once
        pool.handles[pair.guest].resume()
    for pair in pairs:
        eventually(lambda: pair.is_(pair.guest, "running"), "they share", KNOWN)  # noqa: B023 - called at once


def test_a_pair_that_gains_stays_together_and_one_that_loses_is_parted(tmp_path: Path) -> None:
    pool = RecordedPool(tmp_path, "2x1x1GB")
    with pool:
        gains = Pair(pool, tmp_path, "gains", "node-1", turns=False)
        loses = Pair(pool, tmp_path, "loses", "node-0", turns=True)
        begin(pool, [gains, loses])
        hosts = {pair.host: pool.pids(pair.host) for pair in (gains, loses)}
        eventually(lambda: bool(gains.events(gains.guest, "measured")), "the pair was measured", KNOWN)
        eventually(lambda: loses.is_(loses.guest, "paused"), "the other pair was parted", KNOWN)
        eventually(lambda: loses.job(loses.host).gpus == 1, "its GPU is whole again", PATIENCE)

        assert gains.measured() > MEASURED
        assert gains.true_gain() > MEASURED
        assert gains.is_(gains.guest, "running")
        assert (gains.job(gains.guest).gpus, gains.job(gains.host).gpus) == (0.5, 0.5)
        assert loses.measured() < 1.0
        assert loses.true_gain() < 1.0
        said = "\n".join(pool.grus.why(pool.handles[loses.guest].id).notes)
        assert f"sharing a GPU with {loses.host}" in said
        assert "times the work of taking turns" in said
        assert hosts == {pair.host: pool.pids(pair.host) for pair in (gains, loses)}, "hosts go on"
    with pool.record.open("rb") as file:
        again = replay(file)
    assert again.difference is None, again.difference
