"""What Grus itself measures of its workers and, where GPUs are pretended, of these: a `Source` of samples.

A worker's numbers are those of its own processes, as the engine sees them. A pretended GPU is as busy as the
workers bound to it are: their CPU time stands for its utilisation, their memory for its own. One that nobody
holds rests, and says so every few seconds only.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from grus.controlplane.launching import Member, members
from grus.model.cluster import Node
from grus.model.identifiers import DeviceId, JobId, WorkerId
from grus.model.jobs import Job
from grus.model.ports import Engine, Usage
from grus.model.resources import GPU
from grus.telemetry.rates import rates
from grus.telemetry.samples import Batch, Measure, Sample, Subject

REST = 10.0
"""Seconds between two samples of a pretended GPU that nobody holds."""


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


class Work(NamedTuple):
    """What a worker was seen to do."""

    who: Bound
    use: Usage
    rates: Mapping[Measure, float]

    @property
    def cores(self) -> float | None:
        """In use since the look before; None at the first one."""
        return self.rates.get(Measure.CPU)


def bound(jobs: Iterable[Job]) -> dict[WorkerId, Bound]:
    return {member.id: Bound(job.id, member) for job in jobs for member in members(job)}


class OwnSamples:
    """Asked by one thread. `jobs` are those that hold GPUs now."""

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
        """When each pretended GPU that nobody holds was last told."""
        self.usage: tuple[Usage, ...] = ()
        """What was last measured, as the engine told it; replaced whole."""

    @property
    def shortest(self) -> float:
        return self._shortest

    def sample(self, now: float) -> Batch:
        known = bound(self._jobs())
        usage = self._engine.usage()
        self.usage = usage
        own = [
            Work(known[one.worker], one, rates(self._before.get(one.worker), one))
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

    def _of_devices(self, known: Mapping[WorkerId, Bound], own: Sequence[Work], now: float) -> list[Sample]:
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


def of_worker(work: Work, pretended: bool) -> Sample:
    values = dict(work.rates)
    busy = work.use.gpu_utilisation
    if pretended:  # over the same time as the cores, whoever else asked the engine meanwhile
        busy = min(1.0, work.cores / work.who.held) if work.cores is not None and work.who.held else None
    if busy is not None:
        values[Measure.UTILISATION] = busy
    if work.use.gpu_memory is not None:
        values[Measure.MEMORY] = float(work.use.gpu_memory)
    return Sample(work.who.subject, work.use.at, values)


def on_devices(own: Iterable[Work]) -> dict[DeviceId, dict[Measure, float]]:
    """What the workers do on each pretended GPU that they hold; each divides itself evenly among its own."""
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
