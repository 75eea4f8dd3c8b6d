"""The evidence for a period is a plain probability."""

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from benchmarks.periods_traces import drifting
from grus.patterns.period_check import Cycles, level, surprise, transformed, weighed


def folded(
    seed: int, memory: float, cycles: int, phases: int
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return drifting(cycles * phases, memory, np.random.default_rng([7, seed])).reshape(cycles, phases)


@pytest.mark.parametrize("memory", [0.0, 0.9, 0.99])
def test_cycles_of_chance_agree_as_seldom_as_the_evidence_says(memory: float) -> None:
    weights = np.array(
        [max(weighed(transformed(level(folded(n, memory, 8, 24)))).values()) for n in range(1500)]
    )
    choices = 8  # The best of seven numbers of harmonics, akin to each other, and of two sizes of groups.
    for told in (3.0, 5.0):
        assert np.mean(weights > told) < choices * np.exp(-told)


def test_surprise_is_the_logarithm_of_the_tail_however_small() -> None:
    shapes = np.array([1, 5, 40, 40, 400])
    values = np.array([3.0, 20.0, 30.0, 900.0, 3000.0])
    terms = [
        np.arange(shape) * np.log(value) - gammaln(np.arange(shape) + 1)
        for shape, value in zip(shapes, values, strict=True)
    ]
    exact = [
        value - logsumexp(term) for term, value in zip(terms, values, strict=True)
    ]  # A sum over Poisson.
    assert surprise(shapes, values) == pytest.approx(exact, rel=0.01)


def test_cycles_that_are_the_same_weigh_more_the_more_there_are() -> None:
    shape = np.sin(np.arange(32) / 5) + np.random.default_rng(3).normal(0, 0.5, 32)
    rows = np.tile(shape, (20, 1)) + np.random.default_rng(4).normal(0, 0.3, (20, 32))
    weights = [max(weighed(transformed(level(rows[:count]))).values()) for count in (4, 8, 16)]
    assert weights == sorted(weights)
    assert weighed(transformed(level(rows[:3]))) == {}


def test_a_slope_is_no_likeness() -> None:
    ramp = np.linspace(0, 1, 800) + np.random.default_rng(5).normal(0, 0.001, 800)
    series = Cycles(ramp, np.ones(800, dtype=np.bool_))
    assert max(series.weight(period) for period in np.linspace(20, 190, 40)) < 8


def test_cycles_of_which_half_is_unknown_are_left_out() -> None:
    values = np.tile(np.repeat([0.0, 1.0], 20), 10)
    known = np.ones(400, dtype=np.bool_)
    known[90:150] = False
    assert Cycles(values, known).evidence(40.0).cycles == 8
