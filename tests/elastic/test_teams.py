"""Teams of real workers under a real control plane: what the runtime may rely on. No torch here."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from grus.model.identifiers import JobId
from grus.model.jobs import Phase
from tests.elastic.harness import Pool

SPEAKER = Path(__file__).with_name("speaker.py")


class Stage:
    """A pool and a job of speakers, and the files by which they are told what to do."""

    def __init__(self, folder: Path, size: int = 3, **settings: Any) -> None:
        self.folder = folder / "speaker"
        self.folder.mkdir()
        self.tell("boot")
        self.pool = Pool(folder, **settings)
        self._size = size

    def tell(self, what: str, text: str = "") -> None:
        (self.folder / what).write_text(text)

    def tell_not(self, what: str) -> None:
        (self.folder / what).unlink()

    def begin(self, gpu: int | str = "1..4", **fields: Any) -> JobId:
        run = [sys.executable, "-S", str(SPEAKER)]
        size = self._size if gpu == "1..4" else None
        job = self.pool.submit(run, gpu=gpu, size=size, env={"SPEAKER": str(self.folder)}, **fields)
        self.pool.until_size(job, self._size)
        return job

    def told(self, job: JobId, rank: int) -> dict[str, Any]:
        """What the member of this rank reads in its control file."""
        worker = self.pool.team(job)[rank].id
        path = self.pool.home / "engine" / "workers" / worker / "control"
        found: dict[str, Any] = json.loads(path.read_bytes())["team"]
        return found

    def finish(self, job: JobId) -> None:
        self.tell("done")
        self.pool.until_phase(job, Phase.SUCCEEDED)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    with made.pool:
        yield made


def test_a_team_forms_grows_and_shrinks_and_the_processes_stay(stage: Stage) -> None:
    pool, job = stage.pool, stage.begin()
    before = pool.pids(job)
    assert sorted(before) == [0, 1, 2]
    pool.scale(job, 4)
    pool.until_size(job, 4)
    grown = pool.pids(job)
    assert {rank: grown[rank] for rank in before} == before
    pool.until(lambda: stage.told(job, 0)["members"] == [f"127.0.0.1:{grown[rank]}" for rank in range(4)])
    pool.scale(job, 2)
    pool.until_size(job, 2)
    assert set(pool.pids(job).values()) < set(grown.values())
    pool.until(lambda: len(pool.job(job).seats) == 2)
    assert (pool.job(job).broken, pool.job(job).attempt) == (0, 1)
    stage.finish(job)


def test_a_killed_member_is_replaced_and_the_others_know_at_once(stage: Stage) -> None:
    """The survivors' new team and the seat's next worker are one and the same write."""
    pool, job = stage.pool, stage.begin()
    number = pool.number(job)
    for rank in (0, 1):
        before = pool.pids(job)
        number = pool.number(job)
        killed = pool.kill(job, rank)
        pool.until(lambda number=number: pool.number(job) > number)  # type: ignore[misc]  # bound now
        pool.until_size(job, 3)
        assert set(pool.pids(job).values()) & set(before.values()) == set(before.values()) - {killed}
    lost = [event.text for event in pool.events(job, "team") if "lost" in event.text]
    assert len(lost) == 2
    assert all("2 workers compute together" in text for text in lost)
    after = pool.job(job)
    assert (after.phase, after.attempt, after.lost) == (Phase.RUNNING, 1, 2)
    assert after.broken == after.team - 1
    stage.finish(job)


def test_a_stopped_member_is_cut_off_when_the_others_complain(stage: Stage) -> None:
    pool, job = stage.pool, stage.begin()
    hung = pool.kill(job, 1, signal.SIGSTOP)
    pool.until(lambda: Path(f"/proc/{hung}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    number = pool.number(job)
    stage.tell("stuck", f"{time.time()}")
    pool.until(lambda: pool.job(job).broken > number)
    stage.tell_not("stuck")
    pool.until_size(job, 3)
    assert hung not in pool.pids(job).values()
    with pytest.raises(ProcessLookupError):
        os.kill(hung, 0)
    assert pool.job(job).lost == 1
    stage.finish(job)


def test_when_all_wait_for_each_other_the_same_processes_meet_anew(stage: Stage) -> None:
    pool, job = stage.pool, stage.begin()
    before, number = pool.pids(job), pool.number(job)
    stage.tell("stuck", f"{time.time()}")
    pool.until(lambda: pool.job(job).broken > number)
    stage.tell_not("stuck")
    assert pool.pids(job) == before
    assert pool.job(job).lost == 0
    stage.finish(job)


def test_a_seat_in_which_nobody_gets_to_join_is_given_up(stage: Stage) -> None:
    pool, job = stage.pool, stage.begin()
    stage.tell("fail", "3")
    pool.scale(job, 4)
    pool.until(lambda: [event for event in pool.events(job) if "given up" in event.text])
    pool.until(lambda: len(pool.job(job).seats) == 3)
    assert (pool.size(job), pool.job(job).broken, pool.phase(job)) == (3, 0, Phase.RUNNING)
    assert len([event for event in pool.events(job, "replacing") if "again" in event.text]) == 2
    stage.finish(job)


def test_a_joiner_that_never_gets_ready_is_killed_and_hurts_nobody(tmp_path: Path) -> None:
    made = Stage(tmp_path, start_timeout=5.0)  # those who get ready must do so in time on a busy machine too
    made.tell_not("boot")
    with made.pool as pool:
        job = made.begin()
        before = pool.pids(job)
        pool.scale(job, 4)
        pool.until(lambda: [event for event in pool.events(job) if "not ready" in event.text])
        made.tell("boot")
        pool.until_size(job, 4)
        assert before.items() <= pool.pids(job).items()
        made.finish(job)


def test_a_control_plane_that_was_replaced_goes_on_from_the_record(stage: Stage) -> None:
    """A member dies and a joiner rings while nobody watches."""
    pool, job = stage.pool, stage.begin()
    stage.tell_not("boot")
    pool.scale(job, 4)
    pool.until(lambda: 3 in pool.joiners(job))
    before, joiner = pool.pids(job), pool.joiners(job)[3]
    pool.end()
    os.kill(before[0], signal.SIGKILL)
    stage.tell("boot")
    pool.begin()
    pool.until_size(job, 4)
    after = pool.pids(job)
    assert [after[0], after[1]] == [before[1], before[2]]
    assert joiner in after.values()
    assert before[0] not in after.values()
    assert pool.job(job).attempt == 1
    stage.finish(job)


def test_when_all_members_are_lost_the_attempt_is_and_the_next_one_begins(stage: Stage) -> None:
    pool, job = stage.pool, stage.begin(retries=1)
    stage.tell_not("boot")
    for pid in pool.pids(job).values():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    pool.until(lambda: pool.job(job).attempt == 2)
    pool.until_size(job, 3)
    assert (pool.job(job).failures, pool.job(job).broken) == (1, 0)
    stage.finish(job)


def test_the_job_is_done_with_its_members_whoever_still_boots(stage: Stage) -> None:
    pool, job = stage.pool, stage.begin()
    stage.tell_not("boot")
    pool.scale(job, 4)
    pool.until(lambda: 3 in pool.joiners(job))
    os.kill(pool.joiners(job)[3], signal.SIGSTOP)
    stage.finish(job)


def test_a_pause_ends_all_and_a_resume_forms_a_first_team_again(stage: Stage) -> None:
    pool, job = stage.pool, stage.begin(gpu=3)
    pool.pause(job)
    pool.until_phase(job, Phase.PAUSED)
    pool.resume(job)
    pool.until(lambda: pool.job(job).attempt == 2)
    pool.until_size(job, 3)
    assert pool.number(job) == 1
    stage.finish(job)
