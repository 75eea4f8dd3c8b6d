"""Actions of users on jobs: submit, plan, stop, pause, resume, scale. The loop carries them out."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from grus.controlplane.admission.dry_run import NEVER, SubmissionPlan, plan
from grus.controlplane.admission.submission import JobRequest, Submission
from grus.controlplane.eta.forecast_service import Forecaster
from grus.controlplane.jobs import user_actions
from grus.controlplane.jobs.lifecycle import JobChange
from grus.controlplane.monitoring.profile_query import Insight
from grus.controlplane.reconciler.loop import ControlLoop
from grus.controlplane.security import audit_records, rbac
from grus.controlplane.visibility import JobVisibility
from grus.model.errors import Conflict, DoesNotFit, StaleVersion
from grus.model.identifiers import JobId, UserName, job_id
from grus.model.interfaces import Store, User
from grus.model.jobs import Job, Phase, Spec
from grus.model.resources import Range

MOST_TRIES = 20


@dataclass(eq=False)
class JobActions:
    """One a server, for any thread. `submit` is quick enough for a thread that serves all connections; the
    others may wait for the disk.
    """

    _store: Store
    _loop: ControlLoop
    _submission: Submission
    _visible: JobVisibility
    _clock: Callable[[], float]
    _entropy: Callable[[], int]
    _forecaster: Forecaster | None
    _insight: Insight | None
    _copiers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(2, thread_name_prefix="code-copy")
    )

    def close(self) -> None:
        """Finish copies that are under way. Idempotent."""
        self._copiers.shutdown()

    def submit(
        self, user: User, spec: Spec, *, key: str | None = None, launch_given: bool = True
    ) -> "Future[Job]":
        """Store a job; the result is durable. Raises NotAllowed, BadInput or DoesNotFit before it is
        stored.
        """
        id_ = job_id(self._entropy())
        request = JobRequest(id=id_, spec=spec, launch_given=launch_given, key=key)
        checked = self._submission.check(user, [request])
        if self._submission.reads_files(user, checked):
            return self._copiers.submit(lambda: self._store_new(user, checked).result())
        return self._store_new(user, checked)

    def _store_new(self, user: User, checked: Sequence[JobRequest]) -> "Future[Job]":
        (new,) = self._submission.jobs(user, checked, self._clock())
        return self._store.create(new.job, new.event, new.key)

    def plan(self, user: User, spec: Spec, launch_given: bool = True) -> SubmissionPlan:
        """Return what would become of the job, without storing anything. Raises NotAllowed and BadInput."""
        try:
            now = self._clock()
            job = self._submission.planned(user, spec, now, launch_given=launch_given)
        except DoesNotFit as error:
            return SubmissionPlan(fits=False, starts=NEVER, sentence=str(error))
        missing = [other for other in spec.after if self._store.job(other).phase is not Phase.SUCCEEDED]
        blocked = f"waits for {', '.join(missing)} to succeed" if missing else ""
        made = plan(self._loop, job, blocked, now)
        if job.sizing is not None:
            made = replace(made, sizing=job.sizing.why)
        if self._insight is not None:
            made = replace(made, expected=self._insight.of(job).expected)
        if self._forecaster is None:
            return made
        return replace(made, foreseen=self._forecaster.planned(job, tuple(missing), now))

    def stop(self, user: User, id_: JobId) -> Job:
        return self._act(user, id_, "stop", user_actions.stop)

    def pause(self, user: User, id_: JobId) -> Job:
        return self._act(user, id_, "pause", user_actions.pause)

    def resume(self, user: User, id_: JobId) -> Job:
        return self._act(user, id_, "resume", user_actions.resume)

    def scale(self, user: User, id_: JobId, size: Range | None) -> Job:
        """Pin the size of an elastic job or narrow its range; None restores the submitted range."""

        def action(job: Job, who: UserName, now: float) -> JobChange | None:
            change = user_actions.scale(job, size, who, now)
            if change is not None and size is not None:
                self._submission.require_size(job.spec, size)
            return change

        return self._act(user, id_, "scale", action)

    def _act(
        self, user: User, id_: JobId, verb: str, action: Callable[[Job, UserName, float], JobChange | None]
    ) -> Job:
        for _ in range(MOST_TRIES):
            job = self._visible.get(user, id_)
            rbac.require_own(user, job, verb)
            change = action(job, user.name, self._clock())
            if change is None:
                return job
            record = audit_records.job_changed(user, self._clock(), verb, job)
            epoch = self._loop.pulse.epoch
            try:
                return self._store.replace(change.job, change.event, epoch, record=record).result()
            except StaleVersion:
                continue  # the loop was faster; the action is checked against the present state
        raise Conflict(f"job {id_} changes too fast to {verb} it; try again")
