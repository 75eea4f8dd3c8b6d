"""Sizes of jobs when they are chosen: at submit, before a start, after an end for want of memory.

What `sizing` decides purely is asked here with what is known of the job's like and of the pool. For any
thread; nothing here waits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from grus.controlplane import fingerprints
from grus.controlplane.ends import Statuses
from grus.controlplane.launching import members, setup_id
from grus.controlplane.profiles import Profiles
from grus.controlplane.sizing import (
    Fits,
    Impossible,
    Kind,
    Known,
    Sized,
    allowed,
    fallen,
    given,
    known,
    size,
)
from grus.model.cluster import Device, Node
from grus.model.identifiers import DeviceId, WorkerId
from grus.model.jobs import ExitCause, Job, Sizing
from grus.model.profiles import JobProfile
from grus.model.resources import Range, Request
from grus.model.ways import Shortage, merged


class Answer(NamedTuple):
    """To an end for want of memory: what fell short, and what is tried next."""

    short: Shortage
    found: Sized | Impossible


class Sizes:
    """See the head of this file."""

    def __init__(self, profiles: Profiles, nodes: Callable[[], Sequence[Node]], fits: Fits) -> None:
        """`fits`: why no state of the pool could run a spec."""
        self._profiles = profiles
        self._nodes = nodes
        self._fits = fits

    def of(self, job: Job) -> Sized | Impossible:
        """By what its user asked for and all that is known now."""
        return self._size(job, self._known(job))

    def exact(self, job: Job) -> bool:
        """Whether what is known is of the same code, and not of what stands in for it."""
        settled, profile = self._profiles.settled(job.id), self._profiles.of(job)
        return settled is not None and profile is not None and profile.fingerprint == settled.fingerprint

    def matters(self, job: Job) -> bool:
        """Whether its code is worth being read before its size is chosen."""
        return job.asked.auto or any(profile.short for profile in self._profiles.like(job))

    def before_start(self, job: Job) -> Job | None:
        """The job with another size, if what was learned since asks for one; None if it may start.

        One that has begun keeps its way, unless its size has been seen to fall short.
        """
        if job.sizing is None and not any(profile.short for profile in self._profiles.like(job)):
            return None
        what = self._known(job)
        if job.attempt and not self._falls_short(job, what):
            return None
        found = self._size(job, what)
        if isinstance(found, Impossible) or found.spec.request == job.spec.request:
            return None
        return with_size(job, found)

    def after_end(self, job: Job, own: Statuses) -> Answer | None:
        """To the end of an attempt, whose seats are still on the job; None where nothing can be concluded."""
        short = shortage(job, own, {device.id: device.memory for device in self._devices()})
        if short is None:
            return None
        return Answer(short, self._size(job, self._known(job, short)))

    def _size(self, job: Job, what: Known) -> Sized | Impossible:
        return size(replace(job.spec, request=job.asked), what, self._kinds(), self._fits)

    def _kinds(self) -> list[Kind]:
        return sorted({Kind(device.type, device.memory) for device in self._devices()})

    def _devices(self) -> list[Device]:
        return [device for node in self._nodes() for device in node.devices]

    def _known(self, job: Job, *more: Shortage) -> Known:
        own = (*(job.sizing.short if job.sizing is not None else ()), *more)
        return known(self._profile(job), given_to(job), own)

    def _profile(self, job: Job) -> JobProfile | None:
        """Of code that is known to be another's nothing is believed where there is an estimate; nor does
        what fell short there bind this job."""
        profile = self._profiles.of(job)
        if profile is None or self._profiles.settled(job.id) is None or self.exact(job):
            return profile
        return None if job.asked.ways else replace(profile, short=())

    def _falls_short(self, job: Job, what: Known) -> bool:
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
    """What did not suffice in the attempt that has ended for want of GPU memory."""
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


def with_size(job: Job, found: Sized, *short: Shortage) -> Job:
    """The job as it was sized, with what fell short."""
    before = () if job.sizing is None else job.sizing.short
    sizing = Sizing(asked=job.asked, why=found.why, short=merged([*before, *short]))
    return replace(job, spec=found.spec, sizing=sizing, size=_within(job.size, found.spec.request))


def _within(size: Range | None, request: Request) -> Range | None:
    """What a person has scaled the job to, as far as it still may be: never below what it needs now."""
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
    """Of this device, that its workers may use; 0 for one that is gone."""
    whole = memory.get(device, 0)
    return whole and given(job.spec.request.roles[0].replica, Kind("", whole))
