"""A worker that trains one of `programs` and writes down all that a test wants to know. Also a script.

The environment variable TRAINEE holds a JSON object: which program, with which numbers, and the folder that
tests and workers share (see `Task`). In it:

    steps/…    a line for every step that this process committed: its team, losses, a hash of all parameters
    at/…       the team and the step at which this process is, overwritten in place
    gate       a number of steps: nobody goes beyond it
    die/NAME   "0.001 3": the worker of this name lets three exchanges pass, begins another, and kills itself
               1 ms later; "-1": it kills itself just before the next one; "giving": when it begins to send
               its state to others
    hold/NAME  while it exists, the worker of this name waits between a step's last exchange and its commit
"""

import faulthandler
import gc
import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from grus.elastic.gradients.step_sync import Flags
from grus.elastic.rendezvous.process_group import Group
from grus.elastic.run import Run
from grus.elastic.training_state import state_dict
from tests.elastic import programs
from tests.elastic.conductor import WHILE_GIVING

PAUSE = 0.001


@dataclass(slots=True)
class Task:
    """What TRAINEE says."""

    folder: str
    program: str = "classifier"
    epochs: int = 4
    samples: int = 509
    batch: int = 48
    micro: int = 8
    width: int = 32
    dtype: str = "float32"
    pace: float = 0.0
    """Seconds that each micro-batch takes at least."""
    hang_after: float = 30.0
    audit: bool = True
    without: str = ""
    """Take one thing away, to see it missed: "watcher" (nobody aborts) or "vote" (nobody asks)."""
    options: dict[str, Any] = field(default_factory=dict)
    """More arguments of grus.train."""


def main() -> None:
    gc.freeze()  # what was imported stays: its end need not walk through all of torch, which takes a second
    faulthandler.register(signal.SIGUSR1)  # where does it hang? `Conductor.picture` asks
    task = Task(**json.loads(os.environ["TRAINEE"]))
    torch.set_num_threads(1)
    torch.manual_seed(int(os.environ.get("INIT", "0")))
    torch.set_default_dtype(getattr(torch, task.dtype))
    folder = Path(task.folder)
    name = os.environ.get("NAME") or str(os.getpid())
    _take_away(task.without)
    _record(folder, name)
    _die_on_demand(folder / "die" / name)
    if task.audit:
        task.options["audit"] = folder / "audit"
    gate = _Gate(folder / "gate", task.pace)
    programs.ALL[task.program](task, gate)
    print("done", flush=True)


class _Gate:
    """Holds the training back at a number of steps, and to a pace."""

    def __init__(self, path: Path, pace: float) -> None:
        self._path = path
        self._pace = pace
        self._open = 0

    def __call__(self, run: Run) -> None:
        if self._pace:
            time.sleep(self._pace)
        while run.steps >= self._open:
            try:
                self._open = int(self._path.read_text() or 0)
            except FileNotFoundError:
                self._open = sys.maxsize
            if run.steps >= self._open:
                time.sleep(PAUSE)


def _record(folder: Path, name: str) -> None:
    """Write down every step when it is committed."""
    for part in ("steps", "at"):
        (folder / part).mkdir(exist_ok=True)
    steps = os.open(folder / "steps" / f"{name}.{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    at = os.open(folder / "at" / name, os.O_WRONLY | os.O_CREAT, 0o644)
    hold = folder / "hold" / name
    commit, regroup = Run._commit, Run._regroup

    def committed(run: Run, flags: Flags, losses: list[float]) -> None:
        while hold.exists():
            time.sleep(PAUSE)
        commit(run, flags, losses)
        line = {
            "attempt": int(os.environ.get("GRUS_ATTEMPT", "1")),
            "team": run._group.number,
            "rank": run.rank,
            "world": run.world,
            "step": run.steps - 1,
            "losses": losses,
            "hash": parameter_hash(run),
        }
        os.write(steps, json.dumps(line).encode() + b"\n")
        os.pwrite(at, f"{run._group.number:>9} {run.steps:>9}\n".encode(), 0)

    def regrouped(run: Run) -> None:
        # In no team: it waits for the others, who may be ahead of it and stand at the gate.
        os.pwrite(at, f"{0:>9} {run.steps:>9}\n".encode(), 0)
        regroup(run)
        os.pwrite(at, f"{run._group.number:>9} {run.steps:>9}\n".encode(), 0)

    setattr(Run, "_commit", committed)  # noqa: B010 - a method, replaced on purpose
    setattr(Run, "_regroup", regrouped)  # noqa: B010


def parameter_hash(run: Run) -> str:
    digest = hashlib.sha1(usedforsecurity=False)
    models = run.model.values() if isinstance(run.model, dict) else [run.model]
    for model in models:
        for parameter in model.parameters():
            own = getattr(
                parameter, "to_local", lambda one=parameter: one
            )()  # a worker's part, if it has one
            digest.update(own.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def _die_on_demand(wish: Path) -> None:
    """Die a moment after an exchange has begun: before, inside, or between it and the optimizer."""
    for name in ("all_reduce", "broadcast"):
        setattr(Group, name, _deadly(getattr(Group, name), wish))
    setattr(state_dict, "_exchange", _deadly_gift(state_dict._exchange, wish))  # noqa: B010 - replaced on purpose


def _deadly(usual: Callable[..., Any], wish: Path) -> Callable[..., Any]:
    def exchange(*arguments: Any) -> Any:
        try:
            delay, _, left = wish.read_text().partition(" ")
        except FileNotFoundError:
            return usual(*arguments)
        if delay == WHILE_GIVING:
            return usual(*arguments)
        if int(left or 0):
            wish.write_text(f"{delay} {int(left) - 1}")
            return usual(*arguments)
        if float(delay) < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        threading.Timer(float(delay), os.kill, (os.getpid(), signal.SIGKILL)).start()
        return usual(*arguments)

    return exchange


def _deadly_gift(usual: Callable[..., None], wish: Path) -> Callable[..., None]:
    """Of its state: those who receive it know what is to come, and have nothing of it."""

    def exchange(group: Group, tensors: list[torch.Tensor], source: int, device: torch.device) -> None:
        if source == group.rank and wish.exists() and wish.read_text() == WHILE_GIVING:
            os.kill(os.getpid(), signal.SIGKILL)
        usual(group, tensors, source, device)

    return exchange


def _take_away(what: str) -> None:
    if what == "watcher":
        setattr(Group, "abort", lambda group, before: None)  # noqa: B010 - its shape stays
    elif what == "vote":
        setattr(Group, "settle", lambda group: None)  # noqa: B010
    elif what:
        raise ValueError(what)


if __name__ == "__main__":
    main()
