"""Everything that can happen to a training job, on a real control plane: claims that hold on every backend.

`Faults` is a contract: a test class for each backend inherits it. All its claims are about one job that
trains all the while, since a process that imports torch takes seconds to start. Each of them begins and ends
with three workers that train together, so they hold in any order. The last one looks back at all of it.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest

from grus.elastic import audit
from grus.model.jobs import Phase
from tests.elastic import curves
from tests.elastic.conductor import BACKENDS
from tests.elastic.harness import Pool

ROOT = Path(__file__).parents[2]
SAMPLES = 509
SIZE = 3
STEPS = 3
"""Done together, they show that a team trains."""
EQUAL = 1e-9
"""Of losses in double precision; why, is said in `events`."""
PATIENCE = 300.0
"""Seconds, for broken code only: six processes that import torch may share two cores."""


class Training:
    """A pool, and a job in it that trains."""

    def __init__(self, pool: Pool, backend: str) -> None:
        self.pool = pool
        self.folder = pool.folder / "training"
        self.folder.mkdir()
        self._environment = {
            "GRUS_BACKEND": BACKENDS[backend],
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "OMP_NUM_THREADS": "1",
        }
        self.job = pool.submit(
            [sys.executable, "-m", "tests.elastic.trainee"],
            gpu="1..4",
            size=SIZE,
            env={**self._environment, "TRAINEE": self._task(10**6, pace=0.08)},
            retries=3,
            checkpoint={"path": str(pool.folder / "saved"), "every": "1s", "grace": "20s"},
        )

    def _task(self, epochs: int, **more: Any) -> str:
        return json.dumps(
            {
                "folder": str(self.folder),
                "dtype": "float64",
                "samples": SAMPLES,
                "epochs": epochs,
                "hang_after": 6.0,  # a worker that only lacks a core must not be cut off
                **more,
            }
        )

    def at(self) -> dict[int, tuple[int, int]]:
        """The team and the steps done of each member, by its pid."""
        found = {}
        for pid in self.pool.pids(self.job).values():
            with suppress(FileNotFoundError, ValueError):
                team, step = (self.folder / "at" / str(pid)).read_text().split()
                found[pid] = (int(team), int(step))
        return found

    def steps(self) -> int:
        return max((step for _, step in self.at().values()), default=0)

    def trains(self, size: int = SIZE) -> None:
        """Wait until a team of this size does steps together."""
        goal: list[int] = []

        def together() -> bool:
            at = self.at()
            number = self.pool.number(self.job)
            if len(at) != size or self.pool.size(self.job) != size:
                return False
            if any(team != number for team, _ in at.values()):
                return False
            if not goal:
                goal.append(max(step for _, step in at.values()) + STEPS)
            return all(step >= goal[0] for _, step in at.values())

        self.pool.until(together, PATIENCE)

    def first_step_of(self, attempt: int) -> int:
        """The first step that was done in this attempt."""
        lines = [line for own in curves.lines(self.folder).values() for line in own]
        return min(line.step for line in lines if line.attempt == attempt)

    def quiet(self, epochs: int) -> list[tuple[float, ...]]:
        """The losses of the same training by one process to which nothing happens."""
        folder = self.folder.with_name("quiet")
        folder.mkdir()
        subprocess.run(
            [sys.executable, "-m", "tests.elastic.trainee"],
            env={**os.environ, **self._environment, "TRAINEE": self._task(epochs, folder=str(folder))},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return curves.curve(curves.lines(folder))


class Faults:
    backend: ClassVar[str]

    @pytest.fixture(scope="class")
    @classmethod
    def training(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Training]:
        with Pool(tmp_path_factory.mktemp("pool")) as pool:
            yield Training(pool, cls.backend)

    def test_kill_9_of_the_first_worker_costs_the_others_one_step(self, training: Training) -> None:
        training.trains()
        pool, job = training.pool, training.job
        before, attempt = pool.pids(job), pool.job(job).attempt
        killed = pool.kill(job, 0)
        training.trains()
        assert set(before.values()) - {killed} <= set(pool.pids(job).values())
        assert pool.job(job).attempt == attempt

    def test_two_of_three_killed_at_once_leave_one_that_goes_on(self, training: Training) -> None:
        training.trains()
        pool, job = training.pool, training.job
        before, attempt = pool.pids(job), pool.job(job).attempt
        for rank in (0, 2):
            os.kill(before[rank], signal.SIGKILL)
        training.trains()
        assert before[1] in pool.pids(job).values()
        assert pool.job(job).attempt == attempt

    def test_a_hung_worker_is_cut_off(self, training: Training) -> None:
        training.trains()
        pool, job = training.pool, training.job
        before, lost = pool.pids(job), pool.job(job).lost
        hung = pool.kill(job, 1, signal.SIGSTOP)
        pool.until(lambda: pool.job(job).lost == lost + 1, PATIENCE)
        training.trains()
        assert hung not in pool.pids(job).values()
        assert set(before.values()) - {hung} <= set(pool.pids(job).values())

    def test_a_job_grows_and_shrinks_without_redoing_a_step(self, training: Training) -> None:
        training.trains()
        pool, job = training.pool, training.job
        before, lost = pool.pids(job), pool.job(job).lost
        pool.scale(job, 4)
        training.trains(4)
        pool.scale(job, 1)
        training.trains(1)
        assert set(pool.pids(job).values()) < set(before.values())
        assert pool.job(job).lost == lost
        pool.scale(job, SIZE)
        training.trains()

    def test_workers_killed_while_a_team_is_formed_hurt_nobody_else(self, training: Training) -> None:
        """One that has just said that it is ready, and one of those that it was about to join."""
        training.trains()
        pool, job = training.pool, training.job
        attempt, number = pool.job(job).attempt, pool.number(job)
        pool.scale(job, 4)
        pool.until(lambda: pool.number(job) > number, PATIENCE)
        for rank in (3, 1):
            pool.kill(job, rank)
        training.trains(4)
        assert pool.job(job).attempt == attempt
        pool.scale(job, SIZE)
        training.trains()

    def test_training_goes_on_without_a_control_plane_and_is_taken_up_again(self, training: Training) -> None:
        training.trains()
        pool, job = training.pool, training.job
        before, steps = pool.pids(job), training.steps()
        attempt = pool.job(job).attempt
        pool.end()
        try:
            path = training.folder / "at" / str(before[0])
            pool.until(lambda: int(path.read_text().split()[1]) > steps + 2 * STEPS)
            os.kill(before[2], signal.SIGKILL)
        finally:
            pool.begin()
        training.trains()
        assert {before[0], before[1]} <= set(pool.pids(job).values())
        assert pool.job(job).attempt == attempt

    def test_a_pause_saves_the_last_step_and_a_resume_goes_on_from_it(self, training: Training) -> None:
        training.trains()
        pool, job = training.pool, training.job
        pool.pause(job)
        pool.until_phase(job, Phase.PAUSED, seconds=PATIENCE)
        done = len(curves.curve(curves.lines(training.folder)))
        failures = pool.job(job).failures
        pool.resume(job)
        training.trains()
        assert training.first_step_of(pool.job(job).attempt) == done
        assert pool.job(job).failures == failures

    def test_when_all_are_lost_the_next_attempt_goes_on_from_the_checkpoint(self, training: Training) -> None:
        training.trains()
        pool, job = training.pool, training.job
        saved = pool.until(lambda: pool.job(job).saved_at, PATIENCE)
        attempt = pool.job(job).attempt
        pool.until(lambda: (pool.job(job).saved_at or 0.0) > saved, PATIENCE)
        done = training.steps() + 1
        for pid in pool.pids(job).values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        pool.until(lambda: pool.job(job).attempt == attempt + 1, PATIENCE)
        training.trains()
        assert 0 < training.first_step_of(attempt + 1) <= done

    def test_after_all_of_it_the_run_is_the_same_as_a_quiet_one(self, training: Training) -> None:
        """Every sample once an epoch, equal parameters, no more than one step redone, the same losses."""
        training.trains()
        pool, job = training.pool, training.job
        pool.pause(job)
        pool.until_phase(job, Phase.PAUSED, seconds=PATIENCE)
        lines = curves.lines(training.folder)
        found = audit.check(training.folder / "audit", SAMPLES)
        assert found.wrong == ()
        assert curves.unequal(lines) == []
        assert curves.redone(training.folder) <= 1
        losses = curves.curve(lines)
        assert curves.distance(losses, training.quiet(found.epochs + 1)[: len(losses)]) < EQUAL
