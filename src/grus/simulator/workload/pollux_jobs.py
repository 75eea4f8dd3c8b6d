"""Jobs of the workloads that were published with Pollux, in the simulator's form.

    name,time,application,num_replicas,batch_size

A line contains a request. The job's duration, and its speed on more or fewer GPUs, follow from the
measurements of its application. The batch stays the requested one, GPUs are packed densely.
"""

from collections.abc import Callable
from dataclasses import dataclass

from grus.model.resources import Range
from grus.simulator.workload.pollux_applications import Application, dense, rigid_batch

PER_NODE = 4
"""GPUs of a node where the step times were measured."""
MOST_GPUS = 64

Find = Callable[[str], Application | None]
"""The measurements of an application, if there are any."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Speed on each whole number of GPUs relative to one, as measured; between them it is linear."""

    speeds: tuple[float, ...]

    def __call__(self, gpus: float, /) -> float:
        if gpus <= 1:
            return gpus
        low = min(int(gpus), len(self.speeds))
        high = min(low + 1, len(self.speeds))
        below, above = self.speeds[low - 1], self.speeds[high - 1]
        return below + (above - below) * (gpus - low if high > low else 0.0)


def seconds(app: Application, gpus: int, batch: int) -> float:
    """Time of the whole training at this batch on so many GPUs. Raises ValueError if that was never run."""
    local, accumulation = rigid_batch(app, batch, gpus)
    if local < app.smallest_local:
        raise ValueError(f"{app.name}: a batch of {batch} is too small for {gpus} GPUs")
    placement = dense(gpus, PER_NODE)
    total = 0.0
    for epoch in range(app.epochs):
        work = app.milestones[epoch + 1] - app.milestones[epoch]
        total += work / app.rate(placement, local, accumulation, epoch)
    return total


class PolluxCurves:
    """Durations of an application's requests, and the sizes at which it can run; computed once."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._apps: dict[str, Application | None] = {}
        self._times: dict[tuple[str, int], tuple[float, ...]] = {}

    def knows(self, name: str) -> bool:
        if name not in self._apps:
            self._apps[name] = self._find(name)
        return self._apps[name] is not None

    def times(self, name: str, batch: int) -> tuple[float, ...]:
        """Seconds on 1, 2, … GPUs, as far as that was measured without a gap."""
        key = (name, batch)
        if key not in self._times:
            app = self._apps[name]
            assert app is not None, "asked for before it was known"
            found: list[float] = []
            for gpus in range(1, MOST_GPUS + 1):
                try:
                    found.append(seconds(app, gpus, batch))
                except ValueError:
                    break
            self._times[key] = tuple(found)
        return self._times[key]

    def request(self, name: str, gpus: int, batch: int) -> tuple[float, Range | None, Measured]:
        """Duration on so many GPUs, possible sizes, speeds. Raises ValueError with the broken rule."""
        times = self.times(name, batch)
        if not times:
            raise ValueError(f"is a batch that {name} was never measured with")
        if gpus > len(times):
            raise ValueError(f"must be at most {len(times)}: with more {name} was not measured at this batch")
        # No size beyond its fastest one is used, unless it was requested.
        size = Range(1, max(gpus, times.index(min(times)) + 1))
        speeds = Measured(tuple(times[0] / one for one in times[: size.high]))
        return times[gpus - 1], None if size.rigid else size, speeds
