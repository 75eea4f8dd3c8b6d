"""Spans of a life follow from its events; what was done again is found by steps."""

from dataclasses import replace

import pytest

from grus.model.jobs import Checkpoint, PauseCause, Phase
from grus.reports.history_types import JobPast
from grus.reports.job_timeline import Interval, restarted, spans
from tests.reports.told import a_life, events_of
from tests.scheduler.builders import a_job


def rows(past: JobPast) -> list[tuple[float, float, str, int, float]]:
    return [(one.start, one.end, one.phase.value, one.attempt, one.gpus) for one in past.spans]


def test_a_life_has_a_span_for_every_phase_attempt_and_size() -> None:
    past = a_life(
        "a",
        [
            (0, "submitted", 0),
            (10, "starting", 2),
            (12, "running", 2),
            (50, "resized", 3),
            (60, "measured", 3),
            (80, "released", 1),
            (90, "pausing", 1),
            (95, "paused", 0),
            (120, "starting", 2),
            (125, "running", 2),
            (200, "succeeded", 0),
        ],
    )
    assert rows(past) == [
        (0, 10, "pending", 0, 0),
        (10, 12, "starting", 1, 2),
        (12, 50, "running", 1, 2),
        (50, 80, "running", 1, 3),
        (80, 90, "running", 1, 1),
        (90, 95, "pausing", 1, 1),
        (95, 120, "paused", 1, 0),
        (120, 125, "starting", 2, 2),
        (125, 200, "running", 2, 2),
    ]


def test_a_life_that_goes_on_reaches_to_the_end_of_what_is_looked_at() -> None:
    past = a_life("a", [(0, "submitted", 0), (5, "starting", 1), (6, "running", 1)], until=100)
    assert rows(past)[-1] == (6, 100, "running", 1, 1)


def test_events_that_do_not_say_what_is_held_leave_what_was_asked_for() -> None:
    job = a_job("a")
    events = [replace(one, held=None) for one in events_of(job.id, [(0, "submitted", 0), (4, "starting", 0)])]
    assert [one.gpus for one in spans(job, events, 2.0, 10.0, lambda _: None)] == [0.0, 2.0]


def test_without_events_the_record_gives_the_last_attempt() -> None:
    job = replace(a_job("a"), submitted_at=1.0, started_at=5.0, ended_at=9.0, attempt=3)
    found = spans(job, [], 2.0, 100.0, lambda _: None)
    assert [(one.start, one.end, one.phase, one.gpus, one.waits) for one in found] == [
        (1.0, 5.0, Phase.PENDING, 0.0, True),
        (5.0, 9.0, Phase.RUNNING, 2.0, False),
    ]


def test_a_job_waits_only_from_when_those_before_it_have_ended() -> None:
    job = a_job("b")
    job = replace(job, spec=replace(job.spec, after=(a_job("a").id,)))
    told = events_of(job.id, [(0, "submitted", 0), (50, "starting", 1), (51, "running", 1)])
    found = spans(job, told, 1.0, 100.0, lambda _: 30.0)
    assert [(one.start, one.end, one.waits) for one in found[:2]] == [(0, 30, False), (30, 50, True)]
    never = spans(job, told[:1], 1.0, 100.0, lambda _: None)
    assert [one.waits for one in never] == [False]


@pytest.mark.parametrize(
    ("by", "then", "waits"),
    [
        (PauseCause.PERSON, [(30, "resumed", 0)], False),
        (PauseCause.SCHEDULER, [(30, "starting", 1)], True),
        (PauseCause.PERSON, [], False),
        (PauseCause.IDLE, [], False),
        (PauseCause.SCHEDULER, [], True),
    ],
)
def test_a_paused_job_waits_if_the_scheduler_paused_it(
    by: PauseCause, then: list[tuple[float, str, float]], waits: bool
) -> None:
    begun: list[tuple[float, str, float]] = [(0, "submitted", 0), (1, "starting", 1), (9, "paused", 0)]
    past = a_life("a", [*begun, *then], job=replace(a_job("a"), paused_by=by))
    [paused] = [one for one in past.spans if one.phase is Phase.PAUSED]
    assert paused.waits is waits


LIFE = [
    (0.0, "submitted", 0.0),
    (10.0, "starting", 1.0),
    (20.0, "running", 1.0),
    (120.0, "requeued", 0.0),
    (130.0, "starting", 1.0),
    (140.0, "running", 1.0),
    (300.0, "succeeded", 0.0),
]


def test_a_later_attempt_restarts_until_its_step_is_where_the_first_one_was() -> None:
    told = [(at, 1, {"step": at}) for at in (30.0, 110.0)]
    told += [(at, 2, {"step": at - 90.0}) for at in (150.0, 190.0, 210.0, 290.0)]
    assert restarted(a_life("a", LIFE, reports=told)) == [Interval(130.0, 200.0)]


def test_an_attempt_that_went_on_where_it_was_restarts_only_until_its_workers_ran() -> None:
    told = [(110.0, 1, {"step": 100.0}), (150.0, 2, {"step": 110.0}), (160.0, 2, {"step": 120.0})]
    assert restarted(a_life("a", LIFE, reports=told)) == [Interval(130.0, 140.0)]


def test_an_attempt_that_never_came_so_far_again_was_restarted_work_to_its_end() -> None:
    told = [(110.0, 1, {"step": 100.0}), (150.0, 2, {"step": 5.0}), (290.0, 2, {"step": 50.0})]
    assert restarted(a_life("a", LIFE, reports=told)) == [Interval(130.0, 300.0)]


def test_of_a_job_without_steps_only_the_start_of_later_attempts_is_known() -> None:
    assert restarted(a_life("a", LIFE)) == [Interval(130.0, 140.0)]


def test_a_job_that_does_not_save_does_again_all_that_it_did_before() -> None:
    job = a_job("a")
    job = replace(job, spec=replace(job.spec, checkpoint=Checkpoint()))
    (again,) = restarted(a_life("a", LIFE, job=job))
    first = next(span for span in a_life("a", LIFE, job=job).held if span.phase is Phase.RUNNING)
    assert again == Interval(130.0, 140.0 + (120.0 - first.start))


def test_a_job_with_one_attempt_has_restarted_nothing() -> None:
    assert restarted(a_life("a", LIFE[:3], reports=[(30.0, 1, {"step": 3.0})])) == []
