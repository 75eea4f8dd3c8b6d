"""A real `grus` server on a virtual pool, real jobs that wait at gates, and the kernel as a witness.

The words are those of `tests.scheduler.world`, so that a history reads the same through the pure core and
through the whole product. `settle` does not wait for some time but for a proof that nothing moves any more.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from grus.api.wire_types.job import EventOut, JobOut
from grus.model.jobs import HOLDING, TERMINAL, Phase
from grus.sdk.client import Client, Handle
from tests.live import witness
from tests.live.gates import Gate
from tests.server.process import Process, ServerProcess, eventually, start

PATIENCE = 300.0
"""Seconds; the deadline is for broken code only."""
PROBE = "probe"
RESTING = {Phase.PENDING, Phase.PAUSED, Phase.RUNNING} | TERMINAL
QueueRules = Mapping[str, float]


class LivePool(ServerProcess):
    """Use it as a context manager: on the way out everything ends, and nothing may be left."""

    def __init__(self, folder: Path, pool: str, **queues: QueueRules) -> None:
        super().__init__(folder / "home")
        self._work = folder
        self._config = _config(pool, queues)
        self.more = ""
        """What else stands in the server's settings."""
        self._gates: dict[str, Gate] = {}
        self.handles: dict[str, Handle] = {}

    # ------------------------------------------------------------------------------ life of the server

    def launch(self) -> Process:
        self.home.mkdir(exist_ok=True)
        self.places.config_file.write_text(self._config + self.more)
        return start("grus.cli.main", "up", "--foreground", env=self.env, said=self.said)

    def __enter__(self) -> Self:
        try:
            self.start()
            self.grus: Client = self.client()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.end()
        finally:
            self.grus.close()
            for gate in self._gates.values():
                gate.open()
        eventually(lambda: not witness.related(self.home), "all processes are gone", PATIENCE)

    # --------------------------------------------------------------------------------- what a test does

    def submit(self, name: str, queue: str = "default", gpus: int | str = 1, **more: object) -> Handle:
        """A job that waits at its gate; its first line can be replaced by `run`."""
        gate = self._gates[name] = Gate(self._work / name)
        job = {
            "name": name,
            "queue": queue,
            "run": ["cat", str(gate.path)],
            "resources": {"gpu": gpus},
            "checkpoint": {"grace": "5s"},
            "resize": "live",
            "workdir": str(self._work),
            **more,
        }
        handle = self.handles[name] = self.grus.submit(job)
        return handle

    def submit_many(self, queue: str, count: int, **more: object) -> list[str]:
        names = [f"{queue}-{number:02}" for number in range(count)]
        for name in names:
            self.submit(name, queue, **more)  # type: ignore[arg-type]  # the fields of a job
        return names

    def run(self, name: str, queue: str = "default", gpus: int | str = 1, **more: object) -> None:
        """Submit and wait until nothing moves."""
        self.submit(name, queue, gpus, **more)
        self.settle()

    def finish(self, name: str) -> None:
        """Let the job go to its own end, and wait until that and all that follows from it is done."""
        self._gates[name].open()
        assert self.handles[name].wait(PATIENCE).phase == "succeeded"
        self.settle()

    def delete(self, name: str) -> None:
        self.handles[name].stop()
        assert self.handles[name].wait(PATIENCE).phase == "stopped"
        self.settle()

    def settle(self) -> None:
        """Wait until nothing moves any more without outside events.

        A probe that needs no GPU is submitted and runs: then everything before it has been decided upon. When
        nothing but the probe has moved meanwhile, and nothing is on its way, the pool is at rest.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            eventually(self._resting, "no job is between two phases", PATIENCE)
            before = self._last_news()
            self._probe()
            if self._resting() and self._last_news() == before:
                break
            assert time.monotonic() < deadline, "the pool does not come to rest"
        self.check()

    def _resting(self) -> bool:
        jobs = self.jobs().values()
        return all(Phase(job.phase) in RESTING for job in jobs) and not any(
            seat.leaving for job in jobs for seat in job.seats
        )

    def _last_news(self) -> int:
        probes = {job.id for job in self.grus.jobs(limit=1000) if job.name == PROBE}
        return max((event.seq for event in self.events() if event.job not in probes), default=0)

    def _probe(self) -> None:
        job = {"name": PROBE, "run": ["true"], "resources": {"gpu": 0}, "workdir": "/"}
        assert self.grus.submit(job).wait(PATIENCE).phase == "succeeded"

    # ------------------------------------------------------------------------------------ what is seen

    def check(self) -> None:
        """What Grus says and what the kernel says is the same, and no GPU is given to two."""
        seen = witness.workers(self.home)
        taken: list[str] = []
        for name, job in self.jobs().items():
            held = sorted(device for seat in job.seats for device in seat.devices)
            used = sorted(device for one in seen if one.job == job.id for device in one.devices(job.launch))
            assert used == held, (name, job, seen)
            assert bool(held) == (Phase(job.phase) in HOLDING), (name, job)
            taken += used
        assert len(taken) == len(set(taken)), seen

    def jobs(self) -> dict[str, JobOut]:
        return {job.name: job for job in self.grus.jobs(limit=1000) if job.name != PROBE}

    def __getitem__(self, name: str) -> JobOut:
        return self.handles[name].refresh()

    def running(self, queue: str | None = None) -> set[str]:
        return self._in(Phase.RUNNING, queue)

    def paused(self, queue: str | None = None) -> set[str]:
        return self._in(Phase.PAUSED, queue)

    def waiting(self, queue: str) -> set[str]:
        return self._in(Phase.PENDING, queue) | self._in(Phase.PAUSED, queue)

    def held(self, queue: str) -> float:
        return sum(job.gpus for job in self.jobs().values() if job.queue == queue)

    def pids(self, name: str) -> set[int]:
        """Of the living processes of a job, as the kernel tells it."""
        return {one.pid for one in witness.workers(self.home) if one.job == self.handles[name].id}

    def events(self, kind: str | None = None) -> list[EventOut]:
        """All so far, oldest first."""
        found: list[EventOut] = []
        while page := self.grus.events(after=found[-1].seq if found else 0):
            found += page
        return [event for event in found if kind is None or event.kind == kind]

    def starts(self, queue: str | None = None) -> list[str]:
        """Names of the jobs in the order of their starts."""
        names = {job.id: name for name, job in self.jobs().items() if queue is None or job.queue == queue}
        return [names[event.job] for event in self.events("starting") if event.job in names]

    def pauses(self) -> list[EventOut]:
        return self.events("pausing")

    def _in(self, phase: Phase, queue: str | None) -> set[str]:
        return {
            name
            for name, job in self.jobs().items()
            if job.phase == phase and (queue is None or job.queue == queue)
        }


def _config(pool: str, queues: Mapping[str, QueueRules]) -> str:
    lines = ["[server]", "port = 0", f'pool = "virtual {pool}"']
    for name, rules in queues.items():
        lines += [f"[queues.{name}]", *(f"{field} = {value}" for field, value in rules.items())]
    return "\n".join(lines) + "\n"


def two_queues(folder: Path, a: float = 2, b: float = 2) -> LivePool:
    """Four GPUs and the queues a and b with these quotas."""
    return LivePool(folder, "1x4x1GB", a={"quota": a}, b={"quota": b})
