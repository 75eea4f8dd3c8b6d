"""Scaling worked out again in the most straightforward way, from what a server shows.

Nothing of `grus.reports` is used.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from grus.model.texts.units import parse_gpu
from tests.reports.recomputing import Recomputed, Told, seconds


def range_of(told: Told) -> tuple[float, float]:
    """The fewest and the most GPUs that it was submitted with."""
    ask = parse_gpu(told.job["unscaled"] or told.job["request"])
    return ask.share / 1e6 or float(ask.count.low), ask.share / 1e6 or float(ask.count.high)


def wanted(again: Recomputed) -> Any:
    """GPUs that jobs want at each moment."""
    total = np.zeros(len(again.at))
    for told, moments in again.jobs.values():
        there = (moments.gpus > 0) | moments.waits
        scaled = [seconds(event["at"]) for event in told.events if event["kind"] == "scaled"]
        free = again.at < min(scaled, default=np.inf)
        low, high = range_of(told)
        set_ = np.where(moments.gpus > 0, moments.gpus, low)
        total += there * np.where(free, np.maximum(high, moments.gpus), set_)
    return total


def held(again: Recomputed) -> Any:
    return sum(moments.gpus for _, moments in again.jobs.values())


def sizes(told: Told) -> list[tuple[float, str, float, float, int]]:
    """When, what, GPUs at work, GPUs held and workers lost: event by event."""
    return [
        (seconds(event["at"]), event["kind"], event["working"], event["gpus"], event["lost"])
        for event in told.events
        if event["attempt"] > 0
    ]


def resizes(told: Told) -> list[tuple[str, float, float]]:
    """Of each change while it worked: what kind, and the GPUs before and after."""
    found = []
    for (_, _, before, had, _), (_, kind, working, has, _) in pairwise(sizes(told)):
        if kind == "resized" and before:
            grown = has > had
            found.append(("grow" if grown else "shrink", before, before + has - had if grown else working))
    return found


def seconds_to_join(told: Told) -> list[float]:
    """From each grow of a team until all compute together."""
    events = sizes(told)
    found = []
    for place, (at, kind, _, has, _) in enumerate(events):
        if kind != "resized" or not place or has <= events[place - 1][3]:
            continue
        target = events[place - 1][2] + has - events[place - 1][3]
        joined = [
            when
            for when, later, working, _, _ in events[place + 1 :]
            if later == "team" and working >= target
        ]
        found += joined[:1] and [joined[0] - at]
    return found


def speeds(told: Told) -> dict[int, tuple[float, float]]:
    """Steps and seconds at each number of workers, each of them with one GPU."""
    curves = {curve["name"]: curve for curve in told.curves["curves"]}
    if "world" not in curves:
        return {}
    steps, world = curves["step"], curves["world"]
    assert steps["at"] == world["at"]
    points = list(zip(map(seconds, steps["at"]), steps["value"], world["value"], strict=True))
    changes = [(at, working) for at, _, working, _, _ in sizes(told)]
    found: dict[int, tuple[float, float]] = {}
    for (begin, first, workers), (end, last, same) in pairwise(points):
        present = [working for at, working in changes if at <= begin][-1]
        between = [working for at, working in changes if begin < at <= end]
        if workers == same == present and all(one == present for one in between) and last > first:
            done, took = found.get(int(workers), (0.0, 0.0))
            found[int(workers)] = (done + last - first, took + end - begin)
    return found
