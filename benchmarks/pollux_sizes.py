"""How well a speed-up is predicted at a size never run, on step times of the Pollux applications.

Two designs, both on dense placements and at every local batch tried. *One left out*: the model sees all
sizes but one and is asked for that one. *Doubling*: it sees what a job saw on its way up, all sizes to n, and
is asked for 2n; from 4 to 8 GPUs that is the first time that it crosses nodes. ncf is left out, as it
runs on one GPU only.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from benchmarks.pollux_replay import PER_NODE
from grus.scheduler.elasticity.throughput_model import StepSample, fit
from grus.simulator.workload.pollux_applications import Application, dense

SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
BATCHES = 4  # About so many local batches a size.
ONE_GPU_ONLY = ("ncf",)


def samples(app: Application, gpus: int) -> list[StepSample]:
    """True steps at a size, over the local batches that it allows."""
    doublings = (round(app.smallest_local * 2 ** (k / 2)) for k in range(24))
    allowed = sorted({local for local in doublings if local <= app.largest_local})
    spread = allowed[:: max(1, len(allowed) // BATCHES)]
    tried = [local for local in spread if local * gpus <= app.largest_batch]
    nodes = -(-gpus // PER_NODE)
    return [StepSample(nodes, gpus, local, *app.step_time(dense(gpus, PER_NODE), local)) for local in tried]


def errors(app: Application, asked: int, seen: Iterable[int]) -> list[float]:
    """Relative errors of step times at a size when only others were seen."""
    model = fit(sample for size in seen for sample in samples(app, size))
    return [abs(float(model.times(s.nodes, s.gpus, s.local)[1]) / s.step - 1) for s in samples(app, asked)]


def one_left_out(apps: Mapping[str, Application], sizes: Sequence[int] = SIZES) -> float:
    """Median relative error at each size when all others were seen."""
    return _median(
        errors(app, asked, [size for size in sizes if size != asked])
        for app in _elastic(apps)
        for asked in sizes
    )


def doubling(apps: Mapping[str, Application], sizes: Sequence[int] = SIZES) -> float:
    """Median relative error at 2n when sizes up to n were seen."""
    return _median(
        errors(app, asked, [size for size in sizes if 2 * size <= asked])
        for app in _elastic(apps)
        for asked in sizes
        if asked % 2 == 0 and asked // 2 in sizes
    )


def _elastic(apps: Mapping[str, Application]) -> list[Application]:
    return [app for app in apps.values() if app.name not in ONE_GPU_ONLY]


def _median(found: Iterable[Sequence[float]]) -> float:
    return float(np.median([error for part in found for error in part]))
