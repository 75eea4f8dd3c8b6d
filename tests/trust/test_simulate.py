"""The simulation keeps its own promises: it can fail, it replays to the byte, and it shrinks."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from grus.controlplane.history import retention
from grus.controlplane.jobs import lifecycle
from grus.controlplane.jobs.lifecycle import JobChange
from grus.model.jobs import Job
from grus.scheduler.preempt import victim_candidates
from grus.store import rules
from grus.store.memory import MemoryStore
from tests.trust.simulate import run, shrink

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", range(6))
def test_no_promise_is_broken(seed: int) -> None:
    history = run(seed)
    assert history.violation is None, history.violation
    assert history.events > 300
    assert {"commit", "effect", "deed", "message told", "begin"} <= history.counts.keys()
    assert history.counts["pool full"] == 1, "nothing had to be taken back for the probe"


def test_a_seed_gives_the_same_history_to_the_byte_in_any_process() -> None:
    code = "from tests.trust.simulate import run; print(run(3).digest)"
    found = {run(3).digest}
    for hashes in ("0", "1"):
        ran = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        found.add(ran.stdout.strip())
    assert len(found) == 1
    assert run(4).digest not in found


def _caught(seeds: int = 12) -> tuple[int, str]:
    for seed in range(seeds):
        if (found := run(seed).violation) is not None:
            return seed, found.invariant
    raise AssertionError("nothing was noticed")


def _seats_are_given_back_too_early(real: Callable[..., JobChange | None]) -> Callable[..., JobChange | None]:
    def advance(job: Job, statuses: object, *rest: object) -> JobChange | None:
        found = real(job, statuses, *rest)
        if found is None and lifecycle.ending(job) and job.seats:
            return JobChange(replace(job, seats=job.seats[1:]), None)
        return found

    return advance


def test_a_release_before_the_death_is_noticed_and_told_in_a_short_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lifecycle, "advance", _seats_are_given_back_too_early(lifecycle.advance))
    seed, invariant = _caught()
    assert invariant == "S9"
    violation = run(seed).violation
    assert violation is not None
    short = shrink(seed, violation)
    assert short.violation is not None
    assert short.violation.invariant == "S9"
    assert len(short.deeds) < 30
    assert any("stopping" in line for line in short.lines)


def test_a_queue_that_cannot_have_back_what_it_lent_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victim_candidates, "may_reclaim", lambda *_: False)
    assert _caught() == (0, "L1")


def test_a_retention_that_does_not_ask_who_is_needed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_needed", lambda *_: [])
    assert _caught(40)[1] == "S4"


def test_a_submission_of_which_a_part_was_written_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    create_all = MemoryStore.create_all
    monkeypatch.setattr(MemoryStore, "create_all", lambda store, new: create_all(store, new[:2]))
    assert _caught()[1] == "S4"


def test_a_store_without_a_fence_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "check_epoch", lambda *_: None)
    assert _caught()[1] == "S6"
