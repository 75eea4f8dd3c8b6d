"""A report's figures as rows of text, the same on a terminal and on a page. What is not known is a dash."""

from collections.abc import Sequence
from typing import NamedTuple

from grus.api.scaling_wire import (
    AdaptingOut,
    ElasticJobOut,
    ResizeOut,
    SpeedupOut,
    SplitOut,
    SplitSideOut,
)
from grus.api.wire_types.report import HeldOut, HoursOut, JobReportOut, QueueHoursOut
from grus.model.texts.formatting import number
from grus.reports.charts import HELD, POOL, SIDES, parts
from grus.simulator.result_summary import span

Table = tuple[list[str], list[list[str]]]
"""Heading and rows."""

DASH = "–"
YES, NO = "✓ yes", "✗ no"
TESTED = {True: YES, False: NO, None: f"{DASH} not seen"}
ADAPTING = {
    "grow": "grow: until the new ones compute with the others",
    "shrink": "shrink: until what was given back is free",
    "loss": "loss: until as many compute together again",
    "restart": "restart with another size: leaving and coming back",
}
MOST_SHOWN = 25


def amount(value: float | None) -> str:
    """A figure without its unit: two decimals, fewer if it is large."""
    if value is None:
        return DASH
    if not value:
        return "0"
    if 0 < value < 0.005:
        return "< 0.01"
    return f"{value:.2f}" if value < 10 else f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


class GpuTime(NamedTuple):
    """The unit in which a report's GPU-hours are read best: one for all of them."""

    name: str
    per_hour: float

    @classmethod
    def of(cls, hours: float) -> "GpuTime":
        """Choose the unit for a report whose pool had so many hours."""
        return cls("GPU-hours", 1.0) if hours >= 1 else cls("GPU-minutes", 60.0)

    def number(self, hours: float | None) -> str:
        return amount(None if hours is None else hours * self.per_hour)

    def told(self, hours: float | None) -> str:
        """Format hours with the unit."""
        return f"{self.number(hours)} {self.name}"


def part(some: float | None, whole: float | None) -> str:
    """A part of a whole."""
    return f"{some / whole:.0%}" if some is not None and whole else DASH


def seconds(length: float | None) -> str:
    """A length of time; tenths where it is short."""
    if length is None:
        return DASH
    return f"{length:.2f}s" if length < 10 else span(length)


# -------------------------------------------------------------------------------------------------- hours


def hours_table(hours: HoursOut, unit: GpuTime) -> Table:
    """Return the uses of the pool's hours, the parts of the allocated ones, and their purposes."""
    found = parts(hours)
    (held, *free), held_in_parts = POOL, [(words, found[field]) for field, words, _ in HELD]
    rows = [
        ("all that the pool had", hours.capacity, False),
        (held[1], found[held[0]], False),
        *((f"· {words}", value, True) for words, value in held_in_parts),
        *((words, found[field], False) for field, words, _ in free),
        *((words, value, True) for words, value in _purposes(hours.held)),
    ]
    whole = hours.held.allocated
    return ["", unit.name.upper(), "OF THE POOL", "OF WHAT JOBS HELD"], [
        [words, unit.number(value), part(value, hours.capacity), part(value, whole) if of_held else ""]
        for words, value, of_held in rows
    ]


def _purposes(held: HeldOut) -> list[tuple[str, float | None]]:
    return [
        ("useful: busy, lasting, of jobs that did not fail", held.useful),
        ("restarted: until a later attempt was as far as the one before", held.restarted),
        ("held by jobs that failed", held.failed),
    ]


def queue_table(queues: Sequence[QueueHoursOut], unit: GpuTime) -> Table:
    heading = ["QUEUE", "JOBS", "HELD", "BUSY", "USEFUL", "UTILISATION", "WAITED"]
    return heading, [
        [
            queue.name,
            str(queue.jobs),
            unit.number(queue.held.allocated),
            unit.number(queue.held.busy),
            unit.number(queue.held.useful),
            DASH if queue.held.utilisation is None else f"{queue.held.utilisation:.0%}",
            seconds(queue.waited),
        ]
        for queue in queues
    ]


def job_table(jobs: Sequence[JobReportOut], unit: GpuTime, currency: str, target: str) -> Table:
    """List the jobs with the largest allocation; columns without any measurement are left out."""
    shown = jobs[:MOST_SHOWN]
    columns: list[tuple[str, list[str]]] = [
        ("JOB", [job.name for job in shown]),
        ("QUEUE", [job.queue for job in shown]),
        ("PHASE", [job.phase for job in shown]),
        ("WAITED", [seconds(job.waited) for job in shown]),
        ("RAN", [seconds(job.ran) for job in shown]),
        (unit.name.upper(), [unit.number(job.held.allocated) for job in shown]),
        ("USED", [DASH if (use := job.held.utilisation) is None else f"{use:.0%}" for job in shown]),
        ("PER GPU-HOUR", [_output(job.per_gpu_hour, job.unit) for job in shown]),
        ("PER KWH", [_output(job.per_kwh, job.unit) for job in shown]),
        (f"PER {currency or 'COST'}", [_output(job.per_cost, job.unit) for job in shown]),
    ]
    if target:
        columns.append(
            (
                target.upper(),
                [DASH if job.target is None else seconds(job.target.since_submitted) for job in shown],
            )
        )
    kept = [column for column in columns if any(cell != DASH for cell in column[1])]
    return [name for name, _ in kept], [list(row) for row in zip(*(cells for _, cells in kept), strict=True)]


def _output(value: float | None, unit: str) -> str:
    return DASH if value is None else f"{amount(value)} {unit}"


# ------------------------------------------------------------------------------------------------ scaling


def speed_table(one: SpeedupOut) -> Table:
    heading = ["GPUS", f"{one.unit.upper()}/S", "SPEED-UP", "FORETOLD", "EFFICIENCY", "MEASURED ON"]
    return heading, [
        [
            str(size.gpus),
            amount(size.throughput),
            f"{size.speedup:.2f}",
            DASH if size.foretold is None else f"{size.foretold:.2f}",
            f"{size.efficiency:.0%}",
            "earlier runs" if size.steps is None else f"{size.steps:.0f} steps in {seconds(size.seconds)}",
        ]
        for size in one.sizes
    ]


def resize_table(changes: Sequence[ResizeOut]) -> Table:
    heading = ["JOB", "AT", "CHANGE", "GPUS", "WENT ON", "ADAPTED IN"]
    return heading, [
        [
            one.name,
            one.at[11:19],
            one.how,
            f"{number(one.before)} → {number(one.after)}",
            TESTED[one.worked],
            seconds(one.seconds),
        ]
        for one in changes[-MOST_SHOWN:]
    ]


def elastic_table(jobs: Sequence[ElasticJobOut]) -> Table:
    heading = [
        "JOB",
        "CAN USE",
        "STARTED WITH",
        "STARTS BELOW ITS MOST",
        "SURVIVES A LOSS",
        "USES LATE WORKERS",
    ]
    return heading, [
        [
            job.name,
            number(job.most) if job.asked == job.most else f"{number(job.asked)}..{number(job.most)}",
            number(job.started_with),
            TESTED[job.starts_below],
            _survived(job),
            TESTED[job.uses_late] + (f" ({job.late} times)" if job.late > 1 else ""),
        ]
        for job in jobs[:MOST_SHOWN]
    ]


def _survived(job: ElasticJobOut) -> str:
    if job.survives_loss is False:
        return f"✗ began again ({job.restarts})"
    return TESTED[job.survives_loss] + (f" ({job.lost} lost)" if job.lost else "")


def adapting_table(found: Sequence[AdaptingOut]) -> Table:
    heading = ["", "TIMES", "OF THESE TOLD", "MEDIAN", "LONGEST"]
    return heading, [
        [
            ADAPTING.get(one.to, one.to),
            str(one.times),
            str(one.measured),
            seconds(one.median),
            seconds(one.longest),
        ]
        for one in found
    ]


def split_table(one: SplitOut) -> Table:
    """One figure a row, one side a column."""
    rows = (
        ("completion, mean", lambda side: seconds(side.completion_mean)),
        ("completion, p50", lambda side: seconds(side.completion_p50)),
        ("completion, p99", lambda side: seconds(side.completion_p99)),
        ("waiting, mean", lambda side: seconds(side.wait_mean)),
        ("waiting, p99", lambda side: seconds(side.wait_p99)),
        ("makespan", lambda side: seconds(side.makespan)),
        ("utilisation", _utilisation),
        ("preemptions", lambda side: DASH if side.preemptions is None else str(side.preemptions)),
    )
    heading = ["", *(SIDES.get(side.name, side.name) for side in one.sides)]
    return heading, [[words, *(show(side) for side in one.sides)] for words, show in rows]


def completion_sentence(one: SplitSideOut) -> str:
    """Measured completion and waiting of the jobs of a report, in one sentence."""
    jobs = "1 job was" if one.jobs == 1 else f"{one.jobs} jobs were"
    return (
        f"{jobs} submitted and ended in this time: completion {seconds(one.completion_mean)} on average "
        f"(p50 {seconds(one.completion_p50)}, p99 {seconds(one.completion_p99)}), "
        f"waiting {seconds(one.wait_mean)} (p99 {seconds(one.wait_p99)})."
    )


def _utilisation(side: SplitSideOut) -> str:
    return DASH if side.utilisation is None else f"{side.utilisation:.0%}"
