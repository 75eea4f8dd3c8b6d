"""From logs of steps to figures. Pure: the same definitions for every runtime, and no clock.

A step counts when the first worker has finished it for the first time; steps that are done again after a
restart bring nothing new, so they lengthen the stall.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.resizing.steps import Line

CALM = 2.0
"""Seconds before an event in which the normal step is measured."""
STEADY = 5
"""That many steps in a row at normal speed are full speed."""
SLACK = 2.0
"""A step of at most that many normal ones is at normal speed: two cores also boot the new workers."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A step that was finished for the first time."""

    step: int
    at: float
    world: int


@dataclass(frozen=True, slots=True)
class Effect:
    """What one event did to the training, in seconds and steps."""

    stall: float
    settle: float
    redone: int
    normal: float

    def __str__(self) -> str:
        return (
            f"stall {self.stall:.3f} s, at full speed after {self.settle:.2f} s, {self.redone} steps redone, "
            f"normal step {self.normal * 1e3:.0f} ms"
        )


def progress(lines: Iterable[Line]) -> list[Progress]:
    """Each step's first end by any worker, in the order of time."""
    first: dict[int, Line] = {}
    for line in lines:
        if line.step not in first or line.done < first[line.step].done:
            first[line.step] = line
    return sorted((Progress(line.step, line.done, line.world) for line in first.values()), key=lambda p: p.at)


def normal_step(steps: Sequence[Progress], before: float) -> float:
    """Median seconds from step to step in the calm time before an event."""
    times = [step.at for step in steps if before - CALM <= step.at <= before]
    if len(times) < 2:
        raise ValueError(f"no two steps within {CALM:g} s before the event")
    return statistics.median(b - a for a, b in pairwise(times))


def stall(steps: Sequence[Progress], event: float, until: float, normal: float) -> float:
    """Seconds by which the longest gap between two steps, from the event to `until`, exceeds the normal."""
    times = [step.at for step in steps]
    gaps = [b - a for a, b in pairwise(times) if b > event and a < until]
    return max(0.0, max(gaps, default=0.0) - normal)


def full_speed(steps: Sequence[Progress], event: float, world: int, normal: float) -> float | None:
    """When full speed with `world` workers was reached after the event; None: not yet.

    It is the end of the first of several steps in a row that all have the new size and the normal pace.
    """
    after = [step for step in steps if step.at > event]
    for index in range(len(after) - STEADY):
        run = after[index : index + STEADY + 1]
        gaps = (b.at - a.at for a, b in pairwise(run))
        if all(step.world == world for step in run) and all(gap <= SLACK * normal for gap in gaps):
            return run[0].at
    return None


def redone(lines: Iterable[Line], event: float, until: float) -> int:
    """Steps of which work was thrown away: finished and begun anew later, or begun twice by one process."""
    lines = list(lines)
    ends = {step.step: step.at for step in progress(lines)}
    around = [line for line in lines if event < line.done <= until]
    again = {line.step for line in around if line.begun > ends[line.step]}
    repeated = {line.step for line in around if line.attempts > 1}
    return len(again | repeated)


def effect(lines: Sequence[Line], event: float, world: int) -> Effect | None:
    """What an event at that time, meant to lead to `world` workers, did; None: not settled yet."""
    steps = progress(lines)
    normal = normal_step(steps, event)
    settled = full_speed(steps, event, world, normal)
    if settled is None:
        return None
    return Effect(
        stall=stall(steps, event, settled, normal),
        settle=settled - event,
        redone=redone(lines, event, settled),
        normal=normal,
    )
