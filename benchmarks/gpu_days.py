"""Generated days of a GPU's use, hour by hour: what four sorts of holders make of it. Seeded.

serving    requests follow the day and the week, with noise that lasts some hours and bursts
people     somebody tries things in working hours, not every day, with pauses
training   runs of hours to days at a level of their own, begun when somebody is there to begin them
nightly    a retraining every night, longer from week to week, beside a little of everything else
"""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]

HOURS = 24
FINE = 6
"""Steps an hour in which it is generated."""


def gpu_days(kind: str, days: int, seed: int) -> Array:
    """Mean utilisation (0 to 1) of each hour; the first day is a Monday."""
    rng = np.random.default_rng([seed, *kind.encode()])
    fine = KINDS[kind](days, rng)
    hourly: Array = np.clip(fine, 0.0, 1.0).reshape(-1, FINE).mean(axis=1)
    return hourly


def _moments(days: int) -> tuple[Array, Array]:
    """Hour of the day and number of the day, of each fine step."""
    hours = np.arange(days * HOURS * FINE) / FINE
    return hours % HOURS, hours // HOURS


def _lasting(size: int, hours: float, spread: float, rng: Generator) -> Array:
    """Noise that forgets itself over so many hours."""
    keep = float(np.exp(-1 / (hours * FINE)))
    steps = rng.normal(0.0, spread * np.sqrt(1 - keep * keep), size)
    found = np.empty(size)
    level = 0.0
    for index, step in enumerate(steps):
        level = keep * level + step
        found[index] = level
    return found


def serving(days: int, rng: Generator) -> Array:
    hour, day = _moments(days)
    peak = rng.uniform(12, 20)
    daily = 0.5 + 0.5 * np.cos((hour - peak) * 2 * np.pi / HOURS)
    weekend = np.where(day % 7 >= 5, rng.uniform(0.3, 0.8), 1.0)
    growth = 1 + rng.uniform(-0.005, 0.015) * day
    load = rng.uniform(0.1, 0.25) + rng.uniform(0.3, 0.6) * daily * weekend * growth
    load *= np.exp(_lasting(len(load), rng.uniform(2, 8), 0.15, rng))
    for _ in range(rng.poisson(days / 5)):
        begin = rng.integers(len(load))
        load[begin : begin + rng.integers(1, 3 * FINE)] *= rng.uniform(1.3, 2.0)
    return load + rng.normal(0, 0.03, len(load))


def people(days: int, rng: Generator) -> Array:
    hour, day = _moments(days)
    begin, end = rng.uniform(8, 10), rng.uniform(16.5, 20)
    there = rng.random(days) < np.where(np.arange(days) % 7 >= 5, 0.1, 0.85)
    shift = rng.normal(0, 0.7, days)
    index = day.astype(int)
    at_work = there[index] & (hour > begin + shift[index]) & (hour < end + shift[index])
    tries = _lasting(len(hour), 1.0, 1.0, rng) > rng.uniform(-0.6, 0.3)
    level = rng.uniform(0.4, 0.9)
    return np.where(at_work & tries, level + rng.normal(0, 0.15, len(hour)), 0.01)


def training(days: int, rng: Generator) -> Array:
    hour, day = _moments(days)
    use = np.full(len(hour), 0.01)
    waiting = rng.uniform(0.02, 0.1)
    at, typical = 0, rng.uniform(3, 14)
    while at < len(use):
        working = day[at] % 7 < 5 and 8 < hour[at] < 20
        if rng.random() > waiting * (1.0 if working else 0.15):
            at += 1
            continue
        length = int(FINE * typical * np.exp(rng.normal(0, 0.8))) + 1
        use[at : at + length] = rng.uniform(0.55, 0.98)
        at += length
    return use + rng.normal(0, 0.04, len(use))


def nightly(days: int, rng: Generator) -> Array:
    use = np.full(days * HOURS * FINE, 0.02) + np.maximum(0, _lasting(days * HOURS * FINE, 5, 0.12, rng))
    begin, length, level = rng.uniform(0, 4), rng.uniform(2, 6), rng.uniform(0.6, 0.95)
    for day in range(days):
        if rng.random() < 0.07:
            continue
        first = int(FINE * (HOURS * day + begin + rng.normal(0, 0.3)))
        last = first + int(FINE * length * (1 + 0.01 * day) * np.exp(rng.normal(0, 0.15)))
        use[max(first, 0) : last] += level
    return use + rng.normal(0, 0.02, len(use))


KINDS: dict[str, Callable[[int, Generator], Array]] = {
    "serving": serving,
    "people": people,
    "training": training,
    "nightly": nightly,
}
