"""Finish-time fairness: how long a job took against having its share of the pool for itself.

The share is pool / N GPUs with N the mean number of jobs in the system during its life; its time there
follows the true curves with the truly best batch of every epoch, without any wait or restart.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.pollux_elastic import PINNED
from benchmarks.pollux_replay import NODES, PER_NODE
from benchmarks.pollux_traces import Submission
from grus.simulator.workload.pollux_applications import Application, dense, gain, rigid_batch

BATCHES_TRIED = 50


class Alone:
    """True time of each application on a whole number of GPUs, remembered."""

    def __init__(self, apps: Mapping[str, Application]) -> None:
        self._apps = apps
        self._known: dict[tuple[str, int, int | None], float] = {}

    def time(self, application: str, gpus: float, batch: int | None = None) -> float:
        """Seconds on so many GPUs, between whole numbers by interpolated speed; below one in proportion.

        More GPUs than are of use to a job are no use: it takes the best number up to them.
        """
        if gpus <= 1:
            return self._whole(application, 1, batch) / gpus
        low = int(gpus)
        high = min(low + 1, NODES * PER_NODE)
        slow, fast = (1 / self._best(application, size, batch) for size in (low, high))
        return 1 / (slow + (fast - slow) * (gpus - low))

    def _best(self, application: str, gpus: int, batch: int | None) -> float:
        return min(self._whole(application, size, batch) for size in range(1, gpus + 1))

    def _whole(self, application: str, gpus: int, batch: int | None) -> float:
        if application in PINNED and batch is None:
            gpus, batch = 1, PINNED[application]
        key = (application, gpus, batch)
        if key not in self._known:
            self._known[key] = self._train(self._apps[application], gpus, batch)
        return self._known[key]

    def _train(self, app: Application, gpus: int, batch: int | None) -> float:
        options = [rigid_batch(app, batch, gpus)] if batch else candidates(app, gpus)
        timed = [(option, iteration(app, gpus, *option)) for option in options]
        total = 0.0
        for epoch in range(app.epochs):
            rate = max(
                gain(*app.gradients(size, epoch), size / app.first_batch) / seconds
                for (local, accumulation), seconds in timed
                for size in [gpus * local * (accumulation + 1)]
            )
            total += (app.milestones[epoch + 1] - app.milestones[epoch]) / rate
        return total


def candidates(app: Application, gpus: int) -> list[tuple[int, int]]:
    """Batches between the smallest and the largest, as local batch and accumulation steps."""
    least = max(app.first_batch, app.smallest_local * gpus)
    if least > app.largest_batch:
        return [(app.smallest_local, 0)]
    found = set()
    for total in np.geomspace(least, app.largest_batch, BATCHES_TRIED):
        local, accumulation = rigid_batch(app, round(float(total)), gpus)
        if local >= app.smallest_local and gpus * local * (accumulation + 1) >= app.first_batch:
            found.add((local, accumulation))
    return sorted(found)


def iteration(app: Application, gpus: int, local: int, accumulation: int) -> float:
    step, sync = app.step_time(dense(gpus, PER_NODE), local)
    return step + accumulation * (step - sync)


def finish_time_fairness(
    submissions: Sequence[Submission], times: Mapping[str, float], alone: Alone, asked_batch: bool = False
) -> dict[str, float]:
    """Each job's time in the pool over its time alone on its share; 1 is fair, more is worse."""
    starts = np.array([job.time for job in submissions], dtype=float)
    ends = starts + np.array([times[job.name] for job in submissions])
    found = {}
    for job, start, end in zip(submissions, starts, ends, strict=True):
        together = np.minimum(ends, end) - np.maximum(starts, start)
        others = float(np.maximum(together, 0.0).sum()) / float(end - start)
        batch = job.batch if asked_batch else None
        found[job.name] = times[job.name] / alone.time(job.application, NODES * PER_NODE / others, batch)
    return found
