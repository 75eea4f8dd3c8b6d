"""The index of jobs: it finds what a straightforward search finds, in the same order."""

import random
from dataclasses import replace

import pytest

from grus.dashboard.live_state.job_index import SORTS, STATES, Board, JobFilter, JobState, brief_of
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.jobs import Desired, Job, JobType, Phase, Seat
from grus.model.resources import GPU, Range
from tests.scheduler.builders import a_job

PHASES = list(Phase)


def everything(_: UserName, __: QueueName) -> bool:
    return True


def many(count: int, seed: int = 7) -> list[Job]:
    chance = random.Random(seed)
    made = []
    for number in range(count):
        job = a_job(
            f"{chance.choice(('resnet', 'bert', 'Whisper'))}-{number:05}",
            queue=chance.choice(("vision", "speech")),
            user=chance.choice(("ada", "ben", "eve")),
            gpus=chance.choice((1, 2, "2..8")),
            type=chance.choice(("train", "dev")),
            submitted_at=float(chance.randrange(count // 2)),
        )
        phase = chance.choice(PHASES)
        ended = job.submitted_at + 50.0 if phase in (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED) else None
        made.append(replace(job, phase=phase, version=1, ended_at=ended, first_started_at=chance.random()))
    return made


def a_board(*jobs: Job) -> Board:
    board = Board()
    board.take(jobs)
    board.filled()
    return board


def names(board: Board, **wanted: object) -> list[str]:
    return [row.id for row in board.look(JobFilter(**wanted), everything).rows]  # type: ignore[arg-type]  # keywords of many types


@pytest.mark.parametrize("sort", sorted(SORTS))
@pytest.mark.parametrize("down", [True, False])
def test_a_look_finds_what_a_straightforward_search_finds(sort: str, down: bool) -> None:
    jobs = many(500)
    wanted = JobFilter(
        text="RES ada",
        states=frozenset({"running", "failed"}),
        queue="vision",
        sort=sort,
        down=down,
        limit=1000,
    )
    found = a_board(*jobs).look(wanted, everything)
    meant = [
        job.id
        for job in jobs
        if "resnet" in job.id
        and job.user == "ada"
        and job.spec.queue == "vision"
        and job.phase in (Phase.STARTING, Phase.RUNNING, Phase.FAILED)
    ]
    assert meant
    assert sorted(row.id for row in found.rows) == sorted(meant)
    assert found.total == len(meant)
    keys = [SORTS[sort](row) for row in found.rows]
    assert keys == sorted(keys, reverse=down)


def test_equals_come_newest_first_and_pages_join_without_gap_or_repeat() -> None:
    board = a_board(*many(300))
    whole = board.look(JobFilter(sort="queue", down=False, limit=1000), everything).rows
    assert [(row.queue, -row.submitted) for row in whole] == sorted(
        (row.queue, -row.submitted) for row in whole
    )
    parts = [
        row
        for offset in range(0, 300, 70)
        for row in board.look(JobFilter(sort="queue", down=False, offset=offset, limit=70), everything).rows
    ]
    assert parts == list(whole)


def test_counts_are_of_what_matches_all_but_the_wanted_states() -> None:
    jobs = many(400)
    found = a_board(*jobs).look(JobFilter(user="ben", states=frozenset({"failed"})), everything)
    of_ben = [STATES[job.phase] for job in jobs if job.user == "ben"]
    assert found.counts == {state.value: of_ben.count(state) for state in JobState}
    assert found.total == of_ben.count(JobState.FAILED)
    assert found.everything == 400


def test_nobody_sees_jobs_queues_or_users_beyond_their_sight() -> None:
    board = a_board(
        a_job("open", user="ada", queue="spare"),
        a_job("theirs", user="eve", queue="speech"),
        a_job("own", user="ada", queue="speech"),
    )
    found = board.look(JobFilter(), lambda user, queue: user == "ada" or queue == "spare")
    assert {row.id for row in found.rows} == {"open", "own"}
    assert (found.total, found.everything, found.users) == (2, 2, ("ada",))
    assert sum(found.counts.values()) == 2


def test_the_newest_version_stays_whichever_comes_first() -> None:
    old = replace(a_job("one"), version=1)
    new = replace(old, version=2, phase=Phase.RUNNING)
    board = Board()
    board.take([new])
    board.take([old])  # it was read before, and comes late
    board.filled()
    assert [row.state for row in board.look(JobFilter(), everything).rows] == [JobState.RUNNING]
    assert board.full


def test_every_change_is_another_revision() -> None:
    board = Board()
    before = board.revision
    board.take([replace(a_job("one"), version=1)])
    assert board.revision != before


def test_what_is_no_longer_on_record_is_not_shown() -> None:
    ended = replace(a_job("old"), phase=Phase.SUCCEEDED, ended_at=100.0)
    board = a_board(ended, a_job("waits"))
    assert {row.id for row in board.look(JobFilter(), everything, since=100.0).rows} == {"old", "waits"}
    assert {row.id for row in board.look(JobFilter(), everything, since=100.5).rows} == {"waits"}


def test_of_too_many_jobs_those_that_ended_first_go_and_living_ones_stay() -> None:
    board = Board(most=100)
    living = [a_job(f"living-{number}") for number in range(60)]
    ended = [
        replace(a_job(f"ended-{number:03}"), phase=Phase.FAILED, ended_at=float(number))
        for number in range(60)
    ]
    board.take([*ended, *living])
    found = [row.id for row in board.look(JobFilter(limit=1000), everything).rows]
    assert len(found) == 100
    assert {f"living-{number}" for number in range(60)} < set(found)
    assert {f"ended-{number:03}" for number in range(20, 60)} < set(found)


def test_living_jobs_beyond_what_it_holds_stay_and_later_ended_ones_still_go() -> None:
    board = Board(most=100)
    living = [a_job(f"living-{number}") for number in range(300)]
    board.take(living)
    ended = [replace(job, phase=Phase.FAILED, ended_at=float(n), version=2) for n, job in enumerate(living)]
    board.take(ended[:40])
    assert len(names(board, limit=1000)) == 300
    board.take(ended[40:])
    board.take(a_job(f"more-{number}") for number in range(100))
    assert len(names(board, limit=1000)) == 100


def test_a_line_tells_what_is_held_what_is_asked_and_what_is_meant_to_happen() -> None:
    job = a_job("bert", gpus="2..8", type="dev")
    seats = tuple(Seat("worker", number, "n", (f"g{number}",), GPU) for number in range(3))  # type: ignore[arg-type]  # plain names
    job = replace(job, phase=Phase.RUNNING, seats=seats, desired=Desired.STOP, reason="it runs")
    line = brief_of(job)
    assert (line.held, line.asked, line.least) == (3 * GPU, "2..8", 2 * GPU)
    assert (line.state, line.status, line.type, line.why) == (
        JobState.RUNNING,
        "stopping",
        JobType.DEV,
        "it runs",
    )
    assert brief_of(replace(job, size=Range(4, 4))).asked == "4"


def test_text_is_found_in_ids_names_users_queues_and_words_of_the_phase() -> None:
    one = replace(a_job("j1", user="ada", queue="vision"), id=JobId("jabc"))
    board = a_board(one, a_job("other", user="ben", queue="speech"))
    for text in ("JABC", "j1", "ada", "vis", "vis ada", "pending ada"):
        assert names(board, text=text) == ["jabc"], text
    assert names(board, text="ada speech") == []
