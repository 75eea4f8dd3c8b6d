"""Grus's own measurements of its workers and of virtual GPUs: a `SampleSource` of samples.

A worker's numbers are those of its own processes, as the engine sees them. A virtual GPU is as busy as the
workers bound to it: their CPU time counts as its utilization, their memory as its own. An unallocated one is
idle, and is sampled every few seconds only.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from grus.controlplane.workers.worker_launch_spec import Member, members
from grus.model.identifiers import DeviceId, JobId, WorkerId
from grus.model.interfaces import Engine, Usage
from grus.model.jobs import Job
from grus.model.nodes import Node
from grus.model.resources import GPU
from grus.telemetry.counter_rates import rates
from grus.telemetry.samples import Batch, Measure, Sample, Subject

REST = 10.0
"""Seconds between two samples of an unallocated virtual GPU."""


class Bound(NamedTuple):
    """A worker and the GPUs that it is bound to."""

    job: JobId
    member: Member

    @property
    def devices(self) -> tuple[DeviceId, ...]:
        return tuple(dict.fromkeys(device for seat in self.member.seats for device in seat.devices))

    @property
    def held(self) -> float:
        """GPUs."""
        return sum(seat.held for seat in self.member.seats) / GPU

    @property
    def subject(self) -> Subject:
        return Subject(self.member.node, job=self.job, worker=self.member.id)


class WorkerUsage(NamedTuple):
    """Measured activity of a worker."""

    who: Bound
    use: Usage
    rates: Mapping[Measure, float]

    @property
    def cores(self) -> float | None:
        """Cores used since the last sample; None at the first one."""
        return self.rates.get(Measure.CPU)


def bound(jobs: Iterable[Job]) -> dict[WorkerId, Bound]:
    return {member.id: Bound(job.id, member) for job in jobs for member in members(job)}


class OwnSamples:
    """Samples of Grus's own measurements. Called by one thread. `jobs` are those that hold GPUs now."""

    def __init__(
        self,
        engine: Engine,
        jobs: Callable[[], Sequence[Job]],
        *,
        nodes: Callable[[], tuple[Node, ...]] = tuple,
        pretended: bool = False,
        shortest: float = 1.0,
    ) -> None:
        self._engine = engine
        self._jobs = jobs
        self._nodes = nodes
        self._pretended = pretended
        self._shortest = shortest
        self._before: dict[WorkerId, Usage] = {}
        self._rested: dict[DeviceId, float] = {}
        """Time at which each unallocated virtual GPU was last reported."""
        self.usage: tuple[Usage, ...] = ()
        """Latest measurements, as the engine reported them; replaced as a whole."""

    @property
    def shortest(self) -> float:
        return self._shortest

    def sample(self, now: float) -> Batch:
        known = bound(self._jobs())
        usage = self._engine.usage()
        self.usage = usage
        own = [
            WorkerUsage(known[one.worker], one, rates(self._before.get(one.worker), one))
            for one in usage
            if one.worker in known
        ]
        self._before = {one.worker: one for one in usage}
        samples = [of_worker(work, self._pretended) for work in own]
        if self._pretended:
            samples += self._of_devices(known, own, now)
        return Batch(tuple(samples))

    def close(self) -> None:
        """Nothing to end."""

    def _of_devices(
        self, known: Mapping[WorkerId, Bound], own: Sequence[WorkerUsage], now: float
    ) -> list[Sample]:
        held = {device for one in known.values() for device in one.devices}
        busy = on_devices(own)
        found = []
        for node in self._nodes():
            for device in node.devices:
                if device.id in held:
                    self._rested.pop(device.id, None)
                    values = busy.get(device.id)
                elif now - self._rested.get(device.id, 0.0) >= REST:
                    self._rested[device.id] = now
                    values = {Measure.UTILISATION: 0.0, Measure.MEMORY: 0.0}
                else:
                    values = None
                if values:
                    found.append(Sample(Subject(node.id, device.id), now, values))
        return found


def of_worker(work: WorkerUsage, pretended: bool) -> Sample:
    values = dict(work.rates)
    busy = work.use.gpu_utilisation
    if pretended:  # over the same time as the cores, regardless of other callers of the engine
        busy = min(1.0, work.cores / work.who.held) if work.cores is not None and work.who.held else None
    if busy is not None:
        values[Measure.UTILISATION] = busy
    if work.use.gpu_memory is not None:
        values[Measure.MEMORY] = float(work.use.gpu_memory)
    return Sample(work.who.subject, work.use.at, values)


def on_devices(own: Iterable[WorkerUsage]) -> dict[DeviceId, dict[Measure, float]]:
    """Return the workers' activity on each virtual GPU that they hold; each worker divides its own evenly
    among them.
    """
    found: dict[DeviceId, dict[Measure, float]] = {}
    for work in own:
        devices = work.who.devices
        for device in devices:
            values = found.setdefault(device, {Measure.MEMORY: 0.0})
            values[Measure.MEMORY] += (work.use.gpu_memory or 0) / len(devices)
            if work.cores is not None:
                part = values.get(Measure.UTILISATION, 0.0) + work.cores / len(devices)
                values[Measure.UTILISATION] = min(1.0, part)
    return found
