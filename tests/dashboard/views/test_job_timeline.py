"""A job's life out of its events: states, sizes and attempts."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grus.dashboard.views.job_timeline import AFTER, MOST, TimelineState, attempts, strip
from grus.model.identifiers import JobId
from grus.model.interfaces import Event
from grus.model.resources import GPU
from tests.controlplane.plane import ANN, Plane


def an_event(at: float, kind: str, gpus: float | None = 0, attempt: int = 1, generation: int = 1) -> Event:
    held = None if gpus is None else int(gpus * GPU)
    return Event(
        at=at,
        kind=kind,
        text=f"it {kind}",
        job=JobId("j1"),
        attempt=attempt,
        generation=generation,
        held=held,
    )


LIFE = [
    an_event(0, "submitted", attempt=0, generation=0),
    an_event(10, "starting", 1),
    an_event(12, "running", 1),
    an_event(20, "resized", 4, generation=2),
    an_event(22, "team", 4, generation=2),
    an_event(30, "pausing", 4, generation=2),
    an_event(33, "paused"),
    an_event(40, "resumed"),
    an_event(50, "starting", 2, attempt=2),
    an_event(51, "running", 2, attempt=2),
    an_event(60, "retrying", 0, attempt=2),
    an_event(65, "starting", 2, attempt=3),
    an_event(66, "running", 2, attempt=3),
    an_event(80, "succeeded", 0, attempt=3),
]


def test_a_life_is_stretches_of_one_state_and_one_size() -> None:
    found = strip(LIFE, now=100)
    assert [(one.begin, one.end, one.state.value, one.gpus) for one in found.stretches] == [
        (0, 10, "pending", 0),
        (10, 12, "starting", 1),
        (12, 20, "running", 1),
        (20, 30, "running", 4),
        (30, 33, "ending", 4),
        (33, 40, "paused", 0),
        (40, 50, "pending", 0),
        (50, 51, "starting", 2),
        (51, 60, "running", 2),
        (60, 65, "pending", 0),
        (65, 66, "starting", 2),
        (66, 80, "running", 2),
    ]
    assert (found.begin, found.end, found.top) == (0, 80, 4)


def test_what_goes_on_ends_now() -> None:
    found = strip(LIFE[:3], now=19)
    assert (found.stretches[-1].state, found.stretches[-1].end, found.end) == (
        TimelineState.RUNNING,
        19,
        None,
    )


def test_a_clock_that_went_back_makes_no_stretch_shorter_than_nothing() -> None:
    found = strip([*LIFE[:3], an_event(11, "resized", 2, generation=2)], now=5)
    assert all(one.end >= one.begin for one in found.stretches)


def test_sizes_that_were_not_written_down_are_unknown_and_not_zero() -> None:
    old = [an_event(0, "submitted", None), an_event(1, "starting", None), an_event(2, "running", None)]
    found = strip(old, now=9)
    assert [one.gpus for one in found.stretches] == [0, None, None]
    assert attempts(found, old)[0].sizes == ()


def test_resuming_a_job_that_still_saves_does_not_make_it_wait() -> None:
    events = [*LIFE[:6], an_event(31, "resumed", 4, generation=2)]
    assert strip(events, now=32).stretches[-1].state is TimelineState.ENDING


def test_attempts_say_how_long_they_ran_at_which_sizes_and_how_they_ended() -> None:
    third, second, first = attempts(strip(LIFE, now=100), LIFE)
    assert (first.number, first.begin, first.end, first.running) == (1, 10, 33, 18)
    assert (first.sizes, first.outcome) == ((1, 4), "paused")
    assert (second.running, second.outcome, second.text) == (9, "retrying", "it retrying")
    assert (third.end, third.outcome) == (80, "succeeded")


def test_lost_workers_and_failed_attempts_are_marked() -> None:
    lost = replace(an_event(22, "team", 3, generation=3), lost=1)
    after = replace(an_event(25, "resized", 4, generation=4), lost=1)
    found = strip([*LIFE[:4], lost, after, *LIFE[5:]], now=100)
    assert [(one.at, one.text) for one in found.losses] == [(22, "it team"), (60, "it retrying")]


def test_an_attempt_that_goes_on_has_no_end() -> None:
    [one] = attempts(strip(LIFE[:5], now=25), LIFE[:5])
    assert (one.end, one.outcome, one.running) == (None, "", 13)


def test_of_a_very_long_life_the_last_part_is_shown() -> None:
    events = [an_event(0, "submitted"), an_event(1, "starting", 1), an_event(2, "running", 1)]
    events += [an_event(3 + n, "resized", 1 + n % 2, generation=n + 2) for n in range(2 * MOST)]
    found = strip(events, now=5000)
    assert (len(found.stretches), found.cut) == (MOST, True)
    assert found.stretches[-1].end == 5000


def test_a_job_without_events_has_an_empty_strip() -> None:
    assert strip([], now=1).stretches == ()
    assert attempts(strip([], now=1), []) == ()


@given(st.lists(st.tuples(st.floats(0, 1e6), st.sampled_from(sorted(AFTER)), st.integers(0, 8)), max_size=60))
def test_stretches_follow_each_other_without_gaps(told: list[tuple[float, str, int]]) -> None:
    events = [an_event(at, kind, gpus) for at, kind, gpus in sorted(told)]
    found = strip(events, now=2e6).stretches
    assert all(one.end == two.begin for one, two in pairwise(found))
    assert all(one.state is not TimelineState.OVER for one in found)


def test_every_event_that_changes_the_phase_of_a_real_job_is_known() -> None:
    plane = Plane()
    job = plane.submit("e", ANN, gpus="1..4")
    plane.after(2)
    plane.do(lambda: plane.services.actions.pause(ANN, job))
    plane.after(60)
    plane.do(lambda: plane.services.actions.resume(ANN, job))
    plane.after(60)
    plane.do(lambda: plane.services.actions.stop(ANN, job))
    plane.after(60)
    events = plane.services.jobs.events(ANN, job=job)
    found = strip(events, now=plane.now)
    assert found.end == plane.job(job).ended_at
    assert [one.outcome for one in attempts(found, events)] == ["stopped", "paused"]
    assert max(one.gpus or 0 for one in found.stretches) == pytest.approx(4)
