"""Job sizes at the time of choice: at submit, before a start, after an attempt that ran out of memory (OOM).

Passes what is known of similar jobs and of the pool to the pure decisions of `sizing`. For any thread;
nothing here blocks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from grus.controlplane.fingerprint import fingerprints
from grus.controlplane.fingerprint.profile_cache import Profiles
from grus.controlplane.gpu_sizing.memory_sizing import (
    Fits,
    GpuModel,
    MemoryHistory,
    NoFittingSize,
    SizedSpec,
    allowed,
    fallen,
    given,
    known,
    size,
)
from grus.controlplane.workers.exit_status import Statuses
from grus.controlplane.workers.worker_launch_spec import members, setup_id
from grus.model.execution_plans import Shortage, merged
from grus.model.identifiers import DeviceId, WorkerId
from grus.model.jobs import ExitCause, Job, Sizing
from grus.model.nodes import Device, Node
from grus.model.profiles import JobProfile
from grus.model.resources import Range, Request


class OomResponse(NamedTuple):
    """Response to an out-of-memory end: the insufficient allocation, and the next size to try."""

    short: Shortage
    found: SizedSpec | NoFittingSize


class JobSizer:
    """Sizes of jobs; see the head of this file."""

    def __init__(self, profiles: Profiles, nodes: Callable[[], Sequence[Node]], fits: Fits) -> None:
        """Set up. `fits` returns why no state of the pool could run a spec."""
        self._profiles = profiles
        self._nodes = nodes
        self._fits = fits

    def of(self, job: Job) -> SizedSpec | NoFittingSize:
        """Return the size from the user's request and all that is known now."""
        return self._size(job, self._known(job))

    def exact(self, job: Job) -> bool:
        """Return whether the profile is of the same code, not of a substitute."""
        settled, profile = self._profiles.settled(job.id), self._profiles.of(job)
        return settled is not None and profile is not None and profile.fingerprint == settled.fingerprint

    def matters(self, job: Job) -> bool:
        """Return whether the job's code must be read before its size is chosen."""
        return job.asked.auto or any(profile.short for profile in self._profiles.like(job))

    def before_start(self, job: Job) -> Job | None:
        """Return the job with another size, if newer knowledge requires one; None if it may start.

        A job that has started keeps its execution plan, unless its size is known to run out of memory.
        """
        if job.sizing is None and not any(profile.short for profile in self._profiles.like(job)):
            return None
        what = self._known(job)
        if job.attempt and not self._falls_short(job, what):
            return None
        found = self._size(job, what)
        if isinstance(found, NoFittingSize) or found.spec.request == job.spec.request:
            return None
        return with_size(job, found)

    def after_end(self, job: Job, own: Statuses) -> OomResponse | None:
        """Return the answer to the end of an attempt, whose placements are still on the job; None if nothing
        can be concluded.
        """
        short = shortage(job, own, {device.id: device.memory for device in self._devices()})
        if short is None:
            return None
        return OomResponse(short, self._size(job, self._known(job, short)))

    def _size(self, job: Job, what: MemoryHistory) -> SizedSpec | NoFittingSize:
        return size(replace(job.spec, request=job.asked), what, self._kinds(), self._fits)

    def _kinds(self) -> list[GpuModel]:
        return sorted({GpuModel(device.type, device.memory) for device in self._devices()})

    def _devices(self) -> list[Device]:
        return [device for node in self._nodes() for device in node.devices]

    def _known(self, job: Job, *more: Shortage) -> MemoryHistory:
        own = (*(job.sizing.short if job.sizing is not None else ()), *more)
        return known(self._profile(job), given_to(job), own)

    def _profile(self, job: Job) -> JobProfile | None:
        """Return the profile to size the job by. For different code, prefer the job's own estimate and ignore
        that code's out-of-memory (OOM) history.
        """
        profile = self._profiles.of(job)
        if profile is None or self._profiles.settled(job.id) is None or self.exact(job):
            return profile
        return None if job.asked.ways else replace(profile, short=())

    def _falls_short(self, job: Job, what: MemoryHistory) -> bool:
        role = job.spec.request.roles[0]
        count = role.replicas.low * max(1, role.replica.gpus)
        kinds = allowed(role.replica, self._kinds())
        least = min((given(role.replica, kind) for kind in kinds), default=0)
        return least <= fallen(what, count, job.spec.request.how)


def given_to(job: Job) -> str:
    """Digest of its environment variables and parameters, which its fingerprint leaves out."""
    said = (*job.spec.env, *((name, str(value)) for name, value in job.spec.params))
    return fingerprints.short_digest(said) if said else ""


def shortage(job: Job, own: Statuses, memory: Mapping[DeviceId, int]) -> Shortage | None:
    """Return the allocation with which the ended attempt ran out of GPU memory (OOM)."""
    roles = job.spec.request.roles
    if len(roles) != 1 or _fell(own, setup_id(job)):
        return None
    everybody = members(job)
    guilty = [member for member in everybody if _fell(own, member.id)] or everybody
    each = [
        _bytes(job, device, memory) for member in guilty for seat in member.seats for device in seat.devices
    ]
    if not each or not all(each):
        return None
    count = len({device for seat in job.seats for device in seat.devices})
    return Shortage(count, min(each), job.spec.request.how, given_to(job))


def with_size(job: Job, found: SizedSpec, *short: Shortage) -> Job:
    """Return the job with this size, and with the allocations that ran out of memory."""
    before = () if job.sizing is None else job.sizing.short
    sizing = Sizing(asked=job.asked, why=found.why, short=merged([*before, *short]))
    return replace(job, spec=found.spec, sizing=sizing, size=_within(job.size, found.spec.request))


def _within(size: Range | None, request: Request) -> Range | None:
    """Return the range to which a user scaled the job, as far as still allowed: never below its present
    minimum.
    """
    role = request.elastic
    if size is None or role is None:
        return None
    low = max(size.low, role.replicas.low)
    kept = Range(low, max(low, min(size.high, role.replicas.high)))
    return kept if any(kept.low <= number <= kept.high for number in request.allowed) else None


def _fell(own: Statuses, worker: WorkerId) -> bool:
    status = own.get(worker)
    return status is not None and status.exit is not None and status.exit.cause is ExitCause.GPU_MEMORY


def _bytes(job: Job, device: DeviceId, memory: Mapping[DeviceId, int]) -> int:
    """Return the memory of this device that its workers may use; 0 for a device that is gone."""
    whole = memory.get(device, 0)
    return whole and given(job.spec.request.roles[0].replica, GpuModel("", whole))
