"""What is read from a job's events about its sizes."""

from grus.reports.rescale_events import ResizeKind, course, losses, resizes, restarts
from tests.reports.builders import a_past_job, an_event

GROWS = (
    an_event(10.0, "starting", held=2),
    an_event(12.0, "running", held=2, working=2),
    an_event(13.0, "team", held=2, working=2),
    an_event(50.0, "resized", held=4, working=2),
    an_event(57.5, "team", held=4, working=4),
)
SHRINKS = (
    an_event(90.0, "resized", held=4, working=1),
    an_event(92.0, "released", held=1, working=1),
)


def test_a_grow_is_over_when_the_new_ones_compute_with_the_others() -> None:
    [grow] = resizes(a_past_job("a", *GROWS))
    assert (grow.how, grow.before, grow.after) == (ResizeKind.GROW, 2, 4)
    assert (grow.worked, grow.seconds) == (True, 7.5)


def test_a_shrink_is_over_when_what_was_given_back_is_free() -> None:
    _, shrink = resizes(a_past_job("a", *GROWS, *SHRINKS))
    assert (shrink.how, shrink.before, shrink.after) == (ResizeKind.SHRINK, 4, 1)
    assert (shrink.worked, shrink.seconds) == (True, 2.0)


def test_a_grow_that_ends_in_a_failure_did_not_work() -> None:
    [grow] = resizes(a_past_job("a", *GROWS[:4], an_event(70.0, "retrying")))
    assert (grow.worked, grow.seconds) == (False, None)


def test_a_grow_that_ended_before_anybody_joined_says_nothing() -> None:
    [grow] = resizes(a_past_job("a", *GROWS[:4], an_event(70.0, "succeeded")))
    assert (grow.worked, grow.seconds) == (None, None)


def test_a_grow_is_not_credited_with_what_a_later_one_brought() -> None:
    events = (*GROWS[:4], an_event(60.0, "resized", held=6, working=2), an_event(70.0, "team", 6, 6))
    first, second = resizes(a_past_job("a", *events))
    assert (first.worked, first.seconds) == (None, None)
    assert (second.after, second.worked, second.seconds) == (4, True, 10.0)


def test_workers_without_a_team_go_on_but_nobody_says_since_when() -> None:
    events = (
        an_event(12.0, "running", held=1, working=1),
        an_event(50.0, "resized", held=3, working=3),
        an_event(80.0, "succeeded"),
    )
    [grow] = resizes(a_past_job("a", *events))
    assert (grow.how, grow.worked, grow.seconds) == (ResizeKind.GROW, True, None)


def test_a_change_before_anybody_works_is_no_resize() -> None:
    events = (
        an_event(10.0, "starting", held=8),
        an_event(11.0, "resized", held=8),
        an_event(12.0, "released", held=1),
        an_event(13.0, "running", held=1, working=1),
    )
    assert resizes(a_past_job("a", *events)) == []


def test_a_restart_with_another_size_takes_leaving_and_coming_back_without_the_wait_between() -> None:
    events = (
        an_event(12.0, "running", held=2, working=2),
        an_event(50.0, "pausing", held=2),
        an_event(53.0, "paused"),
        an_event(600.0, "starting", held=3, attempt=2),
        an_event(604.0, "running", held=3, working=3, attempt=2),
    )
    [restart] = resizes(a_past_job("a", *events))
    assert (restart.how, restart.before, restart.after, restart.seconds) == (ResizeKind.RESTART, 2, 3, 7.0)


def test_a_restart_with_the_same_size_is_no_resize() -> None:
    events = (
        an_event(12.0, "running", held=2, working=2),
        an_event(50.0, "retrying"),
        an_event(60.0, "running", held=2, working=2, attempt=2),
    )
    assert resizes(a_past_job("a", *events)) == []


def test_a_lost_worker_is_told_with_those_who_went_on_and_the_time_until_all_were_there_again() -> None:
    events = (
        *GROWS,
        an_event(70.0, "team", held=4, working=3, lost=1),
        an_event(81.0, "team", held=4, working=4, lost=1),
    )
    [loss] = losses(a_past_job("a", *events))
    assert (loss.workers, loss.left, loss.seconds) == (1, 3, 11.0)
    assert restarts(a_past_job("a", *events)) == 0


def test_an_attempt_that_ended_because_a_worker_did_is_a_restart_and_one_that_never_ran_is_none() -> None:
    ran = (an_event(12.0, "running", 2, 2), an_event(50.0, "retrying"))
    never = (an_event(60.0, "starting", 2, attempt=2), an_event(90.0, "requeued", attempt=2))
    assert restarts(a_past_job("a", *ran, *never)) == 1


def test_the_course_has_a_point_for_each_change_of_what_computes_together() -> None:
    events = (*GROWS, *SHRINKS, an_event(120.0, "succeeded"))
    assert course(a_past_job("a", *events)) == [(10.0, 0), (12.0, 2), (57.5, 4), (90.0, 1), (120.0, 0)]


def test_a_job_that_failed_for_good_did_not_begin_again() -> None:
    assert restarts(a_past_job("a", an_event(12.0, "running", 2, 2), an_event(50.0, "failed"))) == 0
