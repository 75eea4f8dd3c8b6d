"""Outputs of jobs: states, reports, logs and endpoints of their workers, and the artifacts they left."""

from dataclasses import dataclass
from subprocess import Popen

from grus.controlplane.admission.spec_validation import NO_SESSIONS
from grus.controlplane.reconciler.loop import ControlLoop
from grus.controlplane.security import rbac
from grus.controlplane.visibility import JobVisibility
from grus.controlplane.workers import logs
from grus.controlplane.workers.endpoints import Endpoint, endpoints, require_use
from grus.model.artifacts import Artifact
from grus.model.errors import Conflict, NotAllowed, NotFound
from grus.model.identifiers import JobId
from grus.model.interfaces import REPORTS, Engine, Store, User, WorkerStatus
from grus.model.jobs import Job, JobType
from grus.model.metrics_history import Curves, curves


@dataclass(eq=False)
class JobOutputs:
    """One a server, for any thread that may wait for the disk."""

    _store: Store
    _engine: Engine
    _loop: ControlLoop
    _visible: JobVisibility
    _containers: bool

    def curves(self, user: User, id_: JobId) -> Curves:
        """Return the job's reports over time: a curve of each metric, and its throughput."""
        return self.curves_of(self._visible.get(user, id_))

    def curves_of(self, job: Job) -> Curves:
        """Return the curves of a job that the caller sees."""
        return curves(self._store.find(REPORTS, job=job.id))

    def workers(self, user: User, id_: JobId) -> list[WorkerStatus]:
        """Return the states of its present workers, in the order of their ids."""
        self._visible.get(user, id_)
        return sorted(self._loop.picture.statuses(id_).values(), key=lambda status: status.id)

    def log(
        self,
        user: User,
        id_: JobId,
        worker: int | None = None,
        offset: int = 0,
        limit: int = 65536,
        attempt: int | None = None,
    ) -> tuple[bytes, int]:
        """Return bytes of a worker's log and the next offset; worker 0 and the last attempt if none is
        named.
        """
        return logs.read(self._engine, self._visible.get(user, id_), worker or 0, offset, limit, attempt)

    def endpoints(self, user: User, id_: JobId) -> tuple[Endpoint, ...]:
        """Return the endpoints of the job, one for each worker that is ready; empty while none is.

        For components that forward requests in this user's name: endpoints contain secrets and must not be
        shown to the user. Raises NotFound, and NotAllowed for a session of another user.
        """
        job = self._visible.get(user, id_)
        require_use(user, job)
        if self._containers:  # reports of containers are readable to many, and from other machines
            return ()
        return endpoints(job, self._loop.picture.statuses(id_), self._engine.report)

    def session(self, user: User, id_: JobId) -> tuple[Endpoint, ...]:
        """Return the endpoints of a development session. Raises Conflict for a job that is none, or is
        over.
        """
        job = self._visible.get(user, id_)
        if job.spec.type is not JobType.DEV:
            raise Conflict(f"job {id_} is no development session; `grus dev` starts one")
        if self._containers:
            raise NotAllowed(f"job {id_} {NO_SESSIONS}; `grus stop {id_}` ends it")
        found = self.endpoints(user, id_)
        if job.terminal:
            raise Conflict(f"session {id_} is over ({job.phase.value}): {job.reason}")
        return found

    def archive(self, user: User, id_: JobId, name: str, offset: int) -> "tuple[Artifact, Popen[bytes]]":
        """Start a process that writes the job's artifact of this name as a tar from this byte on; the caller
        must end it. For its owner. Raises NotFound if it is gone.
        """
        job = self._visible.get(user, id_)
        if job.user != user.name and not rbac.is_admin(user):
            raise NotAllowed(f"only {job.user} and administrators may read what job {id_} left behind")
        found = next((one for one in job.artefacts if one.name == name), None)
        if found is None:
            raise NotFound(f"job {id_} has left no {name} behind{_left_words(job)}")
        stores = self._loop.picture.vaults
        if not stores.holds(job.user, found):
            raise NotFound(f"what job {id_} left as {name} is not kept any more: run it again")
        return found, stores.archive(job.user, found, offset)


def _left_words(job: Job) -> str:
    names = ", ".join(output.name for output in job.spec.outputs)
    if not names:
        return "; it has no outputs"
    return f"; it has {names}" if job.artefacts else f"; it is {job.phase.value}"
