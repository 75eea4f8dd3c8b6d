"""The best batch of each size: what more examples are worth, and what a job allows."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.pollux_goodput import Batches, GradientNoise, SpeedTable, best_batch, efficiency
from grus.scheduler.elasticity.throughput_model import dense_shapes, fit
from tests.scheduler.elasticity.test_throughput_model import a_sample, samples

NOISE = GradientNoise(grad_sqr=1.0, grad_var=20.0)


BATCHES = Batches(first=32, largest=4096, smallest_local=8, largest_local=256)


def test_one_sample_is_enough_to_begin_with() -> None:
    """Nothing is known about exchange, so that it looks free: a reason to try, within reach."""
    model = fit([a_sample(1, 1, 32)])
    speeds = SpeedTable(model, BATCHES, dense_shapes((1, 2, 4), 4)).goodput(NOISE)
    assert speeds[0] < speeds[1] < speeds[2]


def test_an_example_of_a_larger_batch_is_worth_less() -> None:
    worth = efficiency(NOISE, [1, 2, 8, 64])
    assert worth[0] == pytest.approx(1.0)
    assert all(low > high for low, high in itertools.pairwise(worth))
    assert efficiency(GradientNoise(1.0, 0.0), 4.0) == pytest.approx(0.25)


def test_more_noise_calls_for_a_larger_batch() -> None:
    model = fit(samples((1, 1), (1, 4), (4, 16)))
    quiet, loud = (
        best_batch(model, GradientNoise(1.0, variance), BATCHES, 4, 16) for variance in (1.0, 1000.0)
    )
    assert loud.local * (loud.accumulation + 1) > quiet.local * (quiet.accumulation + 1)


@given(
    st.sampled_from([(1, 1), (1, 2), (1, 4), (2, 8), (5, 20), (16, 64)]),
    st.floats(1e-6, 1e6),
    st.floats(0, 1e6),
    st.sampled_from([None, 32, 300, 4096]),
)
def test_a_batch_stays_within_its_bounds(
    shape: tuple[int, int], grad_sqr: float, grad_var: float, fixed: int | None
) -> None:
    model = fit(samples((1, 1), (1, 4), (4, 16)))
    batches = Batches(first=32, largest=4096, smallest_local=1, largest_local=256, fixed=fixed)
    choice = best_batch(model, GradientNoise(grad_sqr, grad_var), batches, *shape)
    total = shape[1] * choice.local * (choice.accumulation + 1)
    assert 1 <= choice.local <= 256
    assert total <= 4096
    assert choice.goodput > 0
    if fixed is None:
        assert total >= 32
        assert shape[1] > 1 or total <= 32 or choice.accumulation > 0
    else:
        assert abs(total - fixed) < 2 * shape[1] * (choice.accumulation + 1)


def test_a_size_whose_local_batch_would_be_too_small_buys_nothing() -> None:
    batches = Batches(first=32, largest=64, smallest_local=8, largest_local=256)
    assert batches.most_gpus == 8
    assert SpeedTable(fit(samples((1, 1))), batches, [(4, 16)]).goodput(NOISE) == [0.0]
