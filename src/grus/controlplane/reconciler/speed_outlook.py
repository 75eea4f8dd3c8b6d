"""Outlook on the speed of jobs, alone and on shared GPUs: measurements, as the scheduler needs them.

Lives as long as the loop, and belongs to its thread. Methods return whether a decision may be different now.
"""

from collections.abc import Iterable, Mapping
from itertools import islice

from grus.controlplane.fingerprint.profile_cache import Profiles
from grus.controlplane.jobs.lifecycle import crowded
from grus.controlplane.speed.sharing_results import Pairing, sentence
from grus.controlplane.speed.throughput_observations import Learning
from grus.model.activity_labels import Tag
from grus.model.identifiers import JobId
from grus.model.jobs import Job
from grus.model.nodes import Node
from grus.scheduler.state.snapshot import Snapshot

MOST_SHARERS = 500
"""Jobs that may share a GPU and are weighed at a time: those that came first."""


class SpeedOutlook:
    """One per loop."""

    def __init__(self, snapshot: Snapshot, profiles: Profiles, *, containers: bool) -> None:
        self._snapshot = snapshot
        self._learning = Learning(profiles)
        self._pairing = Pairing(profiles)
        self._containers = containers
        self._sharers: dict[JobId, None] = {}
        """Jobs that may share a GPU, in the order in which they came."""
        self.verdicts: dict[JobId, str] = {}
        """Sentences about new measurements of jobs that share a GPU."""

    def set_nodes(self, nodes: Iterable[Node]) -> None:
        self._learning.per_node = max((len(node.devices) for node in nodes), default=1)
        self._learning.type_of = {device.id: device.type for node in nodes for device in node.devices}

    def take(self, job: Job, new: bool) -> bool:
        """Attach to a new job the outlook from similar jobs; keep the results of a job beyond its end."""
        gauged = job.spec.request.shares and not self._containers and self._take_sharer(job)
        if job.terminal:
            self._learning.ended(job)
        elif new and (expected := self._learning.greet(job)) is not None:
            self._snapshot.expect(job.id, expected)
        return gauged

    def _take_sharer(self, job: Job) -> bool:
        if job.terminal:
            self._sharers.pop(job.id, None)
            self.verdicts.pop(job.id, None)
            self._pairing.ended(job.id)
        elif job.id not in self._sharers:
            self._sharers[job.id] = None
            return self._gauge(job)
        return False

    def _gauge(self, job: Job) -> bool:
        """Send the scheduler a job's footprint, if that is news."""
        footprint = self._pairing.news(job)
        if footprint is not None:
            self._snapshot.gauge(job.id, footprint)
        return footprint is not None

    def _shares_with(self, job: Job) -> Job | None:
        """Return the job that shares its GPU with it."""
        devices = {device for seat in job.seats for device in seat.devices}
        for id_, entry in self._snapshot.packed.items():
            if id_ != job.id and devices.issuperset(entry.job.seats[0].devices):
                return entry.job
        return None

    def note_clash(self, before: Job, after: Job, now: float) -> None:
        """Record that a job has run out of memory beside another."""
        if not after.spec.request.shares or not crowded(before, after.exit) or before.exit is not None:
            return
        if (other := self._shares_with(before)) is not None:
            self._pairing.clashed(before, other, now)

    def learn(self, job: Job, line: str, now: float) -> bool:
        """Record a running job's reports about its speed."""
        gauged = False
        if job.id in self._sharers:
            other = self._shares_with(job)
            gain = self._pairing.hear(job, other, line, now)
            if other is not None and gain is not None:
                for one, its in ((job, other), (other, job)):
                    self.verdicts[one.id] = sentence(its, gain)
                    gauged = self._gauge(one) or gauged
        expected = self._learning.hear(job, line, now)
        if expected is not None:
            self._snapshot.expect(job.id, expected)
        return gauged or expected is not None

    def look(self, tags: Mapping[JobId, Tag], now: float) -> bool:
        """Record the tags of jobs that may share a GPU."""
        gauged = False
        for id_ in islice(self._sharers, MOST_SHARERS):
            if (job := self._snapshot.job(id_)) is not None:
                if (tag := tags.get(id_)) is not None and tag.live(now):
                    self._pairing.see(job, tag)
                gauged = self._gauge(job) or gauged
        return gauged
