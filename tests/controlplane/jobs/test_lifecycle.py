"""What workers' states mean for their job: the rules one by one, then all combinations."""

from dataclasses import replace
from itertools import product

import pytest

from grus.controlplane.jobs.lifecycle import Limits, advance, ending, working
from grus.controlplane.reconciler.apply_engine_calls import Forget, Launch, StopWorker, wanted
from grus.controlplane.workers.worker_launch_spec import Surroundings, members
from grus.model.identifiers import DeviceId, NodeId, WorkerId
from grus.model.interfaces import WorkerState, WorkerStatus
from grus.model.jobs import HOLDING, NEXT, Desired, Exit, ExitCause, Job, PauseCause, Phase, Seat, job_backoff
from grus.model.resources import GPU
from tests.scheduler.builders import a_job

LIMITS = Limits(start_timeout=60.0, max_runtime=None)
NOW = 1010.0

STATES: dict[str, tuple[WorkerState, Exit | None] | None] = {
    "unknown": None,
    "starting": (WorkerState.STARTING, None),
    "running": (WorkerState.RUNNING, None),
    "done": (WorkerState.ENDED, Exit(ExitCause.DONE, 0)),
    "code": (WorkerState.ENDED, Exit(ExitCause.CODE, 1, "exit code 1")),
    "signal": (WorkerState.ENDED, Exit(ExitCause.SIGNAL, 9)),
    "memory": (WorkerState.ENDED, Exit(ExitCause.MEMORY)),
    "start": (WorkerState.ENDED, Exit(ExitCause.START)),
    "stopped": (WorkerState.ENDED, Exit(ExitCause.STOPPED, 0)),
    "lost": (WorkerState.ENDED, Exit(ExitCause.LOST)),
}


def running_job(phase: Phase = Phase.RUNNING, *, size: int = 2, retries: int = 0, **changes: object) -> Job:
    job = a_job("j", gpus=size, retries=retries)
    seats = tuple(Seat("worker", i, NodeId("n"), (DeviceId(f"n-{i}"),), GPU) for i in range(size))
    made = replace(job, phase=phase, attempt=1, generation=1, seats=seats, started_at=1000.0, version=3)
    return replace(made, **changes)  # type: ignore[arg-type]  # keywords of many types


def statuses(job: Job, *states: str, attempt: int = 1) -> dict[WorkerId, WorkerStatus]:
    found = {}
    for number, (member, name) in enumerate(zip(members(job), states, strict=True)):
        if (given := STATES[name]) is not None:
            state, exit_ = given
            ended_at = 1005.0 + number if state is WorkerState.ENDED else None
            found[member.id] = WorkerStatus(
                id=member.id, job=job.id, attempt=attempt, state=state, exit=exit_, ended_at=ended_at
            )
    return found


@pytest.mark.parametrize(
    ("phase", "states", "after", "kind"),
    [
        (Phase.STARTING, ("starting", "running"), None, ""),
        (Phase.STARTING, ("unknown", "running"), None, ""),
        (Phase.STARTING, ("running", "running"), Phase.RUNNING, "running"),
        (Phase.STARTING, ("done", "running"), Phase.RUNNING, "running"),
        (Phase.STARTING, ("done", "done"), Phase.SUCCEEDED, "succeeded"),
        (Phase.STARTING, ("start", "running"), Phase.STARTING, "ending"),
        (Phase.STARTING, ("start", "unknown"), Phase.FAILED, "failed"),
        (Phase.STARTING, ("lost", "done"), Phase.PENDING, "requeued"),
        (Phase.RUNNING, ("running", "running"), None, ""),
        (Phase.RUNNING, ("done", "running"), None, ""),
        (Phase.RUNNING, ("done", "done"), Phase.SUCCEEDED, "succeeded"),
        (Phase.RUNNING, ("code", "running"), Phase.RUNNING, "ending"),
        (Phase.RUNNING, ("code", "done"), Phase.FAILED, "failed"),
        (Phase.RUNNING, ("signal", "stopped"), Phase.FAILED, "failed"),
        (Phase.RUNNING, ("memory", "done"), Phase.FAILED, "failed"),
        (Phase.RUNNING, ("lost", "running"), Phase.RUNNING, "ending"),
        (Phase.RUNNING, ("lost", "done"), Phase.PENDING, "requeued"),
        (Phase.RUNNING, ("unknown", "done"), Phase.PENDING, "requeued"),
        (Phase.RUNNING, ("unknown", "running"), Phase.RUNNING, "ending"),
        (Phase.PAUSING, ("running", "stopped"), None, ""),
        (Phase.PAUSING, ("stopped", "stopped"), Phase.PAUSED, "paused"),
        (Phase.PAUSING, ("code", "stopped"), Phase.PAUSED, "paused"),
        (Phase.PAUSING, ("lost", "stopped"), Phase.PAUSED, "paused"),
        (Phase.PAUSING, ("done", "stopped"), Phase.PAUSED, "paused"),
        (Phase.PAUSING, ("done", "done"), Phase.SUCCEEDED, "succeeded"),
        (Phase.PAUSING, ("unknown", "unknown"), Phase.PAUSED, "paused"),
    ],
)
def test_states_of_two_workers(phase: Phase, states: tuple[str, str], after: Phase | None, kind: str) -> None:
    """Without retries, nobody having asked for anything."""
    job = running_job(phase)
    found = advance(job, statuses(job, *states), NOW, LIMITS)
    assert (found and found.job.phase) == after
    assert (found.event.kind if found and found.event else "") == kind


def test_the_first_failure_is_the_one_that_is_told() -> None:
    job = running_job(size=3)
    found = advance(job, statuses(job, "stopped", "code", "signal"), NOW, LIMITS)
    assert found is not None
    assert "worker 0" in found.job.reason
    found = advance(job, statuses(job, "done", "code", "signal"), NOW, LIMITS)
    assert found is not None
    assert found.job.reason.startswith("worker 1 ended: exit code 1")


def test_a_charged_failure_beyond_the_retries_is_the_end_and_before_it_a_back_off() -> None:
    for failures, retries in product(range(4), range(4)):
        job = running_job(size=1, retries=retries, failures=failures)
        found = advance(job, statuses(job, "code"), NOW, LIMITS)
        assert found is not None
        assert found.job.failures == failures + 1
        if failures + 1 > retries:
            assert found.job.phase is Phase.FAILED
        else:
            assert found.job.phase is Phase.PENDING
            assert found.job.not_before == NOW + job_backoff(failures + 1)


def test_the_back_off_doubles_up_to_five_minutes() -> None:
    assert [job_backoff(n) for n in (1, 2, 3, 9, 10, 1000)] == [1, 2, 4, 256, 300, 300]


def test_a_failure_while_pausing_counts_only_if_it_was_there_before() -> None:
    failed = Exit(ExitCause.CODE, 1, "worker 0 ended: exit code 1")
    job = running_job(
        Phase.PAUSING, exit=failed, paused_by=PauseCause.PERSON, desired=Desired.PAUSE, retries=1
    )
    found = advance(job, statuses(job, "code", "stopped"), NOW, LIMITS)
    assert found is not None
    assert (found.job.phase, found.job.failures) == (Phase.PAUSED, 1)


def test_running_too_long_fails_whatever_the_retries() -> None:
    job = running_job(size=1, retries=5)
    limits = Limits(max_runtime=10.0)
    assert advance(job, statuses(job, "running"), 1009.9, limits) is None
    found = advance(job, statuses(job, "running"), 1010.0, limits)
    assert found is not None
    assert found.event is not None
    assert found.event.kind == "ending"
    assert found.job.held == GPU
    over = advance(found.job, statuses(found.job, "stopped"), 1011.0, limits)
    assert over is not None
    assert over.job.phase is Phase.FAILED
    assert over.job.exit is not None
    assert over.job.exit.cause is ExitCause.TIME


def test_only_seats_whose_workers_are_dead_are_released() -> None:
    job = running_job(size=3)
    seats = (job.seats[0], replace(job.seats[1], leaving=True), replace(job.seats[2], leaving=True))
    job = replace(job, seats=seats, generation=2)
    alive = statuses(job, "running", "running", "stopped")
    found = advance(job, alive, NOW, LIMITS)
    assert found is not None
    assert [seat.index for seat in found.job.seats] == [0, 1]


def test_every_combination_keeps_the_invariants() -> None:
    """Legal phases only, seats kept while anything lives, and effects that lead to the end."""
    exits = [None, Exit(ExitCause.CODE, 1), Exit(ExitCause.LOST), Exit(ExitCause.TIME), Exit(ExitCause.DONE)]
    for phase, desired, exit_, retries in product(sorted(HOLDING), Desired, exits, (0, 1)):
        if (desired is Desired.PAUSE) != (phase is Phase.PAUSING) and desired is not Desired.STOP:
            continue
        for states in product(STATES, repeat=2):
            job = running_job(phase, desired=desired, exit=exit_, retries=retries)
            _check(job, statuses(job, *states))


def _check(job: Job, own: dict[WorkerId, WorkerStatus]) -> None:
    for _ in range(4):
        found = advance(job, own, NOW, LIMITS)
        if found is None:
            _check_effects(job, own)
            return
        assert found.job.phase is job.phase or found.job.phase in NEXT[job.phase]
        assert found.event is not None
        assert found.event.text
        assert found.job.version == job.version
        living = any(status.state is not WorkerState.ENDED for status in own.values())
        if living:
            assert found.job.held == job.held
        job = found.job
    raise AssertionError(f"{job} does not come to rest")


def _check_effects(job: Job, own: dict[WorkerId, WorkerStatus]) -> None:
    effects = wanted(job, own, Surroundings(), 5.0)
    launched = {effect.worker.id for effect in effects if isinstance(effect, Launch)}
    ended = {effect.worker for effect in effects if isinstance(effect, StopWorker)}
    living = {id_ for id_, status in own.items() if status.state is not WorkerState.ENDED}
    assert not launched & own.keys()
    if job.phase not in HOLDING:
        assert {effect.worker for effect in effects if isinstance(effect, Forget)} == own.keys()
    elif ending(job):
        assert ended == living
        assert not launched
    else:
        assert not ended
        assert launched | own.keys() == {member.id for member in members(job)}


@pytest.mark.parametrize("phase", sorted(set(Phase) - HOLDING))
def test_nothing_that_workers_say_changes_a_job_that_holds_nothing(phase: Phase) -> None:
    """Terminal is final, and a waiting job has no workers: what still lives is ended at once."""
    job = replace(running_job(), phase=phase)
    for states in product(STATES, repeat=2):
        own = statuses(job, *states)
        assert advance(replace(job, seats=()), own, NOW, LIMITS) is None
        for effect in wanted(replace(job, seats=()), own, Surroundings(), 5.0):
            assert isinstance(effect, Forget) or (isinstance(effect, StopWorker) and effect.grace == 0)


def test_workers_of_another_attempt_say_nothing() -> None:
    job = running_job(Phase.STARTING, attempt=2)
    old = statuses(replace(job, attempt=1), "code", "lost", attempt=1)
    new = statuses(job, "running", "running", attempt=2)
    assert advance(job, old, NOW, LIMITS) is None
    found = advance(job, old | new, NOW, LIMITS)
    assert found is not None
    assert found.job.phase is Phase.RUNNING


def test_events_carry_what_the_job_holds_and_what_of_it_works() -> None:
    starting = running_job(Phase.STARTING)
    up = advance(starting, statuses(starting, "running", "running"), NOW, LIMITS)
    assert up is not None
    assert up.event is not None
    assert (up.event.held, up.event.working, up.event.lost) == (2 * GPU, 2 * GPU, 0)
    over = advance(up.job, statuses(up.job, "done", "done"), NOW, LIMITS)
    assert over is not None
    assert over.event is not None
    assert (over.event.held, over.event.working, over.event.lost) == (0, 0, 0)


def test_a_seat_that_leaves_is_held_and_does_not_work() -> None:
    job = running_job()
    leaving = replace(job, seats=(job.seats[0], replace(job.seats[1], leaving=True)))
    assert (leaving.held, working(leaving)) == (2 * GPU, GPU)


def test_one_that_is_paused_holds_its_gpus_until_its_workers_are_gone_and_does_not_work() -> None:
    pausing = running_job(Phase.PAUSING)
    assert (pausing.held, working(pausing)) == (2 * GPU, 0)
