"""Stages of which nothing has changed since an earlier run are not run again: its outputs are theirs.

A stage that leaves something is compared when all that it comes after has succeeded: only then is known what
it would be given. Until then it is held back (`dependencies`). All that its outputs depend on goes into its
key; the same user's run with the same key, whose outputs are still there, stands for it. That the earlier
run really ran the code that its key names is asked again of what was read when it began.

Reads the disk, and so has a thread of its own. What is compared follows from the store alone: after a restart
the loop asks again for every stage that has no key.
"""

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from grus.controlplane import code_reading, handing_on, lifecycle
from grus.controlplane.code_reading import Own
from grus.controlplane.lifecycle import Change
from grus.model.artefacts import Artefact
from grus.model.errors import Fenced, GrusError, NotFound, StaleVersion
from grus.model.identifiers import JobId, NodeId, UserName
from grus.model.jobs import Desired, Job, JobType, Phase, Spec
from grus.model.ports import Store
from grus.model.results import Result

log = logging.getLogger(__name__)

FORM = 1
"""Of the key: another one makes every stage run once more."""
MOST_TRIES = 20
PAUSE = 1.0
"""Seconds before a comparison that met trouble is tried again."""
COARSE = 0.05
"""Seconds by which the time of a file may lag behind the clock."""
RECENT = 500
"""Jobs that have ended and whose results are not written yet, looked at besides."""

Holds = Callable[[UserName, Artefact], bool]
"""Whether an artefact of a user is still there."""


def uncompared(job: Job) -> bool:
    """Whether it is to be compared with earlier runs before it may start."""
    return (
        job.spec.graph is not None
        and bool(job.spec.outputs or job.spec.inputs)
        and not job.key
        and job.phase is Phase.PENDING
        and job.desired is Desired.RUN
        and not job.attempt
    )


def key_of(job: Job, code: str, data: str, inputs: Sequence[tuple[str, str]]) -> str:
    """Of everything that the job's outputs depend on; names, sizes and priorities are not among it.

    `inputs` are the digests of what it is given, by the names that it has for them.
    """
    told = (FORM, _work(job.spec), code, job.files, data, sorted(inputs))
    return hashlib.sha256(repr(told).encode(errors="surrogatepass")).hexdigest()


def _work(spec: Spec) -> tuple[object, ...]:
    roles = [(role.name, role.run, role.image) for role in spec.request.roles if role.run]
    outputs = sorted((output.name, output.path) for output in spec.outputs)
    named = (spec.secrets,) if spec.secrets else ()  # absent from keys written before there were secrets
    return (spec.run, spec.setup, roles, spec.image, spec.params, sorted(spec.env), outputs, *named)


def usable(found: Result, spec: Spec, now: Own) -> bool:
    """Whether the earlier run, which has the same key, has run this very code and left everything.

    The key says what the code was shortly before it began. Either none of those files was touched since, or
    all code was the same when it had begun. One that never began took over what another had left, after the
    same question.
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
        self._news, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="skipping", daemon=True)

    # ------------------------------------------------------------------------------------------- life

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Idempotent. What is left is asked for again by the next server."""
        self._closing.set()
        self._news.set()
        if self._thread.is_alive():
            self._thread.join()

    def ask(self, job: JobId) -> None:
        """Compare this stage. Waits for nobody; may be repeated."""
        with self._lock:
            self._asked[job] = None
        self._news.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._news.wait()
            self._news.clear()
            while not self._closing.is_set() and self._next() is not None:
                self.step()

    def _next(self) -> JobId | None:
        with self._lock:
            return next(iter(self._asked), None)

    # ---------------------------------------------------------------------------------------- working

    def step(self) -> None:
        """Compare what was asked for first."""
        id_ = self._next()
        if id_ is None:
            return
        with self._lock:
            self._asked.pop(id_, None)
        try:
            self._settle(id_)
        except Fenced:
            self._closing.set()  # another control plane compares from now on
        except Exception as error:  # noqa: BLE001 - the edge of the thread: the stages behind it go on
            log.error("stage %s could not be compared with earlier runs; tried again: %s", id_, error)
            self._closing.wait(PAUSE)
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
                continue  # somebody wants something else of it meanwhile
            return
        raise GrusError(f"job {id_} changes too fast")

    def compared(self, job: Job) -> Change:
        """The job with its key: it has succeeded already if an earlier run stands for it."""
        near = self._near(job)
        inputs = self._inputs(job)
        if inputs is None or not job.spec.outputs or job.spec.type is not JobType.TRAIN:
            # What leaves nothing runs each time. If something is missing, whoever starts it says what.
            return lifecycle.keyed(job, f"none-{job.id}", near)
        own = code_reading.own(self._store, job)
        key = key_of(job, own.part, own.data, inputs)
        earlier = None if job.spec.fresh else self._earlier(job, key, own)
        if earlier is None:
            return lifecycle.keyed(job, key, near)
        return lifecycle.unchanged(job, key, earlier.job, earlier.outputs, self._clock())

    def _inputs(self, job: Job) -> list[tuple[str, str]] | None:
        given = handing_on.given(self._store.job, job.spec)
        found = [(one.input.name, one.artefact.digest) for one in given if one.artefact]
        return found if len(found) == len(given) else None

    def _earlier(self, job: Job, key: str, now: Own) -> Result | None:
        kept = self._store.result_by_key(job.user, key)
        known = [] if kept is None else [kept]
        for found in (*known, *self._recent(job, key)):
            if usable(found, job.spec, now) and all(self._holds(job.user, one) for one in found.outputs):
                return found
        return None

    def _recent(self, job: Job, key: str) -> Iterator[Result]:
        """Those that have just ended, and whose results are not written yet."""
        for one in self._store.without_result(RECENT):
            if one.key == key and one.user == job.user and one.phase is Phase.SUCCEEDED:
                yield _brief(one)


def _brief(job: Job) -> Result:
    """As much of a result as is asked here."""
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
