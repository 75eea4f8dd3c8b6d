"""Run statistics of one job from its samples: utilization, memory, CPU and energy at each size.

No clock and no I/O: samples and the job's placements in, a `ProfiledRun` out. A sample counts for the time
since the previous one of the same subject; a gap counts for nothing, and unmeasured values stay None. The
sums continue from a recorded `ProfiledRun`, so that a new server does not start from zero.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from grus.controlplane.workers.worker_launch_spec import members
from grus.model.activity_labels import Tag, WorkloadKind
from grus.model.identifiers import DeviceId, WorkerId
from grus.model.jobs import Job, Phase
from grus.model.profiles import BINS, GpuUsage, ProfiledRun, both
from grus.model.resources import GPU
from grus.telemetry.samples import Measure, Sample, Subject

LONGEST_GAP = 30.0
"""Longest gap between samples, in seconds; nothing is assumed about the time in a longer one."""


class WeightedSample(NamedTuple):
    """Sample, and the seconds for which it counts."""

    sample: Sample
    span: float

    def value(self, measure: Measure) -> float | None:
        return self.sample.values.get(measure)


class AllocatedGpus(NamedTuple):
    """Present allocation of a job."""

    held: Mapping[DeviceId, int]
    """Micro-GPUs of each device."""
    devices: Mapping[WorkerId, int]
    """Number of devices that each worker is bound to."""
    type: str
    """Type of the GPUs; all types if they are mixed."""

    @classmethod
    def of(cls, job: Job, types: Mapping[DeviceId, str]) -> "AllocatedGpus":
        held: dict[DeviceId, int] = {}
        for seat in job.seats:
            for device in seat.devices:
                held[device] = held.get(device, 0) + seat.share
        devices = {
            member.id: len({device for seat in member.seats for device in seat.devices})
            for member in members(job)
        }
        return cls(held, devices, "+".join(sorted({types.get(device, "") for device in held})))

    def part(self, sample: Sample) -> float:
        """Part, 0 to 1, of the GPU that the sample is of."""
        device = sample.subject.device
        return 0.0 if device is None else min(1.0, self.held.get(device, 0) / GPU)

    def watched(self, samples: list[WeightedSample]) -> float:
        """Seconds of the whole job: its workers (or GPUs) are measured one by one, and not always all."""
        of_workers = samples[0].sample.subject.worker is not None
        return sum(one.span for one in samples) / max(1, len(self.devices if of_workers else self.held))

    def memory(self, one: WeightedSample) -> int | None:
        """Bytes that the job had on one GPU; a worker on several is taken to divide itself evenly."""
        memory, worker = one.value(Measure.MEMORY), one.sample.subject.worker
        if memory is None:
            return None
        if worker is not None:
            return int(memory / max(1, self.devices.get(worker, 1)))
        return int(memory) if self.part(one.sample) >= 1 else None


class RunFigures:
    """Statistics of one job; called by one thread at a time."""

    def __init__(self, run: ProfiledRun) -> None:
        """Continue from the recorded run; an empty one for a job that starts."""
        self._run = run
        self._uses = {(use.type, use.gpus, use.how): use for use in run.uses}
        self._newest: dict[Subject, Sample] = {}
        self._cores = (run.cpu or 0.0) * run.seconds
        self._watched = run.seconds if run.cpu is not None else 0.0
        """Seconds for which cores were counted, and core-seconds."""

    def take(self, job: Job, samples: Iterable[Sample], types: Mapping[DeviceId, str]) -> None:
        """Add samples of the workers of this job, and of GPUs that it holds a part of."""
        if job.phase is not Phase.RUNNING:
            self._newest = {}
            return
        holding = AllocatedGpus.of(job, types)
        fresh = [one for sample in samples if (one := self._fresh(sample)) is not None]
        own = [one for one in fresh if one.sample.subject.job == job.id]
        gpus = [one for one in fresh if one.sample.subject.device in holding.held]
        if own or gpus:
            self._use(job, own, gpus, holding)
        if own:
            self._on_host(own, holding)
        self._draw(gpus, holding)

    def recognise(self, tag: Tag) -> None:
        """Record the job's tag."""
        kind = self._run.kind if tag.kind is WorkloadKind.UNKNOWN else tag.kind
        period = self._run.period if tag.period is None else tag.period
        self._run = replace(self._run, kind=kind, period=period)
        if tag.peak_memory is not None and self._uses:
            key = max(self._uses, key=lambda key: self._uses[key].seconds)
            self._uses[key] = both(
                self._uses[key], GpuUsage(type=key[0], gpus=key[1], memory=tag.peak_memory)
            )

    def so_far(self, job: Job, seconds: float, now: float) -> ProfiledRun:
        """Return the present run, with the seconds that it has run."""
        return replace(
            self._run,
            at=now,
            phase=job.phase if job.terminal else Phase.RUNNING,
            seconds=seconds,
            uses=tuple(self._uses[key] for key in sorted(self._uses)),
            cpu=self._cores / self._watched if self._watched > 0 else None,
        )

    def _fresh(self, sample: Sample) -> WeightedSample | None:
        """Return the sample with its seconds; None for one that was added before."""
        before = self._newest.get(sample.subject)
        if before is not None and sample.at <= before.at:
            return None
        self._newest[sample.subject] = sample
        span = 0.0 if before is None else sample.at - before.at
        return WeightedSample(sample, span if span <= LONGEST_GAP else 0.0)

    def _use(
        self, job: Job, own: list[WeightedSample], gpus: list[WeightedSample], holding: AllocatedGpus
    ) -> None:
        """Add the job's use from the samples of its own processes; a GPU's samples count only if the job
        has it alone.
        """
        measured = [one for one in own if one.value(Measure.UTILISATION) is not None]
        if not measured:
            whole = (one for one in gpus if holding.part(one.sample) >= 1)
            measured = [one for one in whole if one.value(Measure.UTILISATION) is not None]
        key = (holding.type, job.held, job.spec.request.how)
        levels = [0.0] * BINS
        busy = 0.0
        for one in measured:
            part = min(1.0, max(0.0, one.value(Measure.UTILISATION) or 0.0))
            levels[min(BINS - 1, int(part * BINS))] += one.span
            busy += part * one.span
        memory = (found for one in (*own, *gpus) if (found := holding.memory(one)) is not None)
        seen = GpuUsage(
            type=key[0],
            gpus=key[1],
            how=key[2],
            slice=job.spec.request.roles[0].replica.gpu_memory,
            seconds=holding.watched(measured or own or gpus),
            busy=busy,
            levels=tuple(levels) if any(levels) else (),
            memory=max(memory, default=None),
        )
        self._uses[key] = both(self._uses[key], seen) if key in self._uses else seen

    def _on_host(self, own: list[WeightedSample], holding: AllocatedGpus) -> None:
        self._cores += sum((one.value(Measure.CPU) or 0.0) * one.span for one in own)
        self._watched += holding.watched(own)
        last = max(one.sample.at for one in own)
        # Workers are sampled one after the other; their latest samples count as simultaneous.
        self._newest = {who: one for who, one in self._newest.items() if last - one.at <= LONGEST_GAP}
        together = sum(
            one.values.get(Measure.HOST_MEMORY, 0.0) for who, one in self._newest.items() if who.worker
        )
        if together:
            self._run = replace(self._run, host_memory=max(self._run.host_memory or 0, int(together)))

    def _draw(self, gpus: list[WeightedSample], holding: AllocatedGpus) -> None:
        drawn = [
            power * one.span * holding.part(one.sample)
            for one in gpus
            if (power := one.value(Measure.POWER)) is not None
        ]
        if drawn:
            self._run = replace(self._run, energy=(self._run.energy or 0.0) + sum(drawn))
