"""The events of one round, the same for every runtime: 1 → 2 → 4 workers, kill -9 of one, 4 → 1."""

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.machine import wait_for
from benchmarks.resizing.measure import CALM, Effect, effect, progress
from benchmarks.resizing.sides import Side
from benchmarks.resizing.steps import Line, StepLogs

PATIENCE = 240.0
"""Seconds after which an event that has not settled counts as a failure of that runtime."""
KILL = "kill"
EVENTS = {"grow_1_2": 2, "grow_2_4": 4, KILL: 4, "shrink_4_1": 1}
"""What happens, in that order, and how many workers train when it has settled."""


def live_through(side: Side, number: int) -> Iterator[tuple[str, Effect]]:
    """Put a runtime that has just been started through the events of the round of that number.

    Each happens after the one before has settled, at a random moment: nobody's ticks are met in step.
    """
    logs = StepLogs(side.logs)
    wait_for(lambda: bool(progress(logs.read())), PATIENCE, "the first step", every=0.2)
    for event, world in EVENTS.items():
        time.sleep(CALM + 1 + random.uniform(0, 1))
        begun = time.time()
        if event == KILL:
            os.kill(victim(logs.read(), number), signal.SIGKILL)
        else:
            side.scale(world)
        yield event, settled(logs, event, begun)


def settled(logs: StepLogs, event: str, begun: float) -> Effect:
    """Wait until the event has had its effect."""
    found: list[Effect] = []

    def look() -> bool:
        now = effect(logs.read(), begun, EVENTS[event])
        found.extend([now] if now is not None else [])
        return now is not None

    wait_for(look, PATIENCE, f"{event} to settle", every=0.2)
    return found[0]


def victim(lines: list[Line], number: int) -> int:
    """A process that takes part in the last steps; another one in each round."""
    last = max(line.step for line in lines)
    working = sorted({line.process for line in lines if line.step > last - 3})
    living = [pid for pid in working if Path(f"/proc/{pid}").exists()]
    return living[number % len(living)]
