"""Traces of what people do with GPUs, a value a second: activity and memory. Chance is passed in."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.float64]
GB = 1e9


def training(rng: Generator, seconds: int, period: float | None = None) -> tuple[Floats, Floats]:
    """Epochs: work with a little noise, then a dip; memory is taken once and kept."""
    period = float(rng.uniform(6, 30)) if period is None else period
    busy = rng.uniform(0.6, 0.95)
    phase = (np.arange(seconds) / period) % 1.0
    level = np.where(phase < rng.uniform(0.6, 0.85), busy, rng.uniform(0.05, 0.3))
    return np.clip(level + rng.normal(0, 0.03, seconds), 0, 1), np.full(seconds, 8 * GB)


def inference(rng: Generator, seconds: int) -> tuple[Floats, Floats]:
    """Requests at random, each busy for a moment, more at some times than at others."""
    rate = rng.uniform(1, 5) * (1 + 0.3 * np.sin(np.arange(seconds) / rng.uniform(200, 900)))
    served = rng.poisson(rate) * rng.uniform(0.05, 0.12)
    return np.clip(served, 0, 1), np.full(seconds, 12 * GB)


def dev(rng: Generator, seconds: int) -> tuple[Floats, Floats]:
    """Somebody tries things: bursts of some seconds, then thinks; memory comes and goes."""
    values, memory = np.zeros(seconds), np.zeros(seconds)
    at = int(rng.uniform(0, 10))
    while at < seconds:
        burst = int(rng.uniform(2, 25))
        values[at : at + burst] = rng.uniform(0.3, 1.0)
        memory[at:] = rng.uniform(1, 6) * GB
        at += burst + int(10 + rng.exponential(15))
    return values, memory


def idle(rng: Generator, seconds: int) -> tuple[Floats, Floats]:
    """Memory is taken, and nothing happens."""
    return np.zeros(seconds), np.full(seconds, rng.uniform(0, 10) * GB)


def drift(rng: Generator, seconds: int, keeps: float = 0.9) -> tuple[Floats, Floats]:
    """Aimless: each value like the one before (AR)."""
    noise = rng.normal(0, 0.1 * np.sqrt(1 - keeps**2), seconds)
    values = np.zeros(seconds)
    for at in range(1, seconds):
        values[at] = keeps * values[at - 1] + noise[at]
    return np.clip(0.5 + values, 0, 1), np.full(seconds, 8 * GB)
