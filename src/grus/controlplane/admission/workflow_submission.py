"""Submission of several jobs at once: all of them are stored, or none; and retries from the one that failed.

Ids are settled before anything is written, so that jobs can name each other. They are made of the key of the
submission: a repeated one requests the very same jobs, and finds those that exist already.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.controlplane.admission import workflow_graph
from grus.controlplane.admission.submission import JobRequest, Submission, submitted, within
from grus.controlplane.admission.workflow_graph import STEP, Graphs
from grus.controlplane.visibility import JobVisibility
from grus.model.errors import BadInput, Conflict, Mistake, NotAllowed, NotFound
from grus.model.identifiers import JobId, job_id
from grus.model.interfaces import Store, User
from grus.model.job_spec import MOST_STAGES
from grus.model.jobs import Job, JobType, Spec


@dataclass(eq=False)
class GraphSubmission:
    """For any thread that may wait for the disk."""

    _store: Store
    _submission: Submission
    _graphs: Graphs
    _visible: JobVisibility
    _clock: Callable[[], float]
    _entropy: Callable[[], int]
    _stands: Callable[[Job], bool]

    def submit(
        self, user: User, jobs: Sequence[JobIn], *, key: str | None = None, fresh: bool = False
    ) -> list[Job]:
        """Store the jobs, each behind those that it names. Raises NotAllowed, BadInput or DoesNotFit
        first.
        """
        if not 1 <= len(jobs) <= MOST_STAGES:
            raise BadInput([Mistake("jobs", f"must be 1 to {MOST_STAGES}", str(len(jobs)))])
        ids = self._ids(user, len(jobs), key)
        known: dict[str, JobId] = {}
        asked = []
        mistakes = []
        for id_, job in zip(ids, jobs, strict=True):
            try:
                spec = replace(to_spec(job, after=known), graph=ids[0], fresh=fresh)
                asked.append(JobRequest(id=id_, spec=spec, launch_given=job.launch_given))
                known[spec.name] = id_
            except BadInput as error:
                mistakes += within(job.name or str(len(asked)), error.mistakes)
        if mistakes:
            raise BadInput(mistakes)
        return self._store_all(user, asked, key)

    def retry(self, user: User, id_: JobId, *, key: str | None = None) -> list[Job]:
        """Submit again a job that did not succeed, with those of its submission that depend on it.

        Jobs before it that have succeeded are not repeated: their outputs are used as they are.
        """
        job = self._visible.get(user, id_)
        self._require_retry(user, job)
        members = self._graphs.members(job)
        earlier = [one for one in self._graphs.before(user, members) if one.user == user.name]
        again = workflow_graph.to_retry(job, [*earlier, *members], self._stands)
        if unfinished := [one for one in again if not one.terminal]:
            names = ", ".join(f"{one.spec.name} ({one.id})" for one in unfinished)
            raise Conflict(f"{names} of the same submission has not ended yet; wait, or stop it first")
        new = dict(zip((one.id for one in again), self._ids(user, len(again), key), strict=True))
        first = new[again[0].id]
        asked = [
            JobRequest(id=new[one.id], spec=_again(one, new, first), saves_as=_kept(one, new))
            for one in again
        ]
        return self._store_all(user, asked, key)

    def _require_retry(self, user: User, job: Job) -> None:
        if job.user != user.name:
            raise NotAllowed(f"job {job.id} belongs to {job.user}; only {job.user} may submit it again")
        if job.spec.trial is not None or job.spec.type is JobType.SWEEP:
            raise Conflict(f"job {job.id} is part of a sweep, which decides by itself what is tried again")
        if not job.terminal:
            raise Conflict(f"job {job.id} is {job.phase.value}: only a job that has ended can be tried again")
        if self._stands(job):
            raise Conflict(f"job {job.id} ({job.spec.name}) has succeeded: name the one that failed")

    def _ids(self, user: User, count: int, key: str | None) -> list[JobId]:
        if key is None:
            return [job_id(self._entropy()) for _ in range(count)]
        return [_id_of(user, key, index) for index in range(count)]

    def _store_all(self, user: User, asked: Sequence[JobRequest], key: str | None) -> list[Job]:
        """Check everything before anything is stored; then store all of it in one write."""
        if key is not None:
            asked = [replace(one, key=f"{key}-{index}") for index, one in enumerate(asked)]
        now = self._time(asked[0].id)
        made = self._submission.jobs(user, self._submission.check(user, asked), now)
        timed = [replace(one.job, submitted_at=now + index * STEP) for index, one in enumerate(made)]
        new = [replace(one, job=job, event=submitted(job)) for one, job in zip(made, timed, strict=True)]
        return self._store.create_all(new).result()

    def _time(self, first: JobId) -> float:
        """Return the present time; if the first job exists already, alone or not, its own: the others are
        found by that time.
        """
        try:
            return self._store.job(first).submitted_at
        except NotFound:
            return self._clock()


def _id_of(user: User, key: str, index: int) -> JobId:
    digest = hashlib.sha256(f"{user.name}\0{key}\0{index}".encode()).digest()
    return job_id(int.from_bytes(digest[:7], "big"))


def _again(job: Job, new: dict[JobId, JobId], first: JobId) -> Spec:
    spec = job.spec
    return replace(
        spec,
        request=job.asked,
        after=tuple(new.get(other, other) for other in spec.after),
        inputs=tuple(replace(one, job=new.get(one.job, one.job)) for one in spec.inputs),
        graph=first,
    )


def _kept(job: Job, new: dict[JobId, JobId]) -> str:
    """Return the checkpoints to continue from: a stage with the same inputs resumes; on other data it starts
    from scratch.
    """
    return "" if any(one.job in new for one in job.spec.inputs) else job.saves_as
