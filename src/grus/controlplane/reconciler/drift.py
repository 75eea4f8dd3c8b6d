"""Allocation audit: compare the allocations in the snapshot with the allocations recorded in the store.

There should never be a difference. A difference is logged as an error, counted, and repaired from the store.
A job that changed a moment ago is checked twice, so that a write in flight is not mistaken for drift.
"""

import logging

from grus.controlplane import cluster_view
from grus.controlplane.reconciler.cluster_state_cache import ClusterState
from grus.model.identifiers import DeviceId, JobId
from grus.model.interfaces import Store
from grus.model.jobs import HOLDING, Job
from grus.model.resources import GPU
from grus.scheduler.state.node_capacity_index import NOW

log = logging.getLogger(__name__)


class Audit:
    """Remembers what looked wrong the last time."""

    def __init__(self, store: Store, picture: ClusterState) -> None:
        self._store = store
        self._picture = picture
        self._suspects: dict[JobId, int] = {}
        self.drift = 0
        """Differences found since the start; zero in a sound system."""

    def run(self, now: float) -> bool:
        """Compare once; return whether another check is needed soon."""
        held = self._store.jobs(phases=tuple(HOLDING))
        stored = {job.id: job for job in held if job.spec.has_workers}
        differing = self._differing(stored)
        certain = {job for job, version in differing.items() if self._suspects.get(job) == version}
        for job in certain:
            self._repair(job, stored.get(job), now)
        self._suspects = {job: version for job, version in differing.items() if job not in certain}
        if not differing:
            self._compare_usage(stored)
        return bool(self._suspects)

    def _differing(self, stored: dict[JobId, Job]) -> dict[JobId, int]:
        """Return jobs that differ between the store and the snapshot, with the version known here."""
        found = {}
        for id_ in stored.keys() | self._picture.holding:
            known, record = self._picture.snapshot.job(id_), stored.get(id_)
            if known is None or record is None or known.version != record.version:
                found[id_] = known.version if known else 0
        return found

    def _repair(self, job: JobId, record: Job | None, now: float) -> None:
        log.error("drift: job %s on record differs from what the loop knew; taken from the record", job)
        self.drift += 1
        self._picture.take(record if record is not None else self._store.job(job), now)

    def _compare_usage(self, stored: dict[JobId, Job]) -> None:
        recorded = cluster_view.usage(stored.values())
        for device in self._picture.snapshot.pool.by_id.values():
            held, believed = recorded.get(DeviceId(device.id), 0), GPU - device.free[NOW]
            if held != believed:
                log.error("drift: device %s: %d micro-GPUs on record, %d believed", device.id, held, believed)
                self.drift += 1
            if held > GPU:
                log.critical("device %s is promised to more than it has: %d micro-GPUs", device.id, held)
