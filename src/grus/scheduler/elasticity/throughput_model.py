"""Speed-up model: predict the speed of a job at another size, fitted from measurements of it and of similar
jobs.

A step is computation, a line in the local batch, joined with gradient exchange by a power mean: at exponent 1
they add up, at large ones they overlap. Exchange is one line in the number of GPUs inside a node and another
between nodes: seven parameters, found by least squares in closed form, so that the same samples give the same
bits. The residuals at measured sizes are kept and applied to neighboring sizes, less and less with distance;
the same distances give the possible error of a prediction. Everything here is a function of values.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

OVERLAPS = np.array([1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0])
OVERLAP_COST = 0.002  # Prefers little overlap where the samples leave it open.
GROWTH_COST = 0.1  # Prefers exchange that does not grow with the GPUs where the samples leave it open.
BETWEEN_NODES = 1.1  # Exchange between nodes, before any was seen, against that inside a node.
TINY = 1e-9

# Residuals: how large they are (in log time), how far they carry (in doublings), and what is plain noise.
RESIDUAL = 0.2
REACH_GPUS = 0.5
REACH_BATCH = 2.0
NOISE = 0.01
OTHER_LINKS = 0.5  # Weight of samples from one node for several nodes, and the reverse.


@dataclass(frozen=True, slots=True)
class StepSample:
    """Measurement: seconds of a step with `local` examples a GPU, and its part that is exchange."""

    nodes: int
    gpus: int
    local: float
    step: float
    sync: float


@dataclass(frozen=True, slots=True)
class Links:
    """Seconds of exchange: `base` for two GPUs and `growth` for each more."""

    base: float
    growth: float


class StepModel:
    """Step times of one job at any size; made by `fit`."""

    def __init__(
        self,
        compute: tuple[float, float],
        inside: Links,
        between: Links,
        overlap: float,
        seen: Sequence[StepSample],
    ) -> None:
        self.compute, self.inside, self.between, self.overlap = compute, inside, between, overlap
        self.seen = tuple(seen)
        self._points = _coordinates(*(np.array(column, dtype=float) for column in _columns(seen)[:3]))
        step, sync = (np.array(column, dtype=float) for column in _columns(seen)[3:])
        formula = self._formula(*(np.array(column, dtype=float) for column in _columns(seen)[:3]))
        covariance = _likeness(self._points, self._points) + NOISE**2 * np.eye(len(seen))
        self._inverse = np.linalg.inv(covariance)
        missed = np.stack([np.log((step - sync) / formula[0]), np.log(step / formula[1])], axis=1)
        self._carried = self._inverse @ missed

    def times(self, nodes: ArrayLike, gpus: ArrayLike, local: ArrayLike) -> tuple[Floats, Floats]:
        """Return the seconds of computation and of a whole step, for each of the configurations."""
        node, gpu, batch = np.broadcast_arrays(
            *(np.asarray(part, dtype=float) for part in (nodes, gpus, local))
        )
        compute, step = self._formula(node, gpu, batch)
        flat = _coordinates(node.ravel(), gpu.ravel(), batch.ravel())
        correction = np.exp(_likeness(flat, self._points) @ self._carried).reshape(*node.shape, 2)
        compute = compute * correction[..., 0]
        return compute, np.maximum(step * correction[..., 1], compute)

    def uncertainty(self, nodes: ArrayLike, gpus: ArrayLike, local: ArrayLike) -> Floats:
        """Return one standard deviation of the log of a step's time: 0.1 is about ten percent either way."""
        node, gpu, batch = np.broadcast_arrays(
            *(np.asarray(part, dtype=float) for part in (nodes, gpus, local))
        )
        likeness = _likeness(_coordinates(node.ravel(), gpu.ravel(), batch.ravel()), self._points)
        known = np.einsum("ij,jk,ik->i", likeness, self._inverse, likeness)
        deviation: Floats = np.sqrt(np.maximum(RESIDUAL**2 - known, 0.0)).reshape(node.shape)
        return deviation

    def _formula(self, nodes: Floats, gpus: Floats, local: Floats) -> tuple[Floats, Floats]:
        compute = self.compute[0] + self.compute[1] * local
        more = np.maximum(gpus - 2, 0)
        between = self.between.base + self.between.growth * more
        inside = self.inside.base + self.inside.growth * more
        exchange = np.where(nodes > 1, between, np.where(gpus > 1, inside, 0.0))
        return compute, (compute**self.overlap + exchange**self.overlap) ** (1 / self.overlap)


def fit(samples: Iterable[StepSample]) -> StepModel:
    """Return the model that fits the samples best; at least one is needed, and order does not matter."""
    seen = sorted(set(samples), key=lambda s: (s.nodes, s.gpus, s.local, s.step, s.sync))
    if not seen:
        raise ValueError("a model needs at least one sample")
    nodes, gpus, local, step, sync = (np.array(column, dtype=float) for column in _columns(seen))
    compute = _fit_compute(local, step - sync)
    best: tuple[float, float, Links, Links] | None = None
    for overlap in OVERLAPS:
        links = _fit_links(overlap, nodes, gpus, step, sync)
        error = _error(overlap, compute, *links, nodes, gpus, local, step) + OVERLAP_COST * (overlap - 1)
        if best is None or error < best[0] - TINY:
            best = (error, float(overlap), *links)
    assert best is not None
    return StepModel(compute, best[2], best[3], best[1], seen)


def _fit_compute(local: Floats, seconds: Floats) -> tuple[float, float]:
    """Fit a line through the times, in relative errors; with one batch size half of it is taken as
    constant.
    """
    if np.ptp(local) == 0:
        mean = float(np.mean(seconds))
        return mean / 2, mean / 2 / float(local[0])
    return _line(local, seconds, 1 / seconds, 0.0)


def _fit_links(
    overlap: float, nodes: Floats, gpus: Floats, step: Floats, sync: Floats
) -> tuple[Links, Links]:
    exchange = np.maximum(step**overlap - (step - sync) ** overlap, 0.0) ** (1 / overlap)
    weight = np.maximum(exchange / step, TINY) ** overlap / np.maximum(exchange, TINY)
    inside = (nodes == 1) & (gpus > 1)
    between = nodes > 1
    within = _fit_link(inside, gpus, exchange, weight)
    across = _fit_link(between, gpus, exchange, weight)
    if within is None and across is None:
        return Links(0.0, 0.0), Links(0.0, 0.0)
    if within is None and across is not None:
        within = Links(across.base / BETWEEN_NODES, 0.0)
    assert within is not None
    if across is None:
        across = Links(within.base * BETWEEN_NODES, within.growth * BETWEEN_NODES)
    return within, across


def _fit_link(chosen: NDArray[np.bool_], gpus: Floats, exchange: Floats, weight: Floats) -> Links | None:
    if not chosen.any():
        return None
    return Links(*_line(np.maximum(gpus[chosen] - 2, 0.0), exchange[chosen], weight[chosen], GROWTH_COST))


def _line(x: Floats, y: Floats, weight: Floats, growth_cost: float) -> tuple[float, float]:
    """Return the constant and slope, neither negative, that minimize the weighted squares plus a cost of the
    slope.
    """
    w = weight**2
    cost = growth_cost**2 * float(w.mean()) * len(x)
    sw, sx, sy = float(w.sum()), float((w * x).sum()), float((w * y).sum())
    sxx, sxy = float((w * x * x).sum()) + cost, float((w * x * y).sum())
    determinant = sw * sxx - sx * sx
    if determinant > TINY * sw * sxx:
        constant, slope = (sxx * sy - sx * sxy) / determinant, (sw * sxy - sx * sy) / determinant
        if constant >= 0 and slope >= 0:
            return constant, slope
        if constant < 0 < sxx:
            return 0.0, max(0.0, sxy / sxx)
    return sy / sw, 0.0


def _error(
    overlap: float,
    compute: tuple[float, float],
    inside: Links,
    between: Links,
    nodes: Floats,
    gpus: Floats,
    local: Floats,
    step: Floats,
) -> float:
    """Return the root mean square of the log of predicted over measured steps."""
    more = np.maximum(gpus - 2, 0)
    exchange = np.where(
        nodes > 1,
        between.base + between.growth * more,
        np.where(gpus > 1, inside.base + inside.growth * more, 0.0),
    )
    predicted = ((compute[0] + compute[1] * local) ** overlap + exchange**overlap) ** (1 / overlap)
    return math.sqrt(float(np.mean(np.log(predicted / step) ** 2)))


def _columns(samples: Sequence[StepSample]) -> list[tuple[float, ...]]:
    rows = [(s.nodes, s.gpus, s.local, s.step, s.sync) for s in samples]
    return list(zip(*rows, strict=True))


def _coordinates(nodes: Floats, gpus: Floats, local: Floats) -> Floats:
    """Return the coordinates of a configuration: doublings of GPUs and of the batch, in reaches, and the
    links it uses.
    """
    links = np.where(nodes > 1, 2.0, np.where(gpus > 1, 1.0, 0.0))
    return np.stack([np.log2(gpus) / REACH_GPUS, np.log2(local) / REACH_BATCH, links], axis=1)


def _likeness(some: Floats, others: Floats) -> Floats:
    """Return the expected similarity of the residuals of two configurations (a covariance)."""
    distance = np.zeros((len(some), len(others)))
    for axis in (0, 1):
        distance += (some[:, axis, None] - others[None, :, axis]) ** 2
    same = np.where(some[:, 2, None] == others[None, :, 2], 1.0, OTHER_LINKS)
    return RESIDUAL**2 * same * np.exp(-0.5 * distance)


def dense_shapes(sizes: Iterable[int], per_node: int) -> list[tuple[int, int]]:
    """Return the sizes on as few nodes as possible."""
    return [(-(-size // per_node), size) for size in sizes]


class Profile:
    """Samples of a job, or of all jobs with one fingerprint, thinned so that a fit stays cheap.

    One sample a shape and half doubling of the local batch is kept; `version` changes when one was added.
    """

    def __init__(self, samples: Iterable[StepSample] = ()) -> None:
        self._kept: dict[tuple[int, int, int], StepSample] = {}
        for sample in samples:
            self.add(sample)

    def add(self, sample: StepSample) -> bool:
        """Remember a sample; False if one like it is known already."""
        key = (sample.nodes, sample.gpus, round(2 * math.log2(sample.local)))
        if key in self._kept:
            return False
        self._kept[key] = sample
        return True

    def merge(self, other: "Profile") -> None:
        """Add the samples that the other has and this one does not."""
        for key, sample in other._kept.items():
            self._kept.setdefault(key, sample)

    @property
    def version(self) -> int:
        return len(self._kept)

    @property
    def samples(self) -> tuple[StepSample, ...]:
        return tuple(self._kept.values())

    @property
    def most_seen(self) -> int:
        """Return the GPUs of the largest size run so far, 0 before any."""
        return max((sample.gpus for sample in self._kept.values()), default=0)


def pooled(own: Profile, history: Mapping[str, Profile], fingerprint: str) -> Profile:
    """Return a job's samples together with those of the finished jobs of its fingerprint; its own
    measurements count first.
    """
    together = Profile(own.samples)
    if fingerprint in history:
        together.merge(history[fingerprint])
    return together
