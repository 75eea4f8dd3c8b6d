"""A whole control plane in this process, on real workers: loop, SQLite and the local engine on virtual GPUs.

    with Pool(tmp_path, gpus=4) as pool:
        job = pool.submit([sys.executable, "train.py"], gpu="1..4", env={"SEED": "1"})
        pool.until(lambda: pool.size(job) == 4)
        pool.kill(job, 0)

Ranks are those of the job's present team. Nothing here sleeps in place of a condition; `until` waits for one.
On the way out every job is stopped, and no process may be left.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.controlplane.facade.services import Services
from grus.controlplane.jobs import worker_group_membership
from grus.controlplane.reconciler.loop import ControlLoop
from grus.controlplane.settings import Settings
from grus.controlplane.workers.worker_launch_spec import Member, members
from grus.engines.local.engine import LocalEngine
from grus.model.errors import Conflict, NotFound
from grus.model.identifiers import JobId, UserName, WorkerId
from grus.model.interfaces import USERS, AccessRole, Event, User, WorkerState, WorkerStatus
from grus.model.jobs import TERMINAL, Job, Phase
from grus.model.resources import Range
from grus.store.sqlite import SqliteStore
from grus.telemetry.virtual_gpus import VirtualSource
from tests.live import witness
from tests.waiting import poll

T = TypeVar("T")
ROOT = User(name=UserName("root"), role=AccessRole.ADMIN)
PATIENCE = 300.0
"""Seconds; the deadline is for broken code only."""
SHOWN_LOG = 4000
"""Characters of each log that a failure shows."""
INHERITED = ("PATH", "HOME", "LANG", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "TMPDIR", "ONEDNN_MAX_CPU_ISA")


class Pool:
    """Use it as a context manager. `restart` replaces the control plane; the workers go on meanwhile."""

    def __init__(self, folder: Path, gpus: int = 4, **settings: Any) -> None:
        self.folder = folder
        self.home = folder / "grus"
        self._source = f"1x{gpus}x4GB"
        environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
        environment["OMP_NUM_THREADS"] = "1"
        python = os.path.dirname(sys.executable)
        environment["PATH"] = os.pathsep.join([python, environment.get("PATH", os.defpath)])  # as clients do
        self._settings = Settings(state=self.home, environment=tuple(environment.items()), **settings)

    # ---------------------------------------------------------------------------------------- its life

    def __enter__(self) -> Self:
        self.home.mkdir(parents=True, exist_ok=True)
        self.begin()
        return self

    def begin(self) -> None:
        """A control plane takes over."""
        self.store = SqliteStore(self.home / "grus.db")
        self.store.put(USERS, ROOT).result()
        self.engine = LocalEngine(self.home / "engine", VirtualSource(self._source))
        self.loop = ControlLoop(self.store, self.engine, settings=self._settings)
        self.loop.start()
        self.services = Services(self.store, self.engine, self.loop, settings=self._settings)

    def end(self) -> None:
        """The control plane goes away; whatever runs goes on."""
        self.services.close()
        self.loop.close()
        self.engine.close()
        self.store.close()

    def restart(self) -> None:
        self.end()
        self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            left = tuple(phase for phase in Phase if phase not in TERMINAL)
            for job in self.store.jobs(phases=left):
                with suppress(Conflict):  # it has ended meanwhile
                    self.services.actions.stop(ROOT, job.id)
            for status in self.engine.workers():
                self.engine.stop(status.id, 0.0)
            self.until(lambda: not self.store.jobs(phases=left))
        finally:
            self.end()
        self.until(lambda: not witness.related(self.home))

    # ---------------------------------------------------------------------------------- what one asks for

    def submit(
        self, run: Sequence[str] | str, gpu: int | str = 1, size: int | None = None, **fields: Any
    ) -> JobId:
        """A job in the words of the job file; `env` and all other fields may be given. It begins with `size`
        workers, if that is said, and may be scaled afterwards."""
        given = {
            "name": "job",
            "run": run if isinstance(run, str) else list(run),
            "resources": {"gpu": gpu},
            "launch": "per-gpu",
            "checkpoint": {"grace": "20s"},
            "workdir": str(self.folder),
            **fields,
        }
        with self.loop.snapshot():  # nothing is decided before the size is known too
            job = self.services.actions.submit(ROOT, to_spec(JobIn.model_validate(given))).result().id
            if size is not None:
                self.scale(job, size)
        return job

    def scale(self, job: JobId, size: int) -> None:
        self.services.actions.scale(ROOT, job, Range(size, size))

    def pause(self, job: JobId) -> None:
        self.services.actions.pause(ROOT, job)

    def resume(self, job: JobId) -> None:
        self.services.actions.resume(ROOT, job)

    def stop(self, job: JobId) -> None:
        self.services.actions.stop(ROOT, job)

    def kill(self, job: JobId, rank: int, number: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal to the member of this rank; its pid."""
        pid = self.pids(job)[rank]
        os.kill(pid, number)
        return pid

    # ------------------------------------------------------------------------------------- what one sees

    def job(self, job: JobId) -> Job:
        return self.store.job(job)

    def phase(self, job: JobId) -> Phase:
        return self.store.job(job).phase

    def team(self, job: JobId) -> tuple[Member, ...]:
        """Its members by rank."""
        return worker_group_membership.team(self.store.job(job))

    def size(self, job: JobId) -> int:
        return len(self.team(job))

    def number(self, job: JobId) -> int:
        return self.store.job(job).team

    def pids(self, job: JobId) -> dict[int, int]:
        """Of the main processes of the team's living members, by rank."""
        found = {rank: self._status(member.id) for rank, member in enumerate(self.team(job))}
        return {
            rank: status.pid
            for rank, status in found.items()
            if status is not None and status.pid is not None and status.state is not WorkerState.ENDED
        }

    def joiners(self, job: JobId) -> dict[int, int]:
        """Pids of living workers that are no members, by the number of their seat."""
        apart = [one for one in members(self.store.job(job)) if not one.seats[0].joined]
        found = {one.seats[0].index: self._status(one.id) for one in apart}
        return {
            index: status.pid
            for index, status in found.items()
            if status is not None and status.pid is not None and status.state is not WorkerState.ENDED
        }

    def events(self, job: JobId, kind: str | None = None) -> list[Event]:
        return [one for one in self.store.events(job=job) if kind is None or one.kind == kind]

    def reports(self, job: JobId) -> dict[int, dict[str, Any]]:
        """The last line that each member has written, by rank."""
        lines = {rank: self.engine.report(member.id) for rank, member in enumerate(self.team(job))}
        return {rank: json.loads(line) for rank, line in lines.items() if line}

    def logs(self, job: JobId) -> dict[WorkerId, str]:
        """Everything that each worker of the present attempt has printed, gone ones included."""
        found = {}
        folder = self.home / "engine" / "logs" / job
        for worker in sorted(one.name for one in folder.iterdir()) if folder.exists() else []:
            with suppress(NotFound):
                found[WorkerId(worker)] = self.engine.log(WorkerId(worker), 0, 1 << 20)[0].decode()
        return found

    def until(self, condition: Callable[[], T | None], seconds: float = PATIENCE) -> T:
        """Wait for it to hold and return what it gave; the deadline is for broken code only."""
        found = poll(condition, seconds)
        assert found, f"waited in vain:\n{self._picture()}"
        return found

    def until_phase(self, job: JobId, *phases: Phase, seconds: float = PATIENCE) -> Job:
        """Wait for one of these phases; a job that ended in another one never reaches them."""
        self.until(lambda: self.phase(job) in {*phases, *TERMINAL}, seconds)
        found = self.job(job)
        assert found.phase in phases, f"{found.phase}:\n{self._picture()}"
        return found

    def until_size(self, job: JobId, size: int, seconds: float = PATIENCE) -> None:
        """Wait for a team of so many, all of whose members the job still counts on."""
        self.until(lambda: self.size(job) == size, seconds)

    def _status(self, worker: WorkerId) -> WorkerStatus | None:
        return next((one for one in self.engine.workers() if one.id == worker), None)

    def _picture(self) -> str:
        """Everything that helps to see why something did not happen."""
        with suppress(Conflict):
            jobs = [
                f"{job.id} {job.phase} {job.reason} team {job.team} {job.seats}" for job in self.store.jobs()
            ]
            events = [f"{event.kind}: {event.text}" for event in self.store.events()[-30:]]
            logs = [
                f"log of {worker}:\n{text[-SHOWN_LOG:]}"
                for job in self.store.jobs()
                for worker, text in self.logs(job.id).items()
            ]
            return "\n".join([*jobs, *events, *(f"{one}" for one in self.engine.workers()), *logs])
        return ""
