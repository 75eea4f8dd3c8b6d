"""A pool of Grus: a run is a job of it. Its folder lies where the pool's nodes see it too.

Grus may pause a job for others and start it again: such a run was not one run, and counts as ended by the
environment. The jobs stay in the pool's history, as all jobs do.
"""

import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from grus.api.wire_types.job import JobOut
from grus.api.wire_types.timestamps import parse_time
from grus.compare import preflight, records
from grus.compare.backends import staging
from grus.compare.backends.run_wait import PollSchedule
from grus.compare.backends.staging import StagingFolder
from grus.compare.environments import (
    CODE,
    SAMPLER,
    Check,
    CollectedFiles,
    DriverFailed,
    Ending,
    EndingKind,
    Environment,
    ManualStep,
    Order,
    Started,
    Tell,
)
from grus.compare.workload import Workload
from grus.model.errors import GrusError
from grus.model.jobs import TERMINAL, Phase
from grus.model.texts.plural_words import counted
from grus.sdk.client import Client

T = TypeVar("T")
KEPT = ("affinity", "image", "node_selector", "pod", "priority", "queue", "resources", "type")
"""Fields of the job that hold here as they are; the sampler sees to the rest."""
PROBE = "probe"
PROBE_PATIENCE = 900.0
"""Seconds that the probe may wait for its turn."""
SLACK = 300.0
"""Seconds beyond the workload's own limit: for the setup, and so that the sampler ends it, not Grus."""
LOOK = 0.3
"""Seconds between two looks at a job."""
GONE_PATIENCE = 90.0
PIECE = 1 << 20
MOST_JOBS = 1000


class Grus:
    """One server, as one of its users."""

    def __init__(
        self,
        environment: Environment,
        *,
        base: Path | None = None,
        watch: PollSchedule = PollSchedule(clock=time.time, pause=time.sleep, every=LOOK),  # noqa: B008 - a value
    ) -> None:
        self._environment = environment
        self._base = base
        self._watch = watch
        self._client: Client | None = None
        self._key = ""
        self._stage: StagingFolder | None = None
        self._workload: Workload | None = None
        self._one_clock = True
        self._nodes: dict[str, str] = {}
        """Last known node of each job; an ended one has no nodes."""

    @property
    def environment(self) -> Environment:
        return self._environment

    def prepare(self, workload: Workload, bundle: Path) -> tuple[ManualStep, ...]:
        self._key = staging.key(self._environment, bundle)
        self._workload = workload
        self._take_back(self._left())
        self._stage = StagingFolder((self._base or staging.usual_base()) / self._key)
        self._stage.set_up(bundle)
        (self._stage.folder / "probe.py").write_text(preflight.source())
        if not self._environment.target:
            return ()
        return (ManualStep(what="get a token of the pool and put it into GRUS_TOKEN", why="credentials"),)

    def preflight(self, workload: Workload) -> tuple[Check, ...]:
        try:
            status = self._here.status()
        except GrusError as why:
            fix = "start it (grus up), or name it: --env grus=http://HOST:PORT, with GRUS_TOKEN"
            return (preflight.unreachable(str(why), fix),)
        found = f"Grus {status.version} at {self._here.address}, as {status.user}"
        return (preflight.reachable(found), *self._probed(workload))

    def start(self, order: Order) -> Started:
        name = self._name(order.name)
        self._take_back([job for job in self._left() if job.name == name])
        file = self._place.order(order.name, order.text())
        at = self._watch.clock()
        handle = self._submit(order.name, ["python3", SAMPLER, str(file), str(self._place.run(order.name))])
        return Started(order=order, handle=handle, submitted_at=at)

    def wait(self, started: Started, seconds: float, tell: Tell) -> Ending:
        job = self._until_over(started.handle, started.submitted_at + seconds, tell)
        if not _over(job):
            self._take_back([job])
            why = f"it was {job.status}: {job.reason}" if job.reason else f"it was {job.status}"
            return Ending(end=EndingKind.TIMED_OUT, why=why, node=self._nodes.get(started.handle, ""))
        record = self.collect(started).record
        end, why = self._end(job, record)
        had = _moment(job.first_started_at)
        return Ending(
            end=end,
            why=why,
            queued=staging.span(_moment(job.submitted_at), had),
            startup=staging.span(had, records.began(record)) if self._one_clock else None,
            node=self._nodes.get(started.handle, ""),
        )

    def collect(self, started: Started) -> CollectedFiles:
        return self._place.collected(started.order)

    def clean_up(self) -> None:
        if self._key and self._client is not None:
            self._take_back(self._left())
            self._client.close()
            self._client = None
        if self._stage is not None:
            self._stage.remove()

    # ----------------------------------------------------------------------------------------------- inside

    @property
    def _here(self) -> Client:
        if self._client is None:
            self._client = Client(self._environment.target or None)
        return self._client

    @property
    def _place(self) -> StagingFolder:
        if self._stage is None:
            raise DriverFailed(f"{self._environment}: prepare it first")
        return self._stage

    def _name(self, run: str) -> str:
        return f"{self._prefix}{staging.short(run)}"

    @property
    def _prefix(self) -> str:
        return f"compare-{self._key}-"

    def _submit(self, run: str, words: Sequence[str]) -> str:
        workload = self._workload
        assert workload is not None, "prepare sets both"
        given = workload.job.model_dump(exclude_unset=True, by_alias=True, include=set(KEPT))
        job = {
            **given,
            "name": self._name(run),
            "run": list(words),
            "launch": "once",
            "workdir": str(self._place.bundle),
        }
        if workload.limit is not None:
            job["max_runtime"] = workload.limit + SLACK
        return self._asked(lambda here: here.submit(job, key=uuid.uuid4().hex).id)

    def _asked(self, ask: Callable[[Client], T]) -> T:
        try:
            return ask(self._here)
        except GrusError as why:
            raise DriverFailed(f"{self._environment}: {why}") from why

    def _probed(self, workload: Workload) -> tuple[Check, ...]:
        before = self._watch.clock()
        code = str(self._place.bundle / CODE)
        try:
            file = self._place.order(PROBE, preflight.instructions(workload, code))
            handle = self._submit(PROBE, ["python3", "../probe.py", str(file)])
            job = self._until_over(handle, before + PROBE_PATIENCE, lambda _: None)
            if not _over(job):
                self._take_back([job])
                fix = "ask for less, or compare when the pool is free: see grus why"
                return (preflight.unseen(f"it waited {PROBE_PATIENCE:.0f} s: {job.reason}", fix),)
            printed = self._log(handle)
        except DriverFailed as why:
            return (preflight.unseen(str(why), "see grus pool for what there is"),)
        found = preflight.found_in(printed)
        if found is None:
            fix = "the pool's nodes must see its folder and have python3; GRUS_SHARED names another folder"
            return (preflight.unseen(printed.strip()[-300:] or job.reason or "it printed nothing", fix),)
        checks = preflight.judged(found, workload, (before, self._watch.clock()))
        self._one_clock = preflight.clocks_agree(checks)
        return (*checks, *preflight.without_image(workload.image))

    def _until_over(self, handle: str, until: float, tell: Tell) -> JobOut:
        def look() -> JobOut:
            job = self._asked(lambda here: here.job(handle))
            if job.nodes:
                self._nodes[handle] = ", ".join(job.nodes)
            return job

        def word(job: JobOut) -> str:
            return f"{job.status} {job.reason}".strip()

        return self._watch.until(_over, look, word=word, deadline=until, tell=tell)

    def _end(self, job: JobOut, record: str) -> tuple[EndingKind, str]:
        if job.attempt > 1:
            return (
                EndingKind.KILLED,
                f"Grus started it {counted(job.attempt, 'time')}: it had to make room, or its node failed",
            )
        if staging.ended(record) and job.phase == Phase.SUCCEEDED:
            return EndingKind.ENDED, ""
        told = job.exit.text if job.exit and job.exit.text else job.reason or job.phase
        lines = self._log(job.id).strip().splitlines() if not record else []
        why = f"{told}: {lines[-1]}" if lines else told
        return (EndingKind.KILLED if record else EndingKind.NEVER_STARTED), why

    def _log(self, handle: str) -> str:
        """All that it printed."""
        data, offset = b"", 0
        while True:
            piece, offset = self._asked(lambda here, at=offset: here.log(handle, offset=at, limit=PIECE))  # type: ignore[misc]  # mypy cannot infer lambdas with defaults
            if not piece:
                return data.decode(errors="replace")
            data += piece

    def _left(self) -> list[JobOut]:
        """Return this comparison's jobs that have not ended, from any process that submitted them."""
        alive = [str(phase) for phase in Phase if phase not in TERMINAL]
        found = self._asked(lambda here: here.jobs(phases=alive, mine=True, limit=MOST_JOBS))
        return [job for job in found if job.name.startswith(self._prefix)]

    def _take_back(self, jobs: Sequence[JobOut]) -> None:
        """Stopped, and gone: what still runs would be measured with the next run."""
        for job in jobs:
            self._asked(lambda here, id=job.id: here.stop(id))  # type: ignore[misc]  # as above
        until = self._watch.clock() + GONE_PATIENCE
        for job in jobs:
            if not _over(self._until_over(job.id, until, lambda _: None)):
                raise DriverFailed(f"{self._environment}: {job.id} does not end: grus describe {job.id}")


def _over(job: JobOut) -> bool:
    return Phase(job.phase) in TERMINAL


def _moment(text: str | None) -> float | None:
    return parse_time(text) if text else None
