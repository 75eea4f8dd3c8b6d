"""Stopping leaves nothing alive, however a job forks."""

import os
from pathlib import Path

from tests.chaos.stops import run


def test_no_process_is_left_after_stops_of_fork_happy_workers(tmp_path: Path) -> None:
    """GRUS_PROOF_STOPS sets how many stops; every worker forks all the time, into other sessions too."""
    stops = int(os.environ.get("GRUS_PROOF_STOPS", "20"))
    figures = run(tmp_path / "engine", stops)
    assert figures.stops == stops
    assert figures.killed >= 8 * stops
    assert figures.left == 0
