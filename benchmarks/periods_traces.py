"""Made-up telemetry with a known answer: trainings that repeat, and seven sorts of load that do not.

A training is a sequence of epochs, none quite as long as the last (jitter). Each has a shape (a pause at its
end, an evaluation at another level, a slow rise, a wave), then comes what real traces have on top: noise, a
part of it correlated, dips at other moments (a loader that stalls), drift. A sample is the mean of the
interval that it stands for, as utilisation is, and is rounded to a hundredth, as NVML's is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

Floats = NDArray[np.float64]
Chance = np.random.Generator

SHORTEST, LONGEST = 0.5, 1800.0  # Seconds of a period.
FEWEST, MOST = 4.0, 40.0  # Periods in a series.
FAST = 4.0  # Periods below are sampled at 10 Hz, the others at 1 Hz.
JITTER = 0.03
FINE = 16  # Moments computed for each sample.


@dataclass(frozen=True, slots=True)
class Trace:
    sort: str
    values: Floats
    step: float
    period: float | None
    """Mean length of the epochs that it holds; None: it has no rhythm."""
    began: float | None = None
    """When the last epoch began, in seconds after the series began; None where nothing marks a beginning."""


def training(chance: Chance, period: float | None = None, jitter: float | None = None) -> Trace:
    """A series with a rhythm; of any period between the shortest and the longest unless one is given.

    `jitter` is the standard deviation of epochs' lengths as part of the period, up to 3 % unless given.
    """
    nominal = period or float(np.exp(chance.uniform(np.log(SHORTEST), np.log(LONGEST))))
    step = 0.1 if nominal < FAST else 1.0
    cycles = chance.uniform(FEWEST, MOST)
    count = int(np.ceil(cycles * nominal / step))
    spread = chance.uniform(0.0, JITTER) if jitter is None else jitter
    lengths = nominal * np.maximum(0.5, chance.normal(1.0, spread, int(cycles * 1.5) + 4))
    edges = np.concatenate([[0.0], np.cumsum(lengths)])
    fine = min(FINE, max(1, 2_000_000 // count))
    since = chance.uniform(0, nominal)
    moments = (np.arange(count * fine) + 0.5) * step / fine + since
    epoch = np.searchsorted(edges, moments, side="right") - 1
    phase = (moments - edges[epoch]) / lengths[epoch]
    sort, shape = SHAPES[chance.integers(len(SHAPES))]
    clean = shape(phase, chance).reshape(count, fine).mean(axis=1)
    whole = float(lengths[epoch[0] : epoch[-1] + 1].mean())
    began = None if sort == "wave" else float(edges[epoch[-1]] - since)
    return Trace(sort, dressed(clean, nominal / step, chance), step, whole, began)


def pause(phase: Floats, chance: Chance) -> Floats:
    """Work, then a pause at the end of the epoch."""
    return np.where(phase < 1 - chance.uniform(0.05, 0.4), 1.0, chance.uniform(0.0, 0.5))


def evaluation(phase: Floats, chance: Chance) -> Floats:
    """Work, an evaluation at another level, and a short pause to save."""
    share, level = chance.uniform(0.1, 0.4), chance.uniform(0.3, 0.7)
    save = chance.uniform(0.02, 0.08)
    return np.where(phase < 1 - share, 1.0, np.where(phase < 1 - save, level, 0.0))


def rise(phase: Floats, chance: Chance) -> Floats:
    """Load that grows through the epoch and falls back."""
    return chance.uniform(0.0, 0.4) + chance.uniform(0.5, 1.0) * phase


def wave(phase: Floats, chance: Chance) -> Floats:
    """Load that swells and ebbs."""
    sharp = chance.uniform(0.7, 2.0)
    return (0.5 + 0.5 * np.sin(2 * np.pi * phase)) ** sharp


SHAPES: tuple[tuple[str, Callable[[Floats, Chance], Floats]], ...] = (
    ("pause", pause),
    ("evaluation", evaluation),
    ("rise", rise),
    ("wave", wave),
)


def dressed(clean: Floats, samples: float, chance: Chance) -> Floats:
    """With noise, dips and drift on top; `samples` is the length of a period. Between 0 and 1 afterwards."""
    count = len(clean)
    seen = clean + chance.normal(0, chance.uniform(0.02, 0.2), count)
    seen += chance.uniform(0.0, 0.1) * drifting(count, chance.uniform(0.3, 0.9), chance)
    seen += chance.uniform(-0.5, 0.5) * np.linspace(0, 1, count)
    seen += chance.uniform(0.0, 0.15) * drifting(count, np.exp(-1 / max(2.0, 5 * samples)), chance)
    for _ in range(chance.poisson(0.15 * count / samples)):
        begin = int(chance.integers(count))
        seen[begin : begin + max(1, int(samples * chance.uniform(0.02, 0.1)))] -= chance.uniform(0.3, 1.0)
    return measured(0.1 + 0.7 * seen)


def measured(values: Floats) -> Floats:
    """As a counter of utilisation shows it: between 0 and 1, in hundredths."""
    return np.asarray(np.round(np.clip(values, 0.0, 1.0), 2), dtype=np.float64)


def drifting(count: int, memory: float, chance: Chance) -> Floats:
    """AR(1) of variance 1."""
    first = chance.normal()
    shocks = chance.normal(0, np.sqrt(1 - memory**2), count)
    shocks[0] = first
    return np.asarray(lfilter([1.0], [1.0, -memory], shocks), dtype=np.float64)


# -- without a rhythm


def ar(memory: float) -> Callable[[int, Chance], Floats]:
    def make(count: int, chance: Chance) -> Floats:
        return measured(0.5 + chance.uniform(0.05, 0.2) * drifting(count, memory, chance))

    return make


def ramp(count: int, chance: Chance) -> Floats:
    """A leak, a loader that fills its cache, or a level that settles."""
    line = np.linspace(0, 1, count) ** chance.uniform(0.3, 2.0)
    low, high = chance.uniform(0, 0.4), chance.uniform(0.5, 1.0)
    if chance.random() < 0.5:
        low, high = high, low
    return measured(low + (high - low) * line + chance.normal(0, chance.uniform(0.002, 0.1), count))


def step(count: int, chance: Chance) -> Floats:
    """One to three changes of level, as jobs come and go."""
    values = np.full(count, chance.uniform(0, 1))
    for begin in chance.integers(1, count, chance.integers(1, 4)):
        values[begin:] = chance.uniform(0, 1)
    return measured(values + chance.normal(0, chance.uniform(0.0, 0.1), count))


def bursts(count: int, chance: Chance) -> Floats:
    """Somebody tries things: work and rest of lengths without a memory."""
    work, rest = np.exp(chance.uniform(np.log(1), np.log(max(2, count / 8)), 2))
    values, at, busy = np.zeros(count), 0, bool(chance.integers(2))
    while at < count:
        length = max(1, round(float(chance.exponential(work if busy else rest))))
        values[at : at + length] = chance.uniform(0.4, 1.0) if busy else 0.02
        at, busy = at + length, not busy
    return measured(values + chance.normal(0, 0.03, count))


def idle(count: int, chance: Chance) -> Floats:
    """Nothing, but for the odd blip."""
    values = np.zeros(count)
    blips = chance.poisson(count * chance.choice([0.0, 0.002, 0.01, 0.03]))
    values[chance.integers(0, count, blips)] = chance.uniform(0.01, 0.3, blips)
    return measured(values)


def inference(count: int, chance: Chance) -> Floats:
    """Requests by chance at a rate that wanders; each keeps the GPU busy for a moment."""
    rate = chance.uniform(0.1, 5) * np.exp(0.5 * drifting(count, np.exp(-1 / (count / 5)), chance))
    cost = chance.uniform(0.05, 0.4)
    work = chance.poisson(rate) * cost
    return measured(work + chance.normal(0, 0.02, count))


NEGATIVES: Mapping[str, Callable[[int, Chance], Floats]] = {
    "AR(0.9)": ar(0.9),
    "AR(0.98)": ar(0.98),
    "ramp": ramp,
    "step": step,
    "bursts": bursts,
    "idle": idle,
    "inference": inference,
}


def aimless(sort: str, chance: Chance) -> Trace:
    """A series without a rhythm, as long as one of a training would be."""
    nominal = float(np.exp(chance.uniform(np.log(SHORTEST), np.log(LONGEST))))
    every = 0.1 if nominal < FAST else 1.0
    count = int(np.ceil(chance.uniform(FEWEST, MOST) * nominal / every))
    return Trace(sort, NEGATIVES[sort](count, chance), every, None)
