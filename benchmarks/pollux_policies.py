"""The two deterministic policies that were published with Pollux, by which the replay is checked.

Tiresias knows the tuned request and the time that a job was served. Optimus is an oracle: it knows true step
times and the iterations that remain.
"""

import math
from collections.abc import Mapping, Sequence

from benchmarks.pollux_replay import NODES, PER_NODE, TICK, Allocation, Running
from grus.simulator.workload.pollux_applications import SLACK, Application, clipped, dense

THRESHOLD = 16 * 3600  # GPU-seconds after which Tiresias puts a job into its second queue


def take(free: dict[int, int], gpus: int) -> Allocation:
    """GPUs from the emptiest nodes, a node at a time; `free` is reduced by them."""
    taken: list[int] = []
    while gpus > 0:
        node = max(free, key=lambda number: (free[number], -number))
        count = min(free[node], gpus)
        if count == 0:
            raise ValueError(f"{gpus} GPUs are not there")
        taken += [node] * count
        free[node] -= count
        gpus -= count
    return tuple(taken)


def unused(kept: Mapping[str, Allocation]) -> dict[int, int]:
    """Free GPUs of each node beside what is kept."""
    free = dict.fromkeys(range(NODES), PER_NODE)
    for allocation in kept.values():
        for node in allocation:
            free[node] -= 1
    return free


class Tiresias:
    """Two queues by attained service; in order, whatever fits runs."""

    def __init__(self) -> None:
        self._served: dict[str, float] = {}
        self._queues: tuple[list[str], list[str]] = ([], [])

    def decide(
        self, _now: float, active: Sequence[Running], before: Mapping[str, Allocation]
    ) -> dict[str, Allocation]:
        jobs = {job.name: job for job in active}
        self._account(jobs, before)
        order = [name for queue in self._queues for name in queue]
        running, left = [], NODES * PER_NODE
        for name in order:
            if jobs[name].submission.gpus <= left:
                running.append(name)
                left -= jobs[name].submission.gpus
        after = {name: before[name] for name in running if before.get(name)}
        free = unused(after)
        for name in running:
            if name not in after:
                after[name] = take(free, jobs[name].submission.gpus)
        return after

    def _account(self, jobs: Mapping[str, Running], before: Mapping[str, Allocation]) -> None:
        first, second = ([name for name in queue if name in jobs] for queue in self._queues)
        for name in before:
            self._served[name] = self._served.get(name, 0) + TICK
        known = {*first, *second}
        first += [name for name in jobs if name not in known]
        spent = [name for name in first if self._service(jobs[name]) >= THRESHOLD]
        self._queues = ([name for name in first if name not in spent], second + spent)

    def _service(self, job: Running) -> float:
        return self._served.get(job.name, 0) * job.submission.gpus


class Optimus:
    """GPUs one by one to the job whose remaining time they shorten most."""

    def decide(
        self, _now: float, active: Sequence[Running], before: Mapping[str, Allocation]
    ) -> dict[str, Allocation]:
        counts = self._counts(active)
        after = {
            job.name: before[job.name] for job in active if len(before.get(job.name, ())) == counts[job.name]
        }
        after = {name: where for name, where in after.items() if where}
        free = unused(after)
        for name in sorted((name for name in counts if name not in after), key=lambda name: counts[name]):
            if counts[name]:
                after[name] = take(free, counts[name])
        return after

    def _counts(self, active: Sequence[Running]) -> dict[str, int]:
        left = NODES * PER_NODE
        counts: dict[str, int] = {}
        for job in active:
            counts[job.name] = 1 if left else 0
            left -= counts[job.name]
        gains = {job.name: self._gain(job, counts[job.name]) for job in active if counts[job.name]}
        jobs = {job.name: job for job in active}
        while left and gains:
            name = max(gains, key=lambda name: gains[name])
            if gains[name] <= 0:
                break
            counts[name] += 1
            left -= 1
            gains[name] = self._gain(jobs[name], counts[name])
        return counts

    def _gain(self, job: Running, gpus: int) -> float:
        app, batch = job.app, job.submission.batch
        most = 1 if app.name == "ncf" else batch // app.smallest_local
        if gpus >= most:
            return 0.0
        remaining = self._remaining(job)
        return (iteration_time(app, batch, gpus) - iteration_time(app, batch, gpus + 1)) * remaining

    def _remaining(self, job: Running) -> float:
        last = job.app.epochs - 1
        if job.epoch >= last:
            return 1
        batch = job.submission.batch
        return job.app.iterations(batch, last) - job.app.iterations(batch, job.epoch)


def iteration_time(app: Application, batch: int, gpus: int) -> float:
    """True seconds of an iteration at a total batch on densely packed GPUs."""
    local = math.ceil(batch / gpus - SLACK)
    accumulation = math.ceil(local / app.largest_local - SLACK) - 1
    if gpus == 1:
        accumulation = max(1, accumulation)
    micro, _ = clipped(app, math.ceil(local / (accumulation + 1) - SLACK), accumulation, gpus)
    step, sync = app.step_time(dense(gpus, PER_NODE), micro)
    return step + accumulation * (step - sync)
