"""Adaptive global batch size: gradient noise scale, gain of a larger batch, and the choice within bounds.

A gradient of b samples is the true one plus noise whose variance falls with b. Its squared norm, measured at
two batch sizes in the same step, gives both parts (McCandlish et al. 2018, arXiv:1812.06162, appendix A.1):

    |G_b|² = |G|² + trace / b          on average; `trace` is that of the covariance of one sample's gradient
    φ      = trace / |G|²              the noise scale, in samples

A step with batch B instead of the base batch B0 makes `gain` times the progress when the learning rate is
multiplied by the gain (AdaScale, Johnson et al. 2020, arXiv:2007.05105); the progress per sample is
`efficiency` (Pollux, Qiao et al. 2021). The best batch maximizes samples per second times efficiency.

Everything but `BatchSizer` is a pure function: no torch, no clock, no randomness. One worker chooses and
sends the choice to the others, because measured times differ between workers, and so would their choices.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

SMOOTHING = 0.98
"""Weight of the past in the smoothed gradient norms, at each observation."""
TIME_SMOOTHING = 0.7
"""Weight of the past in the smoothed seconds of a step."""
SPIKE = 10.0
"""A value this many times above its smoothed past is an accident, unless the ones after it are like it."""
LARGEST = 1e100
"""Squared norms above are no measurements."""
SECONDS = (1e-9, 1e9)
"""A step lasts no less and no longer."""
WARM = 10
"""Observations before the noise is believed."""
GUESS = 0.8
"""Fixed part of a step's time while only one batch size was timed."""
WORTH = 1.05
"""Smallest expected speedup factor for which the batch size is changed."""
LARGEST_CHANGE = 2
MOST_NOISE = 1e9
"""Noise scale, in samples, used where the true gradient cannot be distinguished from zero."""


@dataclass(frozen=True, slots=True)
class NoiseEstimate:
    """Smoothed |G|² and trace of the covariance; both are sums that `weight` makes means of.

    One observation's estimates are unbiased but scatter, below zero too: only their means are read, and the
    mean of their ratio is not the ratio of their means.
    """

    square: float = 0.0
    trace: float = 0.0
    weight: float = 0.0
    """Sum of the weights given so far: dividing by it takes the bias of the start out."""
    level: float = 0.0
    """Squared norm of the small gradient, smoothed: what a spike is held against."""
    seen: int = 0

    @property
    def warm(self) -> bool:
        return self.seen >= WARM

    @property
    def scale(self) -> float:
        """φ in samples: 0 (nothing to average out) to `MOST_NOISE`; 0 until enough was seen."""
        if not self.warm or self.trace <= 0:
            return 0.0
        return min(MOST_NOISE, self.trace / self.square) if self.square > 0 else MOST_NOISE


def observed(noise: NoiseEstimate, small_sq: float, small_n: int, big_sq: float, big_n: int) -> NoiseEstimate:
    """The noise after one more pair: squared norms of a gradient of `small_n` and of one of `big_n` samples.

    What cannot be (infinite gradients of a skipped step, equal batch sizes) changes nothing.
    """
    if not (0 < small_sq < LARGEST and 0 <= big_sq < LARGEST and 0 < small_n < big_n):
        return noise
    new = 1 - SMOOTHING
    if noise.warm and max(small_sq, big_sq) > SPIKE * noise.level:
        # A lasting change raises the level with each observation until it is accepted.
        return replace(noise, level=(SMOOTHING + new * SPIKE) * noise.level)
    square = (big_n * big_sq - small_n * small_sq) / (big_n - small_n)
    trace = (small_sq - big_sq) / (1 / small_n - 1 / big_n)
    return NoiseEstimate(
        square=SMOOTHING * noise.square + new * square,
        trace=SMOOTHING * noise.trace + new * trace,
        weight=SMOOTHING * noise.weight + new,
        level=SMOOTHING * noise.level + new * small_sq if noise.seen else small_sq,
        seen=noise.seen + 1,
    )


def gain(scale: float, batch: float, base: float) -> float:
    """Progress of a step with `batch` against one with `base`: 1 without noise, batch / base at its most."""
    return (scale / base + 1) / (scale / batch + 1)


def efficiency(scale: float, batch: float, base: float) -> float:
    """Progress of a sample in a batch of `batch` against one of `base`: falls from 1 to base / batch."""
    return (scale + base) / (scale + batch)


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of a step: a fixed part (exchange, optimizer) and one for each micro-batch of a worker."""

    fixed: float
    each: float

    def seconds(self, micros_per_rank: int) -> float:
        return self.fixed + self.each * micros_per_rank


def fitted(pairs: Iterable[tuple[int, float]], each: float | None = None) -> StepTime | None:
    """Return the line through measured (micro-batches per worker, seconds), neither part negative.

    None without any measurement. One count alone leaves the line open. Then `each` is the time of a
    micro-batch, if that is known (it hardly depends on the number of workers). If not, most of the time is
    assumed to be fixed, so that a larger batch is tried where the noise allows it, and a second count
    decides.
    """
    known = [(count, seconds) for count, seconds in pairs if count > 0 and _lasting(seconds)]
    if not known:
        return None
    if len({count for count, _ in known}) == 1:
        count, seconds = known[0][0], sum(seconds for _, seconds in known) / len(known)
        each = min(each, seconds / count) if each is not None else (1 - GUESS) * seconds / count
        return StepTime(seconds - each * count, each)
    # Relative errors: a long step would otherwise outweigh the short ones.
    weights = [1 / (seconds * seconds) for _, seconds in known]
    total = sum(weights)
    mean_count = sum(w * count for w, (count, _) in zip(weights, known, strict=True)) / total
    mean_time = sum(w * seconds for w, (_, seconds) in zip(weights, known, strict=True)) / total
    spread = sum(w * (count - mean_count) ** 2 for w, (count, _) in zip(weights, known, strict=True))
    joint = sum(
        w * (count - mean_count) * (seconds - mean_time)
        for w, (count, seconds) in zip(weights, known, strict=True)
    )
    slope = max(0.0, joint / spread)
    fixed = mean_time - slope * mean_count
    return StepTime(fixed, slope) if fixed >= 0 else StepTime(0.0, mean_time / mean_count)


def _lasting(seconds: float) -> bool:
    return SECONDS[0] <= seconds <= SECONDS[1]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The smallest and the largest global batch, whole micro-batches both."""

    low: int
    high: int

    def nearest(self, batch: int) -> int:
        return min(max(batch, self.low), self.high)


def within(low: int, high: int, micro: int) -> Bounds:
    """The bounds that a user gave, moved inwards to whole micro-batches."""
    if micro < 1 or not 1 <= low <= high:
        raise ValueError(
            f"batch bounds need 1 <= low <= high and a micro-batch of at least 1, not {low}, {high}, {micro}"
        )
    least, most = -(-low // micro) * micro, high // micro * micro
    if least > most:
        raise ValueError(f"no multiple of the micro-batch {micro} lies between {low} and {high}")
    return Bounds(least, most)


def progress(noise: NoiseEstimate, times: StepTime, batch: int, base: int, micro: int, world: int) -> float:
    """Progress a second with that batch, in samples of the base batch."""
    micros_per_rank = -(-batch // (micro * world))
    return batch / times.seconds(micros_per_rank) * efficiency(noise.scale, batch, base)


def choose(
    noise: NoiseEstimate, times: StepTime | None, bounds: Bounds, micro: int, world: int, present: int
) -> int:
    """Return the next batch size: the best within reach if
    its expected gain over the present one is large enough.
    """
    present = bounds.nearest(present)
    if times is None or not noise.warm or times.seconds(1) <= 0:
        return present
    least = max(bounds.low, -(-present // (LARGEST_CHANGE * micro)) * micro)
    most = min(bounds.high, present * LARGEST_CHANGE)

    def worth(batch: int) -> float:
        return progress(noise, times, batch, bounds.low, micro, world)

    # As long as no worker gets one micro-batch more a larger batch is free, so only those that give each
    # worker the same number of them, and the largest of all, can be best.
    whole = micro * world
    tried = [*range(-(-least // whole) * whole, most + 1, whole), most]
    best = max(tried, key=worth)
    return best if worth(best) > WORTH * worth(present) else present


class BatchSizer:
    """Adaptive global batch of one run, and the measurements behind it; lives as long as the run.

    `power` is the power of the gain that scales the learning rate: 1 for SGD, 0.5 for optimizers that divide
    by the gradient's size (Adam), whose steps do not shrink with its noise.
    """

    def __init__(self, low: int, high: int, micro: int, *, power: float = 1.0) -> None:
        self.bounds = within(low, high, micro)
        self.micro = micro
        self.power = power
        self.batch = self.bounds.low
        self.noise = NoiseEstimate()
        self._world = 0
        self._seconds: dict[int, float] = {}
        """Smoothed seconds of a step with the present number of workers, by micro-batches per worker."""
        self._before: StepTime | None = None
        """Step times measured with another number of workers; used until the present number was measured."""

    def observe(self, small_sq: float, small_n: int, big_sq: float, big_n: int) -> None:
        """Take in squared gradient norms of the same step at two batch sizes."""
        self.noise = observed(self.noise, small_sq, small_n, big_sq, big_n)

    def timed(self, micros_per_rank: int, seconds: float) -> None:
        """Take in the seconds of a step in which each worker had that many micro-batches."""
        if micros_per_rank < 1 or not _lasting(seconds):
            return
        before = self._seconds.get(micros_per_rank)
        if before is not None:
            seconds = TIME_SMOOTHING * before + (1 - TIME_SMOOTHING) * min(seconds, SPIKE * before)
        self._seconds[micros_per_rank] = seconds

    def choose(self, world: int) -> int:
        """The batch of the next steps with that many workers."""
        if world != self._world:
            self._before = self.step_time() or self._before
            self._seconds.clear()
            self._world = world
        self.batch = choose(self.noise, self.step_time(), self.bounds, self.micro, world, self.batch)
        return self.batch

    def step_time(self) -> StepTime | None:
        before = self._before
        return fitted(self._seconds.items(), before.each if before is not None else None) or before

    def lr_factor(self, batch: int) -> float:
        """Return the factor on the base learning rate for a step with that many samples."""
        if batch <= self.bounds.low:
            return 1.0
        return math.pow(gain(self.noise.scale, batch, self.bounds.low), self.power)

    def state(self) -> dict[str, float]:
        """Return the state that `load` needs to continue, in plain numbers."""
        noise = self.noise
        kept = {
            "batch": self.batch,
            "square": noise.square,
            "trace": noise.trace,
            "level": noise.level,
            "weight": noise.weight,
            "seen": noise.seen,
        }
        if (times := self.step_time()) is not None:
            kept |= {"fixed_seconds": times.fixed, "each_seconds": times.each}
        return kept

    def load(self, state: Mapping[str, float]) -> None:
        """Continue from a state, also from that of a run with other bounds."""
        square, trace, weight, level = (
            float(state.get(name, 0.0)) for name in ("square", "trace", "weight", "level")
        )
        noise = NoiseEstimate(square, trace, weight, level, int(state.get("seen", 0)))
        self.noise = noise if noise.weight > 0 else NoiseEstimate()
        self.batch = self.bounds.nearest(int(state.get("batch", 0)) // self.micro * self.micro)
        self._seconds.clear()
        self._before = None
        if "fixed_seconds" in state:
            self._before = StepTime(float(state["fixed_seconds"]), float(state["each_seconds"]))
