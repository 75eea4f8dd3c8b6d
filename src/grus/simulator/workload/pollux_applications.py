"""Measured applications: step times and gradient statistics, as published with Pollux.

Only the player of a trace may ask these curves for the speed of a job; a policy that reads them has knowledge
of the future and must say so. Reads rows, not files.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import LinearNDInterpolator

Placement = tuple[int, ...]
Rows = Sequence[Mapping[str, str]]

# Epochs of each application, and local batch sizes that the traces hold but the workloads do not use.
EPOCHS = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
LARGEST_LOCAL = {"yolov3": 8}
SLACK = 1e-8
MOST_NODES = 16


@dataclass(frozen=True, slots=True)
class Epochs:
    """One training run at one batch size, a value an epoch."""

    progress: tuple[float, ...]
    iteration: tuple[float, ...]
    grad_sqr: tuple[float, ...]
    grad_var: tuple[float, ...]


@dataclass(slots=True)
class Application:
    """One application's true curves."""

    name: str
    runs: dict[int, Epochs]  # by batch size, ascending
    measured: dict[Placement, tuple[NDArray[np.float64], NDArray[np.float64]]]  # local batches, (step, sync)
    scattered: LinearNDInterpolator
    epochs: int
    smallest_local: int
    largest_local: int
    milestones: tuple[float, ...] = ()
    _batches: list[int] = field(default_factory=list)
    _times: dict[tuple[Placement, int], tuple[float, float]] = field(default_factory=dict)
    _gradients: dict[tuple[int, int], tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._batches = list(self.runs)
        reached = [min(run.progress[epoch] for run in self.runs.values()) for epoch in range(self.epochs)]
        self.milestones = (0.0, *reached)

    @property
    def first_batch(self) -> int:
        """The batch size in whose iterations progress is counted."""
        return self._batches[0]

    @property
    def largest_batch(self) -> int:
        return self._batches[-1]

    @property
    def work(self) -> float:
        """Progress at which a job is done."""
        return self.milestones[-1]

    def step_time(self, placement: Placement, local: int) -> tuple[float, float]:
        """Seconds of one iteration on these GPUs per node, and the part of it that is gradient exchange."""
        key = (placement, local)
        if key not in self._times:
            self._times[key] = self._look_up(canonical(placement), local)
        return self._times[key]

    def _look_up(self, placement: Placement, local: int) -> tuple[float, float]:
        if placement in self.measured:
            sizes, times = self.measured[placement]
            if not sizes[0] <= local <= sizes[-1]:
                raise ValueError(f"{self.name}: no time for {placement} at local batch {local}")
            high = int(np.clip(np.searchsorted(sizes, local), 1, len(sizes) - 1))
            slope = (times[high] - times[high - 1]) / (sizes[high] - sizes[high - 1])
            step, sync = slope * (local - sizes[high - 1]) + times[high - 1]
        else:
            # One point a call: evaluating many at once changes last digits, and with them published times.
            step, sync = self.scattered([min(len(placement), MOST_NODES), sum(placement), local])[0]
        if math.isnan(step + sync):
            raise ValueError(f"{self.name}: no time for {placement} at local batch {local}")
        return float(step), float(sync)

    def gradients(self, batch: int, epoch: int) -> tuple[float, float]:
        """Squared norm and variance of the gradient during an epoch (0-based) at a total batch size."""
        key = (batch, epoch)
        if key not in self._gradients:
            low, high = self._neighbours(batch)
            self._gradients[key] = (
                between(batch, low, high, self.runs[low].grad_sqr[epoch], self.runs[high].grad_sqr[epoch]),
                between(batch, low, high, self.runs[low].grad_var[epoch], self.runs[high].grad_var[epoch]),
            )
        return self._gradients[key]

    def iterations(self, batch: int, epoch: int) -> float:
        """Iterations after an epoch (0-based) at a total batch size."""
        low, high = self._neighbours(batch)
        return between(batch, low, high, self.runs[low].iteration[epoch], self.runs[high].iteration[epoch])

    def _neighbours(self, batch: int) -> tuple[int, int]:
        if not self.first_batch <= batch <= self.largest_batch:
            raise ValueError(f"{self.name}: batch {batch} was never trained with")
        high = bisect_left(self._batches, batch)
        return self._batches[high if self._batches[high] == batch else high - 1], self._batches[high]

    def gain(self, batch: int, epoch: int) -> float:
        """Progress of one iteration at this batch, in iterations at the first batch."""
        return gain(*self.gradients(batch, epoch), batch / self.first_batch)

    def rate(self, placement: Placement, local: int, accumulation: int, epoch: int) -> float:
        """Progress per second."""
        step, sync = self.step_time(placement, local)
        batch = sum(placement) * local * (accumulation + 1)
        return self.gain(batch, epoch) / (step + accumulation * (step - sync))


def gain(grad_sqr: float, grad_var: float, scale: float) -> float:
    """1 at scale 1 and never above scale: what a batch that is `scale` times as large buys."""
    return (grad_var + grad_sqr) / (grad_var / scale + grad_sqr)


def between(at: int, low: int, high: int, at_low: float, at_high: float) -> float:
    if low == high:
        return at_low
    return ((at - low) * at_high + (high - at) * at_low) / (high - low)


def canonical(placement: Placement) -> Placement:
    """The lexicographically smallest rotation, by which the traces name placements."""
    full = tuple(filter(None, placement))
    return min(full[i:] + full[:i] for i in range(len(full)))


def dense(gpus: int, per_node: int = 4) -> Placement:
    """Return the placement on as few nodes as possible."""
    whole, rest = divmod(gpus, per_node)
    return (per_node,) * whole + ((rest,) if rest else ())


def rigid_batch(app: Application, batch: int, gpus: int) -> tuple[int, int]:
    """Local batch and accumulation steps that make up a total batch on so many GPUs."""
    local = math.ceil(batch / gpus - SLACK)
    accumulation = math.ceil(local / app.largest_local - SLACK) - 1
    if gpus == 1 and batch > app.first_batch:
        accumulation = max(1, accumulation)
    return clipped(app, math.ceil(local / (accumulation + 1) - SLACK), accumulation, gpus)


def clipped(app: Application, local: int, accumulation: int, gpus: int) -> tuple[int, int]:
    """The same with the total at most the largest batch of the traces."""
    return min(local, int(app.largest_batch / (gpus * (accumulation + 1)))), accumulation


def make_application(name: str, placements: Rows, scalability: Rows, runs: Mapping[int, Rows]) -> Application:
    """Build an application from the rows of its files; `runs` are those of `validation-B.csv`, by batch size
    B.
    """
    locals_seen = [int(row["local_bsz"]) for row in placements]
    return Application(
        name=name,
        runs={batch: _epochs(runs[batch]) for batch in sorted(runs)},
        measured=_by_placement(placements),
        scattered=_everywhere(placements, scalability),
        epochs=EPOCHS[name],
        smallest_local=min(locals_seen),
        largest_local=LARGEST_LOCAL.get(name, max(locals_seen)),
    )


def _epochs(rows: Rows) -> Epochs:
    columns = ("progress", "iteration", "grad_sqr", "grad_var")
    return Epochs(*(tuple(float(row[column]) for row in rows) for column in columns))


def _by_placement(
    rows: Rows,
) -> dict[Placement, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    found: dict[Placement, list[tuple[float, float, float]]] = defaultdict(list)
    for row in rows:
        point = (float(row["local_bsz"]), float(row["step_time"]), float(row["sync_time"]))
        found[tuple(map(int, row["placement"]))].append(point)
    tables = {placement: np.array(sorted(points)) for placement, points in found.items()}
    return {placement: (table[:, 0], table[:, 1:]) for placement, table in tables.items()}


def _everywhere(placed: Rows, scaled: Rows) -> LinearNDInterpolator:
    """Step and sync time over (nodes, GPUs, local batch): placements averaged, then the large runs."""
    groups: dict[tuple[int, int, int], list[tuple[float, float]]] = defaultdict(list)
    for row in placed:
        digits = tuple(map(int, row["placement"]))
        times = (float(row["step_time"]), float(row["sync_time"]))
        groups[len(digits), sum(digits), int(row["local_bsz"])].append(times)
    points: list[tuple[int, int, int]] = sorted(groups)
    values = [tuple(math.fsum(part) / len(part) for part in zip(*groups[key], strict=True)) for key in points]
    for row in scaled:
        points.append((int(row["num_nodes"]), int(row["num_replicas"]), int(row["local_bsz"])))
        values.append((float(row["step_time"]), float(row["sync_time"])))
    return LinearNDInterpolator(np.array(points, dtype=float), np.array(values))
