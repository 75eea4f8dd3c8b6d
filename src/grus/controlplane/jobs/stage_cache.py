"""Result reuse: a workflow stage that is unchanged since an earlier run is skipped and takes over its
outputs.

A stage with outputs is compared when all its dependencies have succeeded: only then its inputs are known.
Until then it is held back (`dependencies`). Its key covers everything that its outputs depend on; an earlier
run of the same user with the same key, whose outputs are still there, replaces it. That the earlier run
really ran the code that its key names is checked against what was read when it started.

Reads the disk, and so has a thread of its own. What is compared follows from the store alone: after a restart
the loop asks again for every stage that has no key.
"""

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from grus.concurrency.background_thread import BackgroundThread
from grus.controlplane.fingerprint import code_digest
from grus.controlplane.fingerprint.code_digest import StageCode
from grus.controlplane.jobs import lifecycle
from grus.controlplane.jobs.lifecycle import JobChange
from grus.controlplane.workers import artifact_inputs_outputs
from grus.model.artifacts import Artifact
from grus.model.errors import Fenced, GrusError, NotFound, StaleVersion
from grus.model.identifiers import JobId, NodeId, UserName
from grus.model.interfaces import RESULTS, Store
from grus.model.jobs import Desired, Job, JobType, Phase, Spec
from grus.model.results import Result

log = logging.getLogger(__name__)

FORM = 1
"""Version of the key format: a new one makes every stage run once more."""
MOST_TRIES = 20
PAUSE = 1.0
"""Seconds before a failed comparison is tried again."""
COARSE = 0.05
"""Seconds by which the time of a file may lag behind the clock."""
RECENT = 500
"""Ended jobs whose results are not written yet, which are also examined."""

Holds = Callable[[UserName, Artifact], bool]
"""Predicate: an artifact of a user is still there."""


def uncompared(job: Job) -> bool:
    """Return whether it must be compared with earlier runs before it may start."""
    return (
        job.spec.graph is not None
        and bool(job.spec.outputs or job.spec.inputs)
        and not job.key
        and job.phase is Phase.PENDING
        and job.desired is Desired.RUN
        and not job.attempt
    )


def key_of(job: Job, code: str, data: str, inputs: Sequence[tuple[str, str]]) -> str:
    """Return the key of everything that the job's outputs depend on, which excludes names, sizes and
    priorities.

    `inputs` are the digests of its inputs, by the names that it has for them.
    """
    told = (FORM, _work(job.spec), code, job.files, data, sorted(inputs))
    return hashlib.sha256(repr(told).encode(errors="surrogatepass")).hexdigest()


def _work(spec: Spec) -> tuple[object, ...]:
    roles = [(role.name, role.run, role.image) for role in spec.request.roles if role.run]
    outputs = sorted((output.name, output.path) for output in spec.outputs)
    named = (spec.secrets,) if spec.secrets else ()  # absent from keys written before there were secrets
    return (spec.run, spec.setup, roles, spec.image, spec.params, sorted(spec.env), outputs, *named)


def usable(found: Result, spec: Spec, now: StageCode) -> bool:
    """Return whether the earlier run, which has the same key, has run exactly this code and has all outputs.

    The key names the code shortly before the run started. Either none of those files was touched since, or
    all code was the same when it had started. A run that never started took over another run's outputs, after
    the same check.
    """
    untouched = now.changed_at < found.submitted_at - COARSE
    same = found.attempts == 1 and found.code == now.code
    ran_this = found.started_at is None or untouched or same
    return ran_this and {one.name for one in found.outputs} == {one.name for one in spec.outputs}


class Skipping:
    """`start` and `close` for a thread; `ask` and `step` to drive it by hand."""

    def __init__(
        self,
        store: Store,
        *,
        holds: Holds,
        near: Callable[[Job], tuple[NodeId, ...]],
        epoch: Callable[[], int],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._holds = holds
        self._near = near
        self._epoch = epoch
        self._clock = clock
        self._lock = threading.Lock()
        self._asked: dict[JobId, None] = {}
        self._thread = BackgroundThread("stage-cache", self._round, first=None)

    # --------------------------------------------------------------------------------- start and stop

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop. Idempotent. The next server asks again for what is left."""
        self._thread.close()

    def ask(self, job: JobId) -> None:
        """Compare this stage. Does not block; may be repeated."""
        with self._lock:
            self._asked[job] = None
        self._thread.wake()

    def _round(self) -> None:
        while not self._thread.closing.is_set() and self._next() is not None:
            self.step()

    def _next(self) -> JobId | None:
        with self._lock:
            return next(iter(self._asked), None)

    # ---------------------------------------------------------------------------------------- working

    def step(self) -> None:
        """Compare the stage that was requested first."""
        id_ = self._next()
        if id_ is None:
            return
        with self._lock:
            self._asked.pop(id_, None)
        try:
            self._settle(id_)
        except Fenced:
            self._thread.ask_to_close()  # another control plane compares from now on
        except Exception:  # thread boundary: the stages behind it continue
            log.exception("stage %s could not be compared with earlier runs; tried again", id_)
            self._thread.rest(PAUSE)
            self.ask(id_)

    def _settle(self, id_: JobId) -> None:
        for _ in range(MOST_TRIES):
            try:
                job = self._store.job(id_)
            except NotFound:
                return
            if not uncompared(job):
                return
            change = self.compared(job)
            try:
                self._store.replace(change.job, change.event, self._epoch()).result()
            except StaleVersion:
                continue  # a user has requested another action meanwhile
            return
        raise GrusError(f"job {id_} changes too fast")

    def compared(self, job: Job) -> JobChange:
        """Return the job with its key: it has succeeded already if an earlier run replaces it."""
        near = self._near(job)
        inputs = self._inputs(job)
        if inputs is None or not job.spec.outputs or job.spec.type is not JobType.TRAIN:
            # A stage without outputs runs each time. If an input is missing, the start reports it.
            return lifecycle.keyed(job, f"none-{job.id}", near)
        own = code_digest.own(self._store, job)
        key = key_of(job, own.part, own.data, inputs)
        earlier = None if job.spec.fresh else self._earlier(job, key, own)
        if earlier is None:
            return lifecycle.keyed(job, key, near)
        return lifecycle.unchanged(job, key, earlier.job, earlier.outputs, self._clock())

    def _inputs(self, job: Job) -> list[tuple[str, str]] | None:
        given = artifact_inputs_outputs.given(self._store.job, job.spec)
        found = [(one.input.name, one.artefact.digest) for one in given if one.artefact]
        return found if len(found) == len(given) else None

    def _earlier(self, job: Job, key: str, now: StageCode) -> Result | None:
        known = self._store.find(RESULTS, user=job.user, key=key, phase=Phase.SUCCEEDED, limit=1)
        for found in (*known, *self._recent(job, key)):
            if usable(found, job.spec, now) and all(self._holds(job.user, one) for one in found.outputs):
                return found
        return None

    def _recent(self, job: Job, key: str) -> Iterator[Result]:
        """Yield jobs that have just ended, and whose results are not written yet."""
        for one in self._store.without_result(RECENT):
            if one.key == key and one.user == job.user and one.phase is Phase.SUCCEEDED:
                yield _brief(one)


def _brief(job: Job) -> Result:
    """Return the part of a result that is needed here."""
    return Result(
        job=job.id,
        name=job.spec.name,
        user=job.user,
        queue=job.spec.queue,
        type=job.spec.type,
        phase=job.phase,
        submitted_at=job.submitted_at,
        started_at=job.first_started_at,
        ended_at=job.ended_at or job.submitted_at,
        attempts=job.attempt,
        outputs=job.artefacts,
        key=job.key,
    )
