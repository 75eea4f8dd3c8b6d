"""Starts workers and gives them orders, as the control plane would: by one small file for each."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

PROGRAM = ("-m", "grus.elastic.selftest.program")
LOOK = 0.005
PATIENCE = 120.0
"""Seconds for anything to come true, the start of a process included."""


class Failed(Exception):
    """An expected condition did not come true; the text names it."""


@dataclass(slots=True)
class Worker:
    """One process, and the files between it and us."""

    name: str
    device: int
    process: "subprocess.Popen[bytes]"
    control: Path
    report: Path

    def said(self) -> dict[str, Any]:
        """The last whole line of its report."""
        try:
            lines = self.report.read_bytes().split(b"\n")[:-1]
            found: dict[str, Any] = json.loads(lines[-1])
        except (OSError, IndexError, ValueError):
            return {}
        return found

    def elastic(self, field: str) -> Any:
        return self.said().get("elastic", {}).get(field)

    @property
    def address(self) -> str | None:
        found: str | None = self.elastic("address")
        return found

    @property
    def alive(self) -> bool:
        return self.process.poll() is None


class Conductor:
    """The workers of one run in a folder of its own; use it as a context manager: it ends what it started."""

    def __init__(
        self,
        folder: Path,
        backend: str,
        *,
        gpus: bool = False,
        program: Sequence[str] = PROGRAM,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.team: list[Worker] = []
        self._backend = backend
        self._gpus = gpus
        self._program = program
        self._env = env
        self._number = self._broken = 0
        self._started: list[Worker] = []
        self.allow(0)

    def __enter__(self) -> "Conductor":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._started:
            if worker.alive:
                worker.process.kill()
            worker.process.wait()

    # ------------------------------------------------------------------------------------ what is done

    def start(self, devices: Sequence[int], *, alone: bool = False) -> list[Worker]:
        """Start a worker on each device; with `alone`, one that gets no orders. Does not wait for them."""
        found = []
        for device in devices:
            name = f"w{len(self._started)}"
            control, report = self.folder / f"control-{name}", self.folder / f"report-{name}"
            words = ["--folder", str(self.folder), "--name", name, "--backend", self._backend]
            with (self.folder / f"log-{name}").open("wb") as log:
                process = subprocess.Popen(
                    [sys.executable, *self._program, *words],
                    env=self._environment(name, device, {} if alone else _between(control, report)),
                    stdout=log,
                    stderr=log,
                )
            found.append(Worker(name, device, process, control, report))
            self._started.append(found[-1])
        return found

    def ready(self, workers: Sequence[Worker]) -> None:
        for worker in workers:
            self.until(partial(_is_ready, worker), f"{worker.name} is ready", worker)

    def form(self, members: Sequence[Worker], *, lost: bool = False) -> None:
        """Form a new group of these workers; order the living
        members of the last one that are not in it to leave.
        """
        leaving = [one for one in self.team if one not in members and one.alive]
        self._number += 1
        if lost:
            self._broken = self._number
        self.team = list(members)
        for rank, worker in enumerate(members):
            self._order(worker, me=rank)
        for worker in leaving:
            self._order(worker, me=None, leave=True)

    def pause(self) -> None:
        for rank, worker in enumerate(self.team):
            self._order(worker, me=rank, pause=True)

    def allow(self, steps: int) -> None:
        """Let the workers continue until that many steps are done."""
        self.limit = steps
        draft = self.folder / "limit.draft"
        draft.write_text(str(steps))
        draft.replace(self.folder / "limit")

    def kill(self, worker: Worker) -> None:
        worker.process.send_signal(signal.SIGKILL)
        worker.process.wait()

    # --------------------------------------------------------------------------------- what is awaited

    def trained(self, more: int) -> int:
        """Wait until the group has formed and done that many steps together; return the steps done then."""
        count = f"all {len(self.team)} workers"
        self.until(self._formed, f"team {self._number} of {count} is formed", *self.team)
        steps = self.limit + more
        self.allow(steps)
        self.until(
            lambda: all(steps in self.losses(one) for one in self.team),
            f"step {steps} is done by {count}",
            *self.team,
        )
        return steps

    def _formed(self) -> bool:
        if all(one.elastic("team") == self._number for one in self.team):
            return True
        self._nudge()
        return False

    def _nudge(self) -> None:
        """Give workers at the step limit one more step: an order arrives some milliseconds later."""
        if any(self.limit in self.losses(one) for one in self.team):
            self.allow(self.limit + 1)

    def paused(self) -> None:
        """Wait until the group has received the pause, and ended."""

        def gone() -> bool:
            self._nudge()
            return not any(one.alive for one in self.team)

        self.until(gone, "all have paused")
        self.ended(self.team)

    def ended(self, workers: Sequence[Worker]) -> None:
        for worker in workers:
            self.until(partial(_is_gone, worker), f"{worker.name} has ended")
            if worker.process.returncode != 0:
                raise Failed(
                    f"{worker.name} ended with {worker.process.returncode}{self._last_words(worker)}"
                )

    def until(self, holds: Callable[[], bool], what: str, *needed: Worker) -> None:
        deadline, pause = time.monotonic() + PATIENCE, threading.Event()
        while not holds():
            for worker in needed:
                if not worker.alive:
                    code = worker.process.returncode
                    raise Failed(f"{worker.name} ended with {code} before {what}{self._last_words(worker)}")
            if time.monotonic() > deadline:
                raise Failed(f"not within {PATIENCE:g} s: {what}")
            pause.wait(LOOK)

    # --------------------------------------------------------------------------------- what was written

    def losses(self, worker: Worker) -> dict[int, float]:
        """Return the losses that the worker recorded, by step."""
        try:
            lines = (self.folder / f"losses-{worker.name}").read_text().split("\n")[:-1]
        except OSError:
            return {}
        return {int(step): float(loss) for step, loss in (line.split() for line in lines)}

    def results(self) -> list[dict[str, Any]]:
        """Return the results of the workers that reached the end of the run."""
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("ended-*"))]

    def _last_words(self, worker: Worker) -> str:
        text = (self.folder / f"log-{worker.name}").read_text(errors="replace").strip()
        return f": {text.splitlines()[-1]}" if text else ""

    def _order(self, worker: Worker, *, me: int | None, pause: bool = False, leave: bool = False) -> None:
        members = [one.address for one in self.team]
        team = {"number": self._number, "members": members, "me": me, "broken": self._broken}
        draft = worker.control.with_suffix(".draft")
        draft.write_text(json.dumps({"pause": pause, "leave": leave, "deadline": None, "team": team}))
        draft.replace(worker.control)

    def _environment(self, name: str, device: int, more: dict[str, str]) -> dict[str, str]:
        kept = {
            key: value for key, value in os.environ.items() if not key.startswith(("GRUS_", "TORCHELASTIC_"))
        }
        for key in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
            kept.pop(key, None)
        if self._gpus:
            more = {**more, "LOCAL_RANK": str(device)}
        return {
            **kept,
            "OMP_NUM_THREADS": "1",
            "GRUS_WORKER": name,
            "GRUS_HOST": "127.0.0.1",
            **self._env,
            **more,
        }


def _is_ready(worker: Worker) -> bool:
    return worker.address is not None


def _is_gone(worker: Worker) -> bool:
    return not worker.alive


def _between(control: Path, report: Path) -> dict[str, str]:
    """Return the environment of a worker that gets orders.

    No process listens to the bell file: reports are read all the time.
    """
    return {"GRUS_CONTROL": str(control), "GRUS_REPORT": str(report), "GRUS_BELL": str(control) + ".bell"}
