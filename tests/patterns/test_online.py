"""A rhythm is found as samples arrive, followed when it changes, and dropped when it ends."""

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.periods_traces import NEGATIVES, aimless
from grus.patterns import online
from grus.patterns.online import SLOTS, Beat
from grus.patterns.periods import DetectedPeriod, Floats, Rhythm, look

CLOCK = 1.7e9


def work(
    period: float, seed: int = 0, noise: float = 0.05, pause: float = 0.23
) -> Callable[[Floats], Floats]:
    """Utilisation at given moments: periods begin at multiples of the period after CLOCK."""

    def at(moments: Floats) -> Floats:
        chance = np.random.default_rng([31, seed])
        busy = (moments - CLOCK) / period % 1 < 1 - pause
        return np.asarray(np.where(busy, 0.9, 0.1) + chance.normal(0, noise, len(moments)))

    return at


def heard(
    beat: Beat, values: Callable[[Floats], Floats], begin: float, end: float, step: float
) -> Rhythm | None:
    """Feed the samples of that time, asking once in 16 samples; what is found at its end."""
    moments = CLOCK + np.arange(begin, end, step)
    for number, (at, value) in enumerate(zip(moments.tolist(), values(moments).tolist(), strict=True)):
        beat.add(at, value)
        if number % 16 == 0:
            beat.found(at)
    return beat.found(CLOCK + end)


@pytest.mark.parametrize(
    ("period", "step"),
    [(0.5, 0.1), (2.3, 0.1), (5.0, 1.0), (30.0, 1.0), (200.0, 1.0), (1800.0, 5.0), (90.0, 5.0)],
)
def test_from_half_a_second_to_half_an_hour_a_period_is_found_soon(period: float, step: float) -> None:
    found = heard(Beat(), work(period), 0.0, max(7 * period, 60 * step), step)
    assert found is not None
    assert found.period == pytest.approx(period, rel=0.03)


def test_the_boundary_is_in_the_clock_of_the_samples() -> None:
    found = heard(Beat(), work(40.0), 0.0, 500.0, 1.0)
    assert found is not None
    late = (found.next_boundary(CLOCK + 500.0) - CLOCK) % 40
    assert min(late, 40 - late) < 4


def test_samples_that_come_at_odd_moments_are_enough() -> None:
    chance, beat, made = np.random.default_rng(8), Beat(), work(25.0)
    moments = CLOCK + np.cumsum(chance.uniform(0.8, 1.2, 400))
    for at, value in zip(moments.tolist(), made(moments).tolist(), strict=True):
        beat.add(at, value)
    found = beat.found(float(moments[-1]))
    assert found is not None
    assert found.period == pytest.approx(25.0, rel=0.03)


def test_a_new_rhythm_takes_the_place_of_the_old_one() -> None:
    beat = Beat()
    first = heard(beat, work(12.0), 0.0, 400.0, 1.0)
    second = heard(beat, work(31.0, 1), 400.0, 1000.0, 1.0)
    assert first is not None
    assert first.period == pytest.approx(12.0, rel=0.03)
    assert second is not None
    assert second.period == pytest.approx(31.0, rel=0.03)


def test_a_rhythm_that_ends_is_dropped() -> None:
    beat = Beat()
    assert heard(beat, work(12.0), 0.0, 400.0, 1.0) is not None
    assert heard(beat, lambda moments: 0.02 + 0 * moments, 400.0, 520.0, 1.0) is None


def test_silence_for_a_period_ends_a_rhythm_and_samples_bring_it_back() -> None:
    beat = Beat()
    assert heard(beat, work(20.0), 0.0, 300.0, 1.0) is not None
    assert beat.found(CLOCK + 315.0) is not None
    assert beat.found(CLOCK + 330.0) is None
    assert heard(beat, work(20.0, 1), 330.0, 400.0, 1.0) is not None


def test_after_a_long_silence_it_begins_anew() -> None:
    beat = Beat()
    assert heard(beat, work(20.0), 0.0, 300.0, 1.0) is not None
    assert heard(beat, work(20.0), 1e6, 1e6 + 30, 1.0) is None
    found = heard(beat, work(33.0), 1e6 + 30, 1e6 + 400, 1.0)
    assert found is not None
    assert found.period == pytest.approx(33.0, rel=0.03)


def test_samples_out_of_order_and_gaps_are_passed_over() -> None:
    beat, made = Beat(), work(20.0)
    for second in range(300):
        at = CLOCK + second
        beat.add(at, float(made(np.array([at]))[0]))
        beat.add(at - 5, 100.0)
        beat.add(at + 0.5, np.nan)
    found = beat.found(CLOCK + 300)
    assert found is not None
    assert found.period == pytest.approx(20.0, rel=0.03)


def test_an_epoch_is_told_rather_than_its_steps() -> None:
    steps, epochs = work(0.7), work(60.0, 1, pause=0.3)
    found = heard(Beat(), lambda moments: steps(moments) * epochs(moments), 0.0, 420.0, 0.1)
    assert found is not None
    assert found.period == pytest.approx(60.0, rel=0.03)


def test_looks_come_seldom_and_asking_in_between_costs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = list[int]()

    def counted(values: Floats, step: float, *, start: float = 0.0) -> DetectedPeriod | None:
        looks.append(len(values))
        return look(values, step, start=start)

    monkeypatch.setattr(online, "look", counted)
    beat, made = Beat(), work(20.0)
    moments = CLOCK + np.arange(0.0, 3000.0)
    for at, value in zip(moments.tolist(), made(moments).tolist(), strict=True):
        beat.add(at, value)
        beat.found(at)
        beat.found(at)
    assert len(looks) < 2 * (3000 / 32 + 300 / 8 + 60)
    assert max(looks) <= SLOTS


def test_memory_is_bounded() -> None:
    beat = Beat()
    for number in range(30_000):
        beat.add(CLOCK + number / 10, 0.5)
    assert sum(scale._slots.nbytes for scale in beat._scales) <= 12 * 1024 + 512


@pytest.mark.parametrize("sort", list(NEGATIVES))
def test_what_has_no_rhythm_is_given_none_however_long_one_looks(sort: str) -> None:
    told = 0
    for number in range(4):
        chance, beat = np.random.default_rng([41, number]), Beat()
        values = np.concatenate([aimless(sort, chance).values for _ in range(4)])[:1200]
        found = list[Rhythm | None]()
        for at, value in enumerate(values.tolist()):
            beat.add(CLOCK + at, value)
            found.append(beat.found(CLOCK + at))
        told += any(each is not None for each in found)
    assert told <= 1
