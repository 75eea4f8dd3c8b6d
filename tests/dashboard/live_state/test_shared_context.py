"""What pages share is read once, after a start, and no more of it than they can hold."""

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from grus.dashboard.live_state import shared_context
from grus.dashboard.live_state.job_index import Board, JobFilter
from grus.model.jobs import Phase
from tests.controlplane.plane import ANN, Plane, a_spec


def fill(plane: Plane, most: int) -> tuple[Board, list[str]]:
    """A board, and the jobs that it was given."""
    given: list[str] = []

    class Counting(Board):
        def take(self, jobs: Any) -> None:
            made = list(jobs)
            given.extend(job.id for job in made)
            super().take(made)

    board = Counting(most=most)
    streams: Any = SimpleNamespace(poke=lambda: None)
    shared_context._fill(board, plane.services, streams, threading.Event())
    assert board.full
    return board, given


def test_all_living_jobs_are_read_and_of_the_others_the_newest_that_there_is_room_for() -> None:
    plane = Plane()
    jobs = [plane.services.actions.submit(ANN, a_spec(f"job-{number}")).result() for number in range(400)]
    for job in jobs[100:]:
        ended = replace(job, phase=Phase.STOPPED, ended_at=job.submitted_at + 1)
        plane.store.replace(ended, None).result()
    living = {job.id for job in jobs[:100]}
    board, given = fill(plane, most=150)
    assert living <= set(given)
    assert len(given) == 150
    assert {row.id for row in board.look(JobFilter(limit=1000), lambda *_: True).rows} == set(given)
    assert set(fill(plane, most=20)[1]) == living
    assert len(fill(plane, most=1000)[1]) == 400
    plane.close()
