"""Reports of running jobs: progress, speed, outputs and activity, and the changes that follow from them.

Lives as long as the loop, and belongs to its thread.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from grus.controlplane.jobs import idle_policy, lifecycle, progress, worker_group_membership
from grus.controlplane.jobs.idle_policy import Idleness
from grus.controlplane.jobs.lifecycle import JobChange
from grus.controlplane.reconciler.cluster_state_cache import ClusterState
from grus.controlplane.reconciler.progress_curves import CurveKeeper
from grus.controlplane.workers import artifact_inputs_outputs, exit_status
from grus.controlplane.workers.endpoints import endpoints
from grus.controlplane.workers.worker_launch_spec import keeper, members
from grus.model.activity_labels import Tag
from grus.model.identifiers import JobId
from grus.model.interfaces import Engine, Store, WorkerState
from grus.model.jobs import Job, JobType, Phase
from grus.model.texts import job_warnings


class JobReports:
    """One per loop."""

    def __init__(
        self, store: Store, engine: Engine, picture: ClusterState, verdicts: dict[JobId, str]
    ) -> None:
        self._engine = engine
        self._picture = picture
        self._verdicts = verdicts
        self.curves = CurveKeeper(store)
        self._idleness = Idleness()
        self._apart: set[tuple[JobId, int]] = set()
        """Attempts whose workers are known not to have joined a worker group."""
        self._warned: set[tuple[JobId, int]] = set()
        """Attempts of sessions that were warned that their time limit is near."""
        self._due = False
        self._tags: Mapping[JobId, Tag] | None = None
        """Tags of jobs that are yet to be examined."""

    def poll(self, tags: Mapping[JobId, Tag]) -> None:
        """Let the next pass read the reports of all jobs, and examine these tags."""
        self._due, self._tags = True, tags

    def read_words(self, id_: JobId) -> None:
        """Record the present last lines of a job's workers, independent of which worker reported."""
        for status in list(self._picture.statuses(id_).values()):
            if status.state is not WorkerState.ENDED and (line := self._engine.report(status.id)):
                self._picture.hear(replace(status, said=line))

    def changes(self, now: float, but: set[JobId]) -> list[JobChange]:
        """Return the changes from new reports of running jobs, as often as the nodes are polled."""
        if not self._due:
            return []
        self._due = False
        changes = []
        for id_ in sorted(self._picture.holding - but):
            job = self._picture.snapshot.job(id_)
            if job is not None and job.phase is Phase.RUNNING:
                said = self.with_report(job, now)
                verdict = self._verdicts.pop(id_, "")
                if verdict:
                    changes.append(lifecycle.change(said, "measured", now, verdict))
                elif (job.id, job.attempt) not in self._apart and (text := job_warnings.apart(said, now)):
                    self._apart.add((job.id, job.attempt))
                    changes.append(lifecycle.change(said, "apart", now, text, reason=said.reason))
                elif said is not job:
                    changes.append(JobChange(said, None))
        return changes

    def with_report(self, job: Job, now: float, *, last: bool = False) -> Job:
        """Return the job with the last report of its first worker, from which its speed is learned too."""
        team = worker_group_membership.team(job) or members(job)
        if not team:
            return job
        line = self._engine.report(team[0].id)
        self._picture.learn(job, line, now)
        self.curves.hear(job, line, now, last=last)
        return progress.taken(job, line, now)

    def with_outputs(self, job: Job) -> Job:
        """Return the job with the outputs reported as kept; also record why a worker could not continue."""
        if not artifact_inputs_outputs.hands_on(job.spec):
            return job
        for status in list(self._picture.statuses(job.id).values()):
            if status.state is WorkerState.ENDED and not exit_status.done(status):
                self._picture.hear(replace(status, said=self._engine.report(status.id)))
        keeps = keeper(job, worker_group_membership.team(job) or members(job)) if job.spec.outputs else None
        return job if keeps is None else progress.with_artefacts(job, self._engine.report(keeps.id))

    def notice(self, now: float) -> list[JobChange]:
        """Return the due reports and actions for idle or hung jobs, as often as the nodes are polled."""
        if self._tags is None:
            return []
        tags, self._tags = self._tags, None
        known = [self._picture.snapshot.job(id_) for id_ in sorted(self._picture.holding)]
        jobs = [job for job in known if job is not None]
        found = self._idleness.look(jobs, tags, self._picture.idle_policies, now, self._used_at)
        told = {change.job.id for change in found}
        return found + [one for one in self._nearly_over(jobs, now) if one.job.id not in told]

    def _nearly_over(self, jobs: list[Job], now: float) -> Iterator[JobChange]:
        for job in jobs:
            attempt = (job.id, job.attempt)
            limits = self._picture.limits(job)
            found = idle_policy.nearly_over(job, limits.max_runtime, now - limits.leapt)
            if attempt not in self._warned and found is not None:
                self._warned.add(attempt)
                yield found

    def _used_at(self, job: Job) -> float | None:
        """Return the last time that a person worked in a session; None for any other job, and for one that
        never reports it.
        """
        if job.spec.type is not JobType.DEV:
            return None
        found = endpoints(job, self._picture.statuses(job.id), self._engine.report)
        return max((one.used_at for one in found if one.used_at is not None), default=None)
