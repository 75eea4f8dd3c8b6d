"""Gradient noise is found from two batch sizes, and the batch that pays most is chosen within its bounds."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grus.elastic.data.adaptive_batch_size import (
    WARM,
    WORTH,
    BatchSizer,
    Bounds,
    NoiseEstimate,
    StepTime,
    choose,
    efficiency,
    fitted,
    gain,
    observed,
    progress,
    within,
)

FEATURES = 200


def noisy(phi: float) -> NoiseEstimate:
    return NoiseEstimate(square=1.0, trace=phi, weight=1.0, level=1.0, seen=WARM)


def measured(phi: float, *, small: int, big: int, steps: int = 300) -> NoiseEstimate:
    """Noise observed on made-up gradients: a true one of norm 1 and samples around it."""
    rng = np.random.default_rng(4)
    true = np.full(FEATURES, FEATURES**-0.5)
    spread = math.sqrt(phi / FEATURES)
    noise = NoiseEstimate()
    for _ in range(steps):
        samples = true + spread * rng.standard_normal((big, FEATURES))
        squares = [float(np.square(samples[:count].mean(axis=0)).sum()) for count in (small, big)]
        noise = observed(noise, squares[0], small, squares[1], big)
    return noise


@pytest.mark.parametrize(
    ("phi", "small", "big"), [(20, 8, 32), (100, 8, 32), (20, 16, 256), (200, 16, 256), (1000, 64, 256)]
)
def test_a_known_noise_scale_is_recovered(phi: float, small: int, big: int) -> None:
    noise = measured(phi, small=small, big=big)
    # About a hundred observations count, and |G|² is small against what they scatter.
    assert noise.scale == pytest.approx(phi, rel=0.3)


def test_a_gradient_without_noise_makes_larger_batches_worthless() -> None:
    noise = NoiseEstimate()
    for _ in range(WARM):
        noise = observed(noise, 4.0, 8, 4.0, 64)
    assert noise.scale == 0
    assert gain(noise.scale, 64, 8) == 1
    assert efficiency(noise.scale, 64, 8) == 8 / 64


def test_single_estimates_below_zero_do_not_move_the_mean_far() -> None:
    """Half of the observations say that the larger batch has the larger gradient: no noise can do that."""
    noise = NoiseEstimate()
    for turn in range(400):
        noise = observed(noise, 3.0 + 2.5 * (-1) ** turn, 10, 1.5, 40)
    # On average |G_10|² = 3 and |G_40|² = 1.5, hence |G|² = 1 and a trace of 20.
    assert noise.scale == pytest.approx(20, rel=0.2)


@given(
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-3, 100),
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-3, 100),
)
def test_garbage_never_makes_a_state_that_is_not_a_number(a: float, n: int, b: float, m: int) -> None:
    sizer = BatchSizer(8, 64, 8)
    for _ in range(2 * WARM):
        sizer.observe(3.0, 8, 1.5, 32)
        sizer.timed(1, 0.1)
    sizer.observe(a, n, b, m)
    sizer.timed(n, b)
    assert all(math.isfinite(value) for value in sizer.state().values())
    assert 8 <= sizer.choose(2) <= 64
    assert 1 <= sizer.lr_factor(64) <= 8


def test_one_spike_changes_nothing_and_a_lasting_change_is_believed() -> None:
    noise = measured(100.0, small=8, big=64)
    assert observed(noise, 1e12, 8, 1e12, 64).scale == noise.scale
    for _ in range(300):
        noise = observed(noise, 1e3 * (1 + 400 / 8), 8, 1e3 * (1 + 400 / 64), 64)
    assert noise.scale == pytest.approx(400, rel=0.05)


@given(st.floats(0, 1e6), st.integers(1, 4096), st.integers(1, 4096))
def test_gain_and_efficiency_are_monotone_and_bounded(scale: float, base: int, more: int) -> None:
    batch = base + more
    assert 1 <= gain(scale, batch, base) <= batch / base * (1 + 1e-9)
    assert base / batch * (1 - 1e-9) <= efficiency(scale, batch, base) <= 1
    assert gain(scale, batch + 1, base) >= gain(scale, batch, base) * (1 - 1e-12)
    assert efficiency(scale, batch + 1, base) <= efficiency(scale, batch, base)
    assert gain(scale * 2, batch, base) >= gain(scale, batch, base) * (1 - 1e-12)
    # A step's progress is that of its samples.
    assert gain(scale, batch, base) == pytest.approx(efficiency(scale, batch, base) * batch / base)


def test_step_times_are_a_line_and_one_count_leaves_room_for_a_guess() -> None:
    assert fitted([]) is None
    only = fitted([(4, 2.0)])
    assert only is not None
    assert (only.fixed, only.each) == pytest.approx((1.6, 0.1))
    assert fitted([(4, 2.0)], each=0.3) == StepTime(pytest.approx(0.8), 0.3)  # type: ignore[arg-type]  # compares like a float
    assert fitted([(4, 2.0)], each=3.0) == StepTime(0.0, 0.5)
    found = fitted([(1, 0.15), (2, 0.2), (4, 0.3)])
    assert found is not None
    assert (found.fixed, found.each) == pytest.approx((0.1, 0.05))


def test_step_times_are_never_negative() -> None:
    for pairs in ([(1, 0.3), (4, 0.1)], [(2, 0.1), (4, 0.3)]):
        found = fitted(pairs)
        assert found is not None
        assert min(found.fixed, found.each) == 0
        assert 0.1 <= found.seconds(3) <= 0.3


sizes = st.integers(1, 64)


@given(st.floats(0, 1e5), sizes, sizes, sizes, st.integers(1, 16), st.floats(0, 1), st.integers(0, 9999))
def test_the_choice_is_the_best_multiple_within_reach(
    phi: float, low: int, more: int, micro: int, world: int, fixed: float, present: int
) -> None:
    bounds = Bounds(low * micro, (low + more) * micro)
    present = bounds.nearest(present // micro * micro)
    times, noise = StepTime(fixed, 0.01), noisy(phi)

    def worth(batch: int) -> float:
        return progress(noise, times, batch, bounds.low, micro, world)

    chosen = choose(noise, times, bounds, micro, world, present)
    assert chosen % micro == 0
    assert bounds.low <= chosen <= bounds.high
    assert present / 2 <= chosen <= present * 2
    reachable = [
        batch for batch in range(bounds.low, bounds.high + 1, micro) if present / 2 <= batch <= present * 2
    ]
    best = max(map(worth, reachable))
    if chosen == present:
        assert best <= WORTH * worth(present) * (1 + 1e-9)
    else:
        assert worth(chosen) == pytest.approx(best)


def test_more_noise_never_asks_for_a_smaller_batch() -> None:
    bounds, times = Bounds(32, 4096), StepTime(0.2, 0.01)
    chosen = []
    for phi in (0, 10, 100, 1000, 10000):
        batch = 32
        for _ in range(10):
            batch = choose(noisy(phi), times, bounds, 32, 4, batch)
        chosen.append(batch)
    assert chosen == sorted(chosen)
    assert (chosen[0], chosen[-1]) == (32, 4096)


def test_a_choice_once_made_stays() -> None:
    batch = 64
    for _ in range(10):
        batch = choose(noisy(500), StepTime(0.05, 0.02), Bounds(64, 1024), 16, 2, batch)
    assert choose(noisy(500), StepTime(0.05, 0.02), Bounds(64, 1024), 16, 2, batch) == batch
    assert choose(noisy(510), StepTime(0.051, 0.02), Bounds(64, 1024), 16, 2, batch) == batch


def test_nothing_changes_before_noise_and_time_are_known() -> None:
    sizer = BatchSizer(64, 1024, 16)
    sizer.timed(4, 0.1)
    assert sizer.choose(1) == 64
    sizer = BatchSizer(64, 1024, 16)
    for _ in range(WARM):
        sizer.observe(50.0, 16, 13.0, 64)
    assert sizer.choose(1) == 64
    assert sizer.lr_factor(64) == 1


def test_a_noisy_run_grows_by_doublings_and_its_learning_rate_with_it() -> None:
    sizer = BatchSizer(64, 1024, 16)
    course = [sizer.batch]
    for _ in range(60):
        sizer.observe(1 + 1000 / 16, 16, 1 + 1000 / sizer.batch, sizer.batch)
        sizer.timed(sizer.batch // 32, 0.2 + 0.001 * sizer.batch // 32)
        course.append(sizer.choose(2))
    assert sorted(set(course)) == [64, 128, 256, 512, 1024]
    assert course == sorted(course)
    assert sizer.lr_factor(1024) == pytest.approx((1000 / 64 + 1) / (1000 / 1024 + 1), rel=0.01)
    adam = BatchSizer(64, 1024, 16, power=0.5)
    adam.load(sizer.state())
    assert adam.lr_factor(1024) == pytest.approx(sizer.lr_factor(1024) ** 0.5)


def test_another_number_of_workers_is_measured_anew() -> None:
    """With one worker a larger batch only takes longer; with eight the exchange is what a step costs."""
    sizer = BatchSizer(64, 1024, 64)
    for _ in range(30):
        sizer.observe(1 + 800 / 64, 64, 1 + 800 / 1024, 1024)
    for count in (1, 2, 4):
        sizer.timed(count, 0.1 * count)
    assert sizer.choose(1) == 64
    assert sizer.choose(8) == 128
    sizer.timed(1, 1.0)
    sizer.timed(2, 1.05)
    for _ in range(3):
        sizer.choose(8)
    assert sizer.batch == 1024


def test_state_is_plain_numbers_and_goes_on_where_it_was() -> None:
    sizer = BatchSizer(64, 1024, 16)
    for _ in range(20):
        sizer.observe(60.0, 16, 17.0, 64)
        sizer.timed(2, 0.3)
    sizer.choose(2)
    copy = BatchSizer(64, 1024, 16)
    copy.load(json.loads(json.dumps(sizer.state())))
    assert (copy.batch, copy.noise, copy.step_time()) == (sizer.batch, sizer.noise, sizer.step_time())
    assert copy.choose(2) == sizer.choose(2)
    narrower = BatchSizer(32, 96, 48)
    narrower.load(sizer.state())
    assert narrower.batch == 96


def test_bounds_move_inwards_and_impossible_ones_are_refused() -> None:
    assert within(100, 1000, 64) == Bounds(128, 960)
    with pytest.raises(ValueError, match="no multiple of the micro-batch 64 lies between 65 and 100"):
        within(65, 100, 64)
    for low, high, micro in ((0, 8, 1), (8, 4, 1), (1, 8, 0)):
        with pytest.raises(ValueError, match="1 <= low <= high"):
            BatchSizer(low, high, micro)
