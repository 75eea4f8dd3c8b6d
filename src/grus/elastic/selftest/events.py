"""Disturbances of a run, and the conditions that must hold afterwards. Each event gives one `Check`."""

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grus.elastic.selftest.conductor import Conductor, Failed, Worker
from grus.elastic.selftest.program import STEPS

TOLERANCE = 1e-3
"""Relative difference of a loss from the undisturbed run's. Another number of workers adds up in another
order, which moves a float32 by some 1e-7; over hundreds of steps that grows to about 1e-5."""
BEFORE, AFTER = 3, 6
"""Steps that are looked at before an event, and after it."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the result."""

    name: str
    ok: bool
    seconds: float
    """Seconds from the order until the group has done its next steps (the longest of several orders)."""
    detail: str


class SelftestRun:
    """One run, event after event; `reference` are the losses of a run that nothing happened to."""

    def __init__(self, run: Conductor, devices: list[int], reference: Mapping[int, float]) -> None:
        self._run = run
        self._devices = devices
        self._reference = reference
        self._spare: list[Worker] = []
        self.seconds = 0.0
        """Seconds of the present event."""

    def tell(self) -> list[tuple[str, Callable[[], str]]]:
        """The events in their order."""
        return [
            ("begin", self.begin),
            ("grow", self.grow),
            ("shrink", self.shrink),
            ("grow again", self.grow_again),
            ("kill the last", lambda: self.kill(len(self._devices) - 1)),
            ("kill the first", lambda: self.kill(0)),
            ("hang", self.hang),
            ("pause", self.pause),
            ("resume", self.resume),
        ]

    def begin(self) -> str:
        run = self._run
        first, *rest = run.start(self._devices)
        run.ready([first])
        self._change([first])
        self._spare = rest
        return "one worker"

    def grow(self) -> str:
        run = self._run
        run.ready(self._spare)
        self._change([*run.team, *self._spare])
        self._spare = []
        return f"1 → {len(run.team)} workers"

    def shrink(self) -> str:
        run, before = self._run, list(self._run.team)
        self._change(before[:1])
        run.ended(before[1:])
        self._spare = run.start([one.device for one in before[1:]])
        return f"{len(before)} → 1 workers, who left has ended with 0"

    def grow_again(self) -> str:
        self.grow()
        return f"back to {len(self._run.team)} workers"

    def kill(self, rank: int) -> str:
        run = self._run
        victim = run.team[rank]
        run.kill(victim)
        self._without(victim)
        return f"rank {rank} killed with -9, the others went on; it came back"

    def hang(self) -> str:
        run = self._run
        victim = run.team[-1]
        victim.process.send_signal(signal.SIGSTOP)
        others = run.team[:-1]
        run.allow(run.limit + 1)
        run.until(
            lambda: any(one.elastic("waits") is not None for one in others), "somebody complains", *others
        )
        run.kill(victim)
        self._without(victim)
        return "a stopped rank was complained about, cut off, and replaced"

    def _without(self, victim: Worker) -> None:
        """Let the survivors continue at once, then let a replacement join."""
        run = self._run
        self._change([one for one in run.team if one is not victim], lost=True)
        spare = run.start([victim.device])
        run.ready(spare)
        self._change([*run.team, *spare])

    def pause(self) -> str:
        run, begin = self._run, time.monotonic()
        run.pause()
        run.paused()
        self.seconds = time.monotonic() - begin
        return "all saved and ended with 0"

    def resume(self) -> str:
        run = self._run
        workers = run.start(self._devices)
        run.ready(workers)
        self._change(workers)
        run.allow(STEPS)
        run.ended(workers)
        self.compare(workers[0], STEPS)
        ends = run.results()
        if len(ends) != len(workers) or len({one["hash"] for one in ends}) != 1:
            raise Failed("the workers ended with different parameters")
        return f"{STEPS} steps, the same parameters on all {len(workers)} workers"

    def _change(self, members: Sequence[Worker], *, lost: bool = False) -> None:
        """Order a new worker group, let it do its next steps, and compare its losses with the reference."""
        begin = time.monotonic()
        self._run.form(members, lost=lost)
        self._run.allow(self._run.limit + 1)
        step = self._run.trained(AFTER)
        self.seconds = max(self.seconds, time.monotonic() - begin)
        self.compare(self._run.team[0], step)

    def compare(self, worker: Worker, step: int) -> None:
        seen = self._run.losses(worker)
        for at in sorted(seen)[-BEFORE - AFTER :]:
            want = self._reference[at]
            if abs(seen[at] - want) > TOLERANCE * max(1.0, abs(want)):
                raise Failed(f"loss of step {at} is {seen[at]:.6f}, undisturbed it was {want:.6f}")
        if step not in seen:
            raise Failed(f"{worker.name} knows nothing of step {step}")


def undisturbed(folder: Path, backend: str, *, gpus: bool) -> dict[int, float]:
    """Return the losses of a run of one worker that gets no orders."""
    with Conductor(folder, backend, gpus=gpus) as run:
        run.allow(STEPS)
        workers = run.start([0], alone=True)
        run.ended(workers)
        return run.losses(workers[0])


def judged(story: SelftestRun, name: str, event: Callable[[], str]) -> Check:
    story.seconds = 0.0
    try:
        detail, ok = event(), True
    except Failed as failed:
        detail, ok = str(failed), False
    return Check(name, ok, round(story.seconds, 3), detail)
