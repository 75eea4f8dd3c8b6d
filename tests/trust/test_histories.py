"""The checker of histories accepts what can have happened, and nothing else."""

import pytest

from tests.trust.histories import NOT_THERE, REFUSED, Call, History, Start, contradictions, lost, twice


def seen(
    what: str,
    begun: float,
    answered: float,
    wanted: str = "run",
    phase: str = "running",
    *,
    version: int,
    **more: int,
) -> Call:
    return Call(
        what, begun, answered, wanted, phase, version=version, job="j1", attempt=more.get("attempt", 1)
    )


SUBMITTED = seen("submit", 0, 1, phase="pending", version=1, attempt=0)
DONE = seen("read", 90, 91, phase="succeeded", version=9)
STOPPED = seen("read", 90, 91, "stop", "stopped", version=9)


def a_history(*calls: Call, starts: tuple[Start, ...] = (), end: Call = DONE) -> History:
    return History("a", [SUBMITTED, *calls], list(starts), [end])


RIGHT = {
    "a job runs and ends": a_history(),
    "a stop without an answer took effect": a_history(Call("stop", 2), end=STOPPED),
    "a stop without an answer had no effect": a_history(Call("stop", 2)),
    "a stop without an answer took effect much later": a_history(
        Call("stop", 2), seen("read", 5, 6, version=2), end=STOPPED
    ),
    "a pause and a resume at the same time, in either order": a_history(
        seen("pause", 2, 6, "pause", "pausing", version=3),
        seen("resume", 3, 5, "run", "running", version=2),
        seen("read", 7, 8, "pause", "paused", version=4),
    ),
    "a stop that came too late is refused": a_history(
        seen("read", 2, 3, phase="succeeded", version=9), Call("stop", 4, 5, REFUSED)
    ),
    "a job that was to be stopped comes to its own end, and somebody asks again": a_history(
        seen("stop", 2, 3, "stop", version=2),
        seen("stop", 8, 9, "stop", "succeeded", version=9),
        end=seen("read", 90, 91, "stop", "succeeded", version=9),
    ),
    "a job that is being stopped comes to its own end": a_history(
        seen("stop", 2, 3, "stop", version=2), end=seen("read", 90, 91, "stop", "succeeded", version=9)
    ),
    "a submit that was not answered is not there": History(
        "a", [Call("submit", 0), Call("read", 1, 2, NOT_THERE)]
    ),
    "what was on its way starts after the answer": a_history(
        seen("stop", 2, 3, "stop", version=2), starts=(Start("w", 1, 3.1),), end=STOPPED
    ),
    "a resume lets the next attempt begin": a_history(
        seen("pause", 2, 3, "pause", "pausing", version=2),
        seen("resume", 4, 6, version=3),
        starts=(Start("w", 2, 5.0),),
    ),
}

WRONG = {
    "an end is not final": a_history(seen("read", 2, 3, phase="failed", version=3)),
    "a confirmed stop is not seen": a_history(
        seen("stop", 2, 3, "stop", version=2), seen("read", 4, 5, "run", version=3), end=STOPPED
    ),
    "a confirmed pause is not seen": a_history(
        seen("pause", 2, 3, "pause", "pausing", version=2), seen("read", 4, 5, "run", version=3)
    ),
    "nobody has resumed it": a_history(
        seen("pause", 2, 3, "pause", "paused", version=2), seen("read", 4, 5, "run", "pending", version=3)
    ),
    "a stop that came in time is refused": a_history(
        Call("stop", 2, 3, REFUSED), seen("read", 4, 5, "run", version=2)
    ),
    "a confirmed submit is not there": a_history(Call("read", 2, 3, NOT_THERE)),
    "a later read sees something older": a_history(
        seen("read", 2, 3, version=5), seen("read", 4, 5, version=4)
    ),
    "a stop that is asked for again is refused": a_history(
        seen("stop", 2, 3, "stop", version=2), Call("stop", 4, 5, REFUSED), end=STOPPED
    ),
    "stopped, and nobody asked for it": a_history(end=STOPPED),
    "an attempt begins after a confirmed stop": a_history(
        seen("stop", 2, 3, "stop", version=2), starts=(Start("w", 2, 9.0),), end=STOPPED
    ),
    "an attempt begins while it is paused": a_history(
        seen("pause", 2, 3, "pause", "paused", version=2),
        seen("resume", 8, 9, version=5),
        starts=(Start("w", 2, 5.0),),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_can_have_happened_is_accepted(name: str) -> None:
    assert contradictions(RIGHT[name]) == []
    assert twice(RIGHT[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_have_happened_is_found(name: str) -> None:
    assert contradictions(WRONG[name])


def test_a_confirmed_job_that_is_gone_never_ran_or_failed_for_no_reason_is_lost() -> None:
    ran = (Start("w", 1, 2.0),)
    failed = seen("read", 90, 91, phase="failed", version=9)
    assert lost(History("a", [SUBMITTED]))
    assert lost(a_history())
    assert lost(a_history(starts=ran, end=failed))
    assert lost(a_history(starts=ran, end=seen("read", 90, 91, version=9)))
    assert not lost(a_history(starts=ran))
    assert not lost(History("a", [SUBMITTED], [*ran], [failed], disturbed=True))
    assert not lost(a_history(seen("stop", 2, 3, "stop", version=2), end=STOPPED))


def test_two_jobs_of_one_submission_and_two_runs_of_one_worker_are_told() -> None:
    assert twice(History("a", [SUBMITTED], [], [DONE, DONE]))
    assert twice(a_history(starts=(Start("w", 1, 2.0), Start("w", 1, 3.0))))
    assert not twice(a_history(starts=(Start("w", 1, 2.0), Start("v", 2, 3.0))))
