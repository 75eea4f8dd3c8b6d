"""The sizes that buy most: as good as exact search, steady, and nobody starves."""

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.pollux_allocation import allocate, hull
from grus.scheduler.elasticity.size_values import Candidate, Rule, values

SIZES = (1, 2, 4, 8, 12, 16)
RULE = Rule(patience=math.inf)


def a_candidate(key: str, power: float = 0.8, **changes: object) -> Candidate[str]:
    made = Candidate(key, SIZES, tuple(size**power for size in SIZES), length=1000.0)
    return replace(made, **changes)  # type: ignore[arg-type]  # keywords of many types


def best_possible(candidates: list[Candidate[str]], gpus: int, rule: Rule) -> float:
    """Exact search over all sizes of all jobs (a multiple-choice knapsack)."""
    best = [0.0] * (gpus + 1)
    for job in candidates:
        options = [(0, 0.0), *zip(job.sizes, values(job, rule), strict=True)]
        best = [max(best[n - size] + value for size, value in options if size <= n) for n in range(gpus + 1)]
    return best[gpus]


def worth(candidates: list[Candidate[str]], sizes: dict[str, int], rule: Rule) -> float:
    return sum(
        dict(zip(job.sizes, values(job, rule), strict=True)).get(sizes[job.key], 0.0) for job in candidates
    )


@st.composite
def candidates(draw: st.DrawFn) -> list[Candidate[str]]:
    count = draw(st.integers(1, 12))
    return [
        a_candidate(
            str(index),
            power=draw(st.floats(0.05, 1.0)),
            length=draw(st.floats(0, 1e6)),
            present=draw(st.sampled_from((0, *SIZES))),
            stall=draw(st.sampled_from((1.0, 30.0))),
            boot=draw(st.sampled_from((0.0, 30.0))),
        )
        for index in range(count)
    ]


@given(candidates(), st.integers(1, 64))
def test_sizes_are_allowed_and_fit(jobs: list[Candidate[str]], gpus: int) -> None:
    sizes = allocate(jobs, gpus, RULE)
    assert sum(sizes.values()) <= gpus
    assert all(sizes[job.key] in (0, *job.sizes) for job in jobs)


@given(candidates(), st.integers(16, 64))
def test_steepest_step_first_is_nearly_as_good_as_exact_search(jobs: list[Candidate[str]], gpus: int) -> None:
    """What it misses is at most the one step of a hull that did not fit."""
    missing = best_possible(jobs, gpus, RULE) - worth(jobs, allocate(jobs, gpus, RULE), RULE)
    hulls = [hull(zip(job.sizes, values(job, RULE), strict=True)) for job in jobs]
    steps = [high[1] - low[1] for steps in hulls for low, high in itertools.pairwise(steps)]
    assert missing <= max(steps) + 1e-9


@given(candidates(), st.integers(1, 64))
def test_the_same_jobs_get_the_same_sizes(jobs: list[Candidate[str]], gpus: int) -> None:
    assert allocate(jobs, gpus, RULE) == allocate(list(jobs), gpus, RULE)


def test_one_gpu_for_each_is_worth_more_than_all_for_one() -> None:
    sizes = allocate([a_candidate("a"), a_candidate("b"), a_candidate("c")], 3, RULE)
    assert sizes == {"a": 1, "b": 1, "c": 1}


def test_the_job_with_less_left_gets_more() -> None:
    long, short = a_candidate("long", power=0.5, length=2e4), a_candidate("short", power=0.5, length=100)
    sizes = allocate([long, short], 12, RULE)
    assert sizes["short"] > sizes["long"] > 0


def test_falling_returns_even_sizes_out() -> None:
    """Of two jobs of unknown length the one that scales well no longer takes what it can."""
    jobs = [a_candidate("well", power=1.0), a_candidate("badly", power=0.7)]
    assert allocate(jobs, 20, RULE) == {"well": 16, "badly": 4}
    assert allocate(jobs, 20, replace(RULE, returns=0.3)) == {"well": 12, "badly": 8}


def test_equal_jobs_that_scale_without_loss_share_evenly() -> None:
    jobs = [a_candidate(name, power=1.0) for name in "ab"]
    assert allocate(jobs, 16, RULE) == {"a": 8, "b": 8}


def test_a_size_that_makes_nothing_faster_is_never_taken() -> None:
    flat = Candidate("flat", SIZES, (1.0,) * len(SIZES), length=1000.0)
    assert allocate([flat], 64, RULE) == {"flat": 1}


def test_a_dip_between_two_good_sizes_is_stepped_over() -> None:
    """Two nodes are slower than one, four are faster: the hull goes from one to four."""
    job = Candidate("dip", (4, 8, 16), (4.0, 3.0, 9.0), length=1000.0)
    assert allocate([job], 16, RULE) == {"dip": 16}
    assert allocate([job], 8, RULE) == {"dip": 4}


def test_a_step_that_does_not_fit_gives_way_to_a_smaller_one_of_the_same_job() -> None:
    """Not to a step of another job that buys less."""
    wide = Candidate("wide", (1, 4, 16), (1.0, 4.0, 17.0), length=0.0)
    slow = Candidate("slow", (1, 2, 4), (1.0, 1.1, 1.2), length=1e6)
    assert allocate([slow, wide], 4, RULE) == {"slow": 0, "wide": 4}


def test_a_change_has_to_pay_for_itself() -> None:
    """A job that is nearly done keeps its size; one with hours left grows."""
    nearly = a_candidate("nearly", length=40, present=4, stall=30.0)
    hours = a_candidate("hours", length=40_000, present=4, stall=30.0)
    assert allocate([nearly], 16, RULE) == {"nearly": 4}
    assert allocate([hours], 16, RULE) == {"hours": 16}


def test_a_job_of_unknown_length_goes_on_for_as_long_again_at_its_present_speed() -> None:
    """A hundred seconds old on four GPUs is more to come than a hundred seconds of work for one."""
    job = a_candidate("job", length=100, present=4, stall=30.0)
    assert allocate([job], 16, RULE) == {"job": 4}
    assert allocate([replace(job, known=False)], 16, RULE) == {"job": 16}


def test_a_cheap_resize_pays_sooner_than_a_restart() -> None:
    job = a_candidate("job", length=100, present=8)
    assert allocate([replace(job, stall=1.0)], 16, RULE) == {"job": 16}
    assert allocate([replace(job, stall=30.0)], 16, RULE) == {"job": 8}


def test_who_waited_too_long_starts_whatever_its_weight() -> None:
    rule = Rule(power=1.0, offset=1.0, patience=600)
    short = [a_candidate(str(index), power=1.0, length=1) for index in range(4)]
    long = a_candidate("long", length=1e6, waited=601.0)
    assert allocate([*short, replace(long, waited=0.0)], 4, rule)["long"] == 0
    assert allocate([*short, long], 4, rule)["long"] == 1


@pytest.mark.parametrize("smallest", [1, 8])
def test_a_stream_of_short_jobs_starves_nobody(smallest: int) -> None:
    """The bound of `allocate`: patience, a turn and the time between two decisions."""
    rule, every, now, waited, ran = Rule(power=1.0, offset=1.0, patience=300, turn=60), 20.0, 0.0, 0.0, 0.0
    longest, served, running = 0.0, 0.0, False
    long = Candidate("long", (smallest,), (float(smallest),), length=1e6)
    others: dict[str, float] = {}
    while now < 20_000:
        others |= {f"{now:g}/{index}": -1.0 for index in range(3)}
        jobs = [
            a_candidate(name, length=1, present=int(at >= 0), ran=now - at if at >= 0 else math.inf)
            for name, at in others.items()
        ]
        sizes = allocate([replace(long, waited=waited, present=smallest * running, ran=ran), *jobs], 8, rule)
        ends = [name for name, at in others.items() if at >= 0 and now - at >= 60]
        others = {
            name: now if sizes[name] and at < 0 else at if sizes[name] else -1.0
            for name, at in others.items()
            if name not in ends
        }
        ran = ran + every if running and sizes["long"] else 0.0
        running = sizes["long"] > 0
        waited = 0.0 if running else waited + every
        longest, served, now = max(longest, waited), served + every * running, now + every
    assert longest <= rule.patience + rule.turn + every
    assert served >= 20_000 * rule.turn / (rule.patience + 2 * rule.turn + 2 * every) * 0.9
