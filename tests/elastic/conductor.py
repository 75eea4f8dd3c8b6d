"""A control plane as small as can be: it starts workers, names teams, and knows what everybody has done.

For what needs many teams in little time, or one exact moment. What the real control plane does is tested with
`harness.Pool`. Never imports torch; workers come from a `ForkServer`.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.fork_server import ForkServer

T = TypeVar("T")
PATIENCE = 300.0
"""Seconds; the deadline is for broken code only."""
WHOLE = 600.0
"""Seconds that a whole training may take, on a machine that does much else."""
PAUSE = 0.004
WHILE_GIVING = "giving"
"""What to write to die/NAME, for it to die when it begins to send its state to others."""
BACKENDS = {"gloo": "gloo", "nccl-like": "tests.elastic.nccl_like:NcclLike"}


@dataclass(slots=True, eq=False)
class Worker:
    name: str
    folder: Path
    pid: int
    birth: int
    bell: int
    address: str = ""


class Conductor:
    """One job. Use it as a context manager: it kills whoever is left."""

    def __init__(self, forks: ForkServer, folder: Path, backend: str = "gloo", **task: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "die").mkdir()
        (folder / "hold").mkdir()
        self.folder = folder
        self.number = 0
        self.broken = 0
        self._gate = 0
        self.members: list[Worker] = []
        self.workers: list[Worker] = []
        self._fork_server = forks
        self._environment = {"GRUS_BACKEND": BACKENDS[backend]}
        self._task = {"folder": str(folder), **task}
        self.gate(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            if self.alive(worker):
                os.kill(worker.pid, signal.SIGKILL)
        self.until(lambda: not any(self.alive(worker) for worker in self.workers))
        for worker in self.workers:
            os.close(worker.bell)

    # ------------------------------------------------------------------------------------- workers

    def alone(self, **task: Any) -> None:
        """Train from beginning to end with one process that knows of nobody."""
        self.gate(None)
        _, birth = self._fork_server.born(
            {"TRAINEE": json.dumps({**self._task, **task}), "NAME": "alone"}, self.folder / "alone.out"
        )
        self.until(lambda: self._fork_server.code(birth) is not None, WHOLE)
        assert self._fork_server.code(birth) == 0, (self.folder / "alone.out").read_text()

    def spawn(self, count: int = 1, environment: dict[str, str] | None = None, **task: Any) -> list[Worker]:
        """Start so many workers; returns when all have said their address."""
        new = [self.begin(environment, **task) for _ in range(count)]
        for worker in new:
            self.until(lambda worker=worker: self.heard(worker))  # type: ignore[misc]  # bound now
        return new

    def begin(self, environment: dict[str, str] | None = None, **task: Any) -> Worker:
        """Start one worker; returns at once."""
        name = f"w{len(self.workers)}"
        folder = self.folder / "workers" / name
        folder.mkdir(parents=True)
        os.mkfifo(folder / "bell")
        bell = os.open(folder / "bell", os.O_RDWR | os.O_NONBLOCK)
        given = {
            **self._environment,
            "NAME": name,
            "TRAINEE": json.dumps({**self._task, **task}),
            "GRUS_CONTROL": str(folder / "control"),
            "GRUS_REPORT": str(folder / "report"),
            "GRUS_BELL": str(folder / "bell"),
            "GRUS_HOST": "127.0.0.1",
            **(environment or {}),
        }
        worker = Worker(name, folder, *self._fork_server.born(given, folder / "out"), bell)
        self.workers.append(worker)
        return worker

    def heard(self, worker: Worker) -> str:
        """Its address, once it has said one."""
        assert self.alive(worker), f"{worker.name} ended:\n{self.output(worker)}"
        if not worker.address:
            worker.address = self.word(worker).get("address", "")
        return worker.address

    def word(self, worker: Worker) -> dict[str, Any]:
        """What it last said of itself."""
        with suppress(OSError, ValueError, IndexError):
            said: dict[str, Any] = json.loads((worker.folder / "report").read_bytes().split(b"\n")[-2])
            return {"at": said["at"], **said["elastic"]}
        return {}

    def output(self, worker: Worker) -> str:
        return (worker.folder / "out").read_text()

    def code(self, worker: Worker) -> int | None:
        return self._fork_server.code(worker.birth)

    def alive(self, worker: Worker) -> bool:
        return self.code(worker) is None

    def at(self, worker: Worker) -> tuple[int, int]:
        """The team and the number of steps that it has done."""
        try:
            team, step = (self.folder / "at" / worker.name).read_text().split()
        except (FileNotFoundError, ValueError):
            return 0, 0
        return int(team), int(step)

    def signal(self, worker: Worker, number: signal.Signals = signal.SIGKILL) -> None:
        with suppress(ProcessLookupError):  # it has gone by itself
            os.kill(worker.pid, number)

    def kill(self, *workers: Worker) -> None:
        for worker in workers:
            self.signal(worker)
        self.gone(*workers)

    def gone(self, *workers: Worker, seconds: float = PATIENCE) -> None:
        self.until(lambda: not any(self.alive(worker) for worker in workers), seconds)

    # --------------------------------------------------------------------------------------- orders

    def gate(self, steps: int | None) -> None:
        """Nobody goes beyond so many steps; None: to the end."""
        path = self.folder / "gate"
        self._gate = steps or 0
        if steps is None:
            path.unlink(missing_ok=True)
            return
        path.with_suffix(".new").write_text(str(steps))
        path.with_suffix(".new").replace(path)

    def publish(self, members: Sequence[Worker], *, lost: bool = False, **orders: Any) -> None:
        """Name the next team; who is no longer in it may go."""
        before, self.members = self.members, list(members)
        self.number += 1
        if lost:
            self.broken = self.number
        for worker in {*before, *members}:
            if self.alive(worker):
                self.tell(worker, leave=worker not in members, **orders)

    def tell(self, worker: Worker, **orders: Any) -> None:
        team = {
            "number": self.number,
            "members": [member.address for member in self.members],
            "me": self.members.index(worker) if worker in self.members else None,
            "broken": self.broken,
        }
        path = worker.folder / "control"
        path.with_suffix(".new").write_text(json.dumps({"team": team, **orders}))
        path.with_suffix(".new").replace(path)

    def pause(self) -> None:
        for worker in self.members:
            self.tell(worker, pause=True)
        self.gone(*self.members)

    def go_on(self, steps: int) -> int:
        """Let the present team do so many steps more, together; how many are done then.

        A change of team needs a boundary between two steps: the gate moves on until it has come.
        """
        goal = max(self._gate, max(self.at(one)[1] for one in self.members) + steps)
        self.gate(goal)
        deadline = time.monotonic() + PATIENCE
        while True:
            found = {self._at_work(one) for one in self.members}
            if all(team == self.number and step >= goal for team, step in found):
                return goal
            begun = [step for team, step in found if team]  # 0: it waits for the others' next boundary
            if begun and min(begun) >= goal:
                goal += 1
                self.gate(goal)
            assert time.monotonic() < deadline, f"waited in vain for step {goal}:\n{self.picture()}"
            time.sleep(PAUSE)

    def go_on_until_gone(self, *workers: Worker) -> None:
        """Steps go on until these have ended: however late they join, there is a boundary to do so."""

        def gone() -> bool:
            self.gate(max(self.at(one)[1] for one in self.members) + 1)
            return not any(self.alive(worker) for worker in workers)

        self.until(gone)

    def _at_work(self, worker: Worker) -> tuple[int, int]:
        assert self.alive(worker), f"{worker.name} ended with {self.code(worker)}:\n{self.output(worker)}"
        return self.at(worker)

    def until(self, condition: Callable[[], T | None], seconds: float = PATIENCE) -> T:
        """Wait for it to hold; the deadline is for broken code only."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < deadline, f"waited in vain:\n{self.picture()}"
            time.sleep(PAUSE)
        return found

    def picture(self) -> str:
        """Everything that helps to see why something did not happen."""
        for one in self.workers:
            if self.alive(one):
                os.kill(one.pid, signal.SIGUSR1)  # it writes down what its threads do
        time.sleep(0.5)  # there is no telling whether it still can
        lines = [f"team {self.number} (broken {self.broken}): {[one.name for one in self.members]}"]
        for one in self.workers:
            if self.alive(one):
                word = {key: value for key, value in self.word(one).items() if key != "address"}
                lines.append(f"{one.name} at {self.at(one)} says {word}\n{self.output(one)[-4000:]}")
        return "\n".join(lines)
