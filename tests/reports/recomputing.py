"""The figures of a report worked out again in the most straightforward way, from what a server shows.

Moment by moment, from events and samples as they are told over the API; nothing of `grus.reports` is used.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from grus.model.texts.units import parse_gpu

TICK = 0.001
"""Seconds between two moments that are looked at."""
HOUR = 3600.0
BEGINS = {
    "submitted": "pending",
    "starting": "starting",
    "running": "running",
    "pausing": "pausing",
    "paused": "paused",
    "resumed": "pending",
    "requeued": "pending",
    "retrying": "pending",
    "succeeded": "over",
    "failed": "over",
    "stopped": "over",
}


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@dataclass
class Told:
    """What a server tells of one job."""

    job: dict[str, Any]
    events: list[dict[str, Any]]
    busy: dict[str, Any] | None
    """The series of its utilisation, second by second."""
    curves: dict[str, Any]


@dataclass
class Moments:
    """What holds in each thousandth of a second of a window, of one job."""

    gpus: Any
    waits: Any
    attempt: Any
    phase: Any


class Recomputed:
    """All figures of a window."""

    def __init__(self, since: float, until: float, capacity: float, jobs: list[Told]) -> None:
        self.at = np.arange(since, until, TICK)
        self.capacity = capacity
        self.jobs = {one.job["id"]: (one, self._moments(one)) for one in jobs}

    def _moments(self, told: Told) -> Moments:
        gpus, attempt = np.zeros(len(self.at)), np.zeros(len(self.at), dtype=int)
        phase = np.full(len(self.at), "none", dtype=object)
        waits = np.zeros(len(self.at), dtype=bool)
        for number, event in enumerate(told.events):
            here = self.at >= seconds(event["at"])
            before = phase[here][0] if here.any() else "none"
            word = BEGINS.get(event["kind"], before)
            later = [other["kind"] for other in told.events[number + 1 :] if other["kind"] in BEGINS]
            phase[here], attempt[here], gpus[here] = word, event["attempt"], event["gpus"] or 0.0
            waits[here] = word == "pending" or (word == "paused" and later[:1] != ["resumed"])
        return Moments(gpus, waits, attempt, phase)

    # ---------------------------------------------------------------------------------------- of a job

    def hours(self, moments: Any) -> float:
        """The sum of a figure of each moment."""
        return float(np.sum(moments)) * TICK / HOUR

    def allocated(self, job: str) -> float:
        return self.hours(self.jobs[job][1].gpus)

    def utilisation(self, job: str) -> Any:
        """At each moment; NaN where nothing is on record."""
        series = self.jobs[job][0].busy
        found = np.full(len(self.at), np.nan)
        if series is None:
            return found
        for number, value in enumerate(series["values"]):
            if value is not None:
                begin = seconds(series["start"]) + number * series["step"]
                found[(self.at >= begin) & (self.at < begin + series["step"])] = value
        return found

    def measured(self, job: str) -> float:
        known = ~np.isnan(self.utilisation(job))
        return self.hours(self.jobs[job][1].gpus * known)

    def busy(self, job: str, where: Any = True) -> float:
        return self.hours(self.jobs[job][1].gpus * np.nan_to_num(self.utilisation(job)) * where)

    def again(self, job: str) -> Any:
        """Moments in which an attempt after the first was not yet where the ones before had been."""
        told, moments = self.jobs[job]
        found = np.zeros(len(self.at), dtype=bool)
        steps = self.steps(told)
        for attempt in range(2, int(moments.attempt.max(initial=0)) + 1):
            mine = (moments.attempt == attempt) & (moments.gpus > 0)
            running = mine & (moments.phase == "running")
            up = self.at[running].min() if running.any() else self.at[mine].max(initial=0)
            before = [step for _, step, number in steps if number < attempt]
            own = [(at, step) for at, step, number in steps if number == attempt]
            behind = self.at < up
            if before and own:
                behind |= np.interp(self.at, *self._line(own, up)) < max(before)
            found |= mine & behind
        return found

    def _line(self, own: list[tuple[float, float]], up: float) -> tuple[list[float], list[float]]:
        """Its steps, drawn back to when its workers were up at the speed of its first two reports."""
        (at, step), *rest = own
        speed = (rest[0][1] - step) / (rest[0][0] - at) if rest else 0.0
        first = max(0.0, step - speed * (at - up)) if rest else -1.0
        return [up, *(one for one, _ in own)], [first, *(one for _, one in own)]

    def steps(self, told: Told) -> list[tuple[float, float, int]]:
        for curve in told.curves["curves"]:
            if curve["name"] == "step":
                times = [seconds(at) for at in curve["at"]]
                return list(zip(times, curve["value"], curve["attempt"], strict=True))
        return []

    def useful(self, job: str) -> float:
        failed = self.jobs[job][0].job["phase"] == "failed"
        return 0.0 if failed else self.busy(job, ~self.again(job))

    def ran(self, job: str) -> float:
        return float(np.sum(self.jobs[job][1].phase == "running")) * TICK

    def waited(self, job: str) -> float:
        return float(np.sum(self.jobs[job][1].waits)) * TICK

    # ------------------------------------------------------------------------------------- of the pool

    def asked(self, job: str) -> float:
        ask = parse_gpu(self.jobs[job][0].job["request"])
        return ask.share / 1e6 or float(ask.count.low)

    def free_and_wanted(self) -> float:
        held = sum(moments.gpus for _, moments in self.jobs.values())
        wanted = sum(self.asked(job) * moments.waits for job, (_, moments) in self.jobs.items())
        return self.hours(np.minimum(np.maximum(0.0, self.capacity - held), wanted))

    def demand(self) -> float:
        return sum(
            self.hours(moments.gpus + self.asked(job) * moments.waits)
            for job, (_, moments) in self.jobs.items()
        )
