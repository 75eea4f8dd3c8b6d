"""When jobs will start and end: forecasts out of the present."""

import math
from dataclasses import replace

import pytest

from grus.model.identifiers import JobId, UserName
from grus.model.jobs import Desired, Job, PauseCause, Phase
from grus.scheduler.cycle import decide
from grus.scheduler.decisions import Start
from grus.scheduler.elasticity.throughput_outlook import Outlook
from grus.scheduler.state.snapshot import Snapshot
from grus.simulator.forecasting.durations import Durations
from grus.simulator.forecasting.eta_prediction import OPEN, Forecast, Present, forecast
from grus.simulator.forecasting.expected_duration import NO_HISTORY, ForecastJob, traits_of
from grus.simulator.forecasting.quantiles import LEVELS, Chances
from grus.simulator.workload.job_work import TraceJob
from tests.scheduler.builders import a_job, a_pool, a_queue
from tests.simulator.scenes import FREE, a_work

NOW = 100_000.0
POOL = "1x2"


def started(*jobs: Job) -> list[Job]:
    """The jobs as the scheduler would seat them in an empty pool, running since `NOW`."""
    snapshot = Snapshot(a_pool(POOL), [a_queue("default", quota=2)], jobs)
    seats = {one.job: one.seats for one in decide(snapshot, NOW).actions if isinstance(one, Start)}
    return [
        replace(
            job, phase=Phase.RUNNING, seats=seats[job.id], attempt=1, started_at=NOW, first_started_at=NOW
        )
        for job in jobs
    ]


def a_present(*standing: ForecastJob | Job) -> Present:
    jobs = tuple(one if isinstance(one, ForecastJob) else ForecastJob(one) for one in standing)
    return Present(NOW, tuple(a_pool(POOL)), (a_queue("default", quota=2),), jobs)


def knowing(job: Job, *ran: float) -> Durations:
    """Jobs like this one that ran so long."""
    durations = Durations()
    for number, seconds in enumerate(ran):
        name, at = f"past-{number}", number * 100.0
        durations.came(name, traits_of(job), at)
        durations.began(name, traits_of(job), at)
        durations.ended(name, seconds)
    return durations


def asked(present: Present, durations: Durations, **more: object) -> dict[str, Forecast]:
    return dict(forecast(present, durations, costs=FREE, worlds=16, **more))  # type: ignore[arg-type]  # keywords of many types


def wait(name: str, gpus: int = 1, *, user: str = "ann", priority: int | None = None) -> Job:
    job = a_job(name, queue="default", gpus=gpus, user=user, priority=priority)
    return replace(job, submitted_at=NOW - 10)


def test_a_job_that_finds_room_starts_now_and_ends_when_its_like_do() -> None:
    job = wait("a")
    told = asked(a_present(job), knowing(job, *[600.0] * 20))["a"]
    assert told.start is not None
    assert told.end is not None
    assert told.start.quantile(0.9) == NOW
    assert told.end.quantile(0.5) == NOW + 600


def test_a_job_behind_others_starts_when_they_end() -> None:
    first, second = started(wait("a"), wait("b"))
    job = wait("c", gpus=2)
    told = asked(a_present(first, second, job), knowing(first, *[600.0] * 20))["c"]
    assert told.start is not None
    assert told.start.quantile(0.5) == NOW + 600


def test_what_runs_already_has_an_end_and_no_start() -> None:
    [running] = started(wait("a"))
    told = asked(a_present(ForecastJob(running, ran=200.0)), knowing(running, *[600.0] * 20))["a"]
    assert told.start is None
    assert told.end is not None
    assert told.end.quantile(0.5) == NOW + 400


def test_reported_progress_beats_history() -> None:
    [running] = started(wait("a"))
    running = replace(running, progress=(("step", 10.0), ("total", 100.0)))
    told = asked(a_present(ForecastJob(running, ran=100.0)), knowing(running, *[110.0] * 20))["a"]
    assert told.end is not None
    assert told.end.quantile(0.5) == pytest.approx(NOW + 900, rel=0.1)


def test_without_history_it_says_so_but_still_knows_who_starts_at_once() -> None:
    first, second, third = wait("a"), wait("b"), wait("c")
    told = asked(a_present(first, second, third), Durations())
    assert told["a"].unknown == NO_HISTORY
    assert told["a"].end is None
    assert told["a"].start is not None, "its start hangs on nobody's length"
    assert told["c"].start is None, "its start hangs on lengths that nobody knows"
    assert told["c"].unknown == OPEN


def test_one_job_of_known_length_does_not_make_the_others_known() -> None:
    """The first ends in ten minutes, which is not enough for a gang that also needs the second's GPU."""
    known, open_, gang = wait("a"), wait("b", user="bob"), wait("gang", 2)
    first, second = started(known, open_)
    progress = (("step", 50.0), ("total", 100.0))
    told = asked(
        a_present(ForecastJob(replace(first, progress=progress), ran=600.0), second, gang), Durations()
    )
    assert told["a"].end is not None
    assert (told["b"].end, told["b"].unknown) == (None, NO_HISTORY)
    assert (told["gang"].start, told["gang"].end, told["gang"].unknown) == (None, None, OPEN)


def test_a_time_limit_alone_is_what_is_known_of_an_end() -> None:
    [running] = started(wait("a", 2))
    told = asked(a_present(ForecastJob(running, ran=100.0, limit=300.0), wait("b", 2)), Durations())
    assert told["a"].end is not None
    assert {told["a"].end.quantile(0.1), told["a"].end.quantile(0.9)} == {NOW + 200}
    assert told["b"].start is not None
    assert told["b"].start.quantile(0.5) == NOW + 200


@pytest.mark.parametrize(("type", "why"), [("dev", "session"), ("serve", "answers")])
def test_sessions_and_served_models_have_no_end_whatever_others_like_them_did(type: str, why: str) -> None:
    job = replace(a_job("a", gpus=2, type=type), submitted_at=NOW - 10)
    [running] = started(job)
    told = asked(a_present(ForecastJob(running, ran=100.0), wait("b", 2)), knowing(job, *[600.0] * 20))
    assert told["a"].end is None
    assert why in told["a"].unknown
    assert (told["b"].start, told["b"].unknown) == (None, OPEN)


def test_a_time_limit_is_the_latest_end() -> None:
    [running] = started(wait("a"))
    told = asked(a_present(ForecastJob(running, ran=100.0, limit=300.0)), knowing(running, *[9000.0] * 20))[
        "a"
    ]
    assert told.end is not None
    assert told.end.quantile(0.9) == NOW + 200


def test_a_job_waits_for_its_predecessor_to_end() -> None:
    [running] = started(wait("a"))
    follower = ForecastJob(wait("b"), after=(JobId("a"),))
    told = asked(a_present(running, follower), knowing(running, *[600.0] * 20))["b"]
    assert told.start is not None
    assert told.start.quantile(0.5) == NOW + 600


def test_jobs_paused_by_people_are_not_foreseen_and_do_not_stand_in_the_way() -> None:
    paused = replace(
        wait("a", gpus=2), phase=Phase.PAUSED, desired=Desired.PAUSE, paused_by=PauseCause.PERSON
    )
    job = wait("b", gpus=2)
    told = asked(a_present(paused, job), knowing(job, *[600.0] * 20))
    assert "a" not in told
    assert told["b"].start is not None
    assert told["b"].start.quantile(0.9) == NOW


def test_jobs_that_may_come_can_delay_those_that_wait() -> None:
    """Every ten minutes of the past week somebody came with a job that goes first."""
    [running] = started(wait("a", gpus=2))
    job = wait("b", gpus=2, priority=10)
    durations = knowing(running, *[600.0] * 20)
    past = [
        a_work(f"p{k}", submit=NOW - 7 * 86400 + k * 600, duration=900.0, gpus=2, priority=60)
        for k in range(7 * 144)
    ]
    alone = asked(a_present(running, job), durations)["b"].start
    crowded = asked(a_present(running, job), durations, arrivals=past)["b"]
    assert alone is not None
    assert alone.quantile(0.5) == NOW + 600
    assert crowded.start is None or crowded.start.quantile(0.5) > NOW + 3600


def test_arrivals_that_this_pool_could_not_run_are_passed_over() -> None:
    [running] = started(wait("a"))
    past: list[TraceJob] = [
        a_work("big", submit=NOW - 2 * 86400, gpus=64),
        a_work("elsewhere", submit=NOW - 86400 - 10, queue="gone"),
    ]
    assert asked(a_present(running), knowing(running, *[600.0] * 5), arrivals=past)["a"].end is not None


def test_the_same_question_has_the_same_answer() -> None:
    jobs = [*started(wait("a"), wait("b")), *(wait(f"w{k}", gpus=1 + k % 2) for k in range(6))]
    durations = knowing(jobs[0], *(60.0 * 1.3**k for k in range(20)))
    first, again = (asked(a_present(*jobs), durations, seed=3) for _ in range(2))
    assert first == again
    assert first != asked(a_present(*jobs), durations, seed=4)


def test_a_caller_with_little_time_gets_fewer_worlds() -> None:
    job, played = wait("a"), []

    def enough(count: int) -> bool:
        played.append(count)
        return count >= 2

    assert "a" in asked(a_present(job), knowing(job, *[60.0] * 5), enough=enough)
    assert played == [1, 2]


def test_the_chance_given_to_a_moment_is_the_inverse_of_its_quantile() -> None:
    chances = Chances(tuple(1000.0 * level for level in LEVELS))
    assert chances.level(chances.quantile(0.37)) == pytest.approx(0.37)
    assert chances.level(0.0) == 0.0
    assert chances.level(5000.0) == 1.0


def test_a_moment_beside_what_was_not_reached_is_itself_and_what_lies_beyond_is_infinite() -> None:
    chances = Chances(tuple(100.0 if level <= 0.5 else math.inf for level in LEVELS))
    assert chances.quantile(0.5) == 100
    assert chances.quantile(0.52) == math.inf
    assert chances.level(1000.0) == 0.5


def test_what_never_starts_is_said_to_be_unknown() -> None:
    big = wait("a", gpus=2, user="bob")
    blocked = ForecastJob(big, after=(JobId("gone"),))
    told = asked(a_present(blocked), knowing(big, *[60.0] * 5))["a"]
    assert told.start is None
    assert told.unknown
    assert not math.isnan(told.at)
    assert big.user == UserName("bob")


def test_the_policy_that_runs_is_the_one_that_foresees() -> None:
    """Under `srtf` the shorter of two goes first, under `fifo` the one that came first."""
    running = started(wait("a", gpus=2))[0]
    long, short = wait("b", gpus=2), wait("c", gpus=2)

    def outlook(left: float) -> Outlook:
        return Outlook(sizes=(2,), speeds=(1.0,), left=left)

    jobs = (
        ForecastJob(running),
        ForecastJob(long, outlook=outlook(50_000.0)),
        ForecastJob(short, outlook=outlook(10.0)),
    )
    durations = knowing(running, *[600.0] * 20)
    first = {}
    for policy in ("fifo", "srtf"):
        told = asked(replace(a_present(*jobs), policy=policy), durations)
        starts = {job: told[job].start for job in ("b", "c")}
        first[policy] = min(starts, key=lambda job: starts[job].quantile(0.5))  # type: ignore[union-attr]  # every one of them has a start
    assert first == {"fifo": "b", "srtf": "c"}
