"""Results of ended jobs, made from the record, and the rules about who may read them.

A result is a pure function of the job, its events, its reports and its profile's run. It may be made again at
any time and comes out the same, or better if more has been learned meanwhile.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from grus.controlplane.fingerprint.fingerprints import command, short_digest
from grus.controlplane.fingerprint.profile_cache import JobIdentity
from grus.controlplane.security import rbac
from grus.controlplane.security.rbac import Owner
from grus.controlplane.visibility import JobVisibility
from grus.model.artifacts import Artifact
from grus.model.errors import Conflict, NotFound
from grus.model.identifiers import JobId, QueueName
from grus.model.interfaces import RESULTS, Event, Store, User
from grus.model.jobs import Job
from grus.model.metrics_history import Reported
from grus.model.profiles import ProfiledRun
from grus.model.resources import GPU
from grus.model.results import Metric, Result

PAGE = 500


def result_of(
    job: Job,
    *,
    events: Sequence[Event] = (),
    reports: Iterable[Reported] = (),
    seconds: float = 0.0,
    settled: JobIdentity | None = None,
    run: ProfiledRun | None = None,
    inputs: tuple[Artifact, ...] = (),
) -> Result:
    """Return the result of an ended job. `events` are its own, in order; `inputs` those whose content is
    known.
    """
    spec = job.spec
    ended = job.ended_at if job.ended_at is not None else job.submitted_at
    return Result(
        job=job.id,
        name=spec.name,
        user=job.user,
        queue=spec.queue,
        type=spec.type,
        phase=job.phase,
        submitted_at=job.submitted_at,
        started_at=job.first_started_at,
        ended_at=ended,
        reason=job.reason,
        attempts=job.attempt,
        seconds=seconds,
        gpu_seconds=gpu_seconds(events, ended),
        most_held=max((event.held or 0 for event in events), default=0),
        command=command(spec),
        workdir=spec.workdir,
        params=spec.params,
        env=_environment(job),
        metrics=metrics(reports, job.progress),
        code="" if settled is None else settled.code,
        data="" if settled is None else settled.data,
        image=spec.image,
        inputs=inputs,
        outputs=job.artefacts,
        trial=spec.trial,
        key=job.key,
        same_as=job.same_as,
        fingerprint="" if settled is None else settled.fingerprint,
        # The result itself names the end; an interval left open by a dead server is closed here.
        profile=None if run is None else replace(run, phase=job.phase),
    )


def _environment(job: Job) -> tuple[tuple[str, str], ...]:
    """Return its variables with digests of their values; for a secret, of its name."""
    said = [*job.spec.env, *((name, f"secret {secret}") for name, secret in job.spec.secrets)]
    return tuple((name, short_digest((job.user, name, value))) for name, value in sorted(said))


def gpu_seconds(events: Iterable[Event], until: float) -> float:
    """Return the GPUs × seconds that a job held, by its events; shares count as fractions."""
    total, held, since = 0.0, 0, 0.0
    for event in events:
        if event.held is not None:
            total += held * max(0.0, event.at - since)
            held, since = event.held, event.at
    return (total + held * max(0.0, until - since)) / GPU


def metrics(reports: Iterable[Reported], last: Iterable[tuple[str, float]]) -> tuple[Metric, ...]:
    """Return each reported metric; `last` is the job's own record, and counts as newest."""
    values: dict[str, list[float]] = {}
    for one in sorted(reports, key=lambda report: report.number):
        for name, value in one.figures:
            values.setdefault(name, []).append(value)
    for name, value in last:
        values.setdefault(name, []).append(value)
    return tuple(Metric(name, seen[-1], min(seen), max(seen)) for name, seen in sorted(values.items()))


class Results:
    """Results for users: each sees those of the jobs that they may see. For any thread."""

    def __init__(self, store: Store, sight: JobVisibility) -> None:
        self._store = store
        self._sight = sight

    def of(self, user: User, id_: JobId) -> Result:
        """Return the result. Raises NotFound, and Conflict for a job that has not ended."""
        try:
            found = self._store.get(RESULTS, id_)
        except NotFound:
            self._require_end(user, id_)
            raise
        if not self._sees(user, found):
            raise NotFound(f"there is no run {id_}")
        return found

    def listed(
        self,
        user: User,
        *,
        mine: bool = False,
        queue: QueueName | None = None,
        name: str | None = None,
        limit: int | None = None,
        after: JobId | str | None = None,
    ) -> list[Result]:
        """Return results, last ended first; `after` is the last job of the page before."""
        whose = user.name if mine else None
        at = None if after is None else self._position(user, JobId(after))
        found: list[Result] = []
        while limit is None or len(found) < limit:
            want = PAGE if limit is None else max(limit - len(found), 1)
            page = self._store.find(RESULTS, user=whose, queue=queue, name=name, limit=want, after=at)
            found += [one for one in page if self._sees(user, one)]
            if len(page) < want:
                break
            at = (page[-1].ended_at, page[-1].job)
        return found

    def _position(self, user: User, id_: JobId) -> tuple[float, JobId]:
        found = self.of(user, id_)
        return found.ended_at, found.job

    def _sees(self, user: User, result: Result) -> bool:
        return rbac.sees_job(user, Owner(result.user, result.queue), self._sight.by_name)

    def _require_end(self, user: User, id_: JobId) -> None:
        """Raise if the job has not ended yet: a live job is not a run that is missing."""
        try:
            job = self._store.job(id_)
        except NotFound:
            return
        if self._sight.job(user, id_):
            state = "has just ended; its run is being written" if job.terminal else f"is {job.phase.value}"
            raise Conflict(f"job {id_} {state}: runs are those that have ended")
