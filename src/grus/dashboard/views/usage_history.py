"""View of a report on the History page: figures in words, rows, and charts. Pure."""

from collections.abc import Sequence

from grus.api.wire_types.report import HeldOut, HoursOut, JobReportOut, ReportOut
from grus.api.wire_types.timestamps import parse_time
from grus.dashboard.live_state.job_index import STATES
from grus.model.jobs import Phase
from grus.model.texts.formatting import percent, span
from grus.reports import charts as figures
from grus.reports.text_tables import GpuTime, completion_sentence
from grus.simulator.html_pages.page_skeleton import Figure, layout

MOST_JOBS = 20
"""Jobs that are shown; those that held most."""
View = dict[str, object]

CAUSES = (
    ("idle", "Idle while held", "Held by a job, at rest for now."),
    ("over_asking", "Over-asking", "Held by a job that never uses it: it could ask for less."),
    ("restarted", "Restarted work", "Held to get back to where a job had been before it was interrupted."),
    ("failed", "Failed jobs", "Held by jobs that failed in the end."),
    ("waiting", "Waiting", "Free while jobs waited: too few at once, or kept for others by quotas."),
    ("fragmentation", "Fragmentation", "Free, but of no use as it lay to any job that waited."),
    ("unwanted", "Unwanted", "Free, and nobody waited for it."),
)
"""Fields, names and meanings of what GPU-hours are lost to."""


def view(found: ReportOut) -> View:
    """All that the page needs, as JSON can tell it."""
    unit = GpuTime.of(found.hours.capacity)
    return {
        "unit": unit.name,
        "since": parse_time(found.since),
        "until": parse_time(found.until),
        "tiles": tiles(found.hours, unit),
        "waste": waste(found.hours, unit),
        "queues": [
            [one.name, str(one.jobs), *_held(one.held, unit), span(one.waited)] for one in found.queues
        ],
        "jobs": [_job(one, unit) for one in found.jobs[:MOST_JOBS]],
        "more": max(0, found.jobs_in_all - MOST_JOBS),
        "cost": _totals(found),
        "completion": "" if found.completion is None else completion_sentence(found.completion),
        "notes": [*found.notes],
        "charts": charts(found),
    }


def tiles(one: HoursOut, unit: GpuTime) -> dict[str, View]:
    """Return the tiles by name: the figure, the words below it, and a percentage if there is one."""
    held = one.held
    return {
        "capacity": _tile(unit.number(one.capacity), f"{unit.name} that there were"),
        "allocated": _tile(
            unit.number(held.allocated),
            f"{percent(held.allocated, one.capacity)} of capacity".strip(),
            held.allocated,
            one.capacity,
        ),
        "busy": _of_measured(held.busy, held, unit),
        "useful": _of_measured(held.useful, held, unit),
        "demand": _tile(
            unit.number(one.demand),
            f"{percent(one.demand, one.capacity)} of capacity: held or waited for".strip(),
            one.demand,
            one.capacity,
        ),
    }


def _tile(figure: str, words: str, part: float | None = None, whole: float = 0.0) -> View:
    known = part is not None and whole > 0
    return {"figure": figure, "words": words, "part": round(100 * (part or 0) / whole) if known else None}


def _of_measured(value: float | None, held: HeldOut, unit: GpuTime) -> View:
    if value is None:
        return _tile("–", "not measured")
    words = f"{percent(value, held.measured)} of {unit.number(held.measured)} measured"
    return _tile(unit.number(value), words, value, held.measured)


def waste(one: HoursOut, unit: GpuTime) -> list[View]:
    """A row a cause: what it came to, and which part of all hours that is."""
    known = {**one.held.model_dump(), **one.model_dump(exclude={"held"})}
    return [
        {
            "name": name,
            "hours": unit.number(known[field]),
            "percent": percent(known[field], one.capacity),
            "part": 100 * known[field] / one.capacity if known[field] and one.capacity else 0,
            "what": what,
        }
        for field, name, what in CAUSES
    ]


def _held(held: HeldOut, unit: GpuTime) -> list[str]:
    return [unit.number(held.allocated), unit.number(held.busy), unit.number(held.useful)]


def _job(one: JobReportOut, unit: GpuTime) -> View:
    rate = "–" if one.per_gpu_hour is None else f"{one.per_gpu_hour:,.0f} {one.unit}"
    return {
        "id": one.id,
        "name": one.name,
        "phase": one.phase,
        "state": STATES[Phase(one.phase)].value,
        "cells": [one.user, one.queue, span(one.ran), span(one.waited), *_held(one.held, unit), rate],
    }


def _totals(found: ReportOut) -> str:
    told = []
    if found.energy_kwh is not None:
        told.append(f"{found.energy_kwh:,.2f} kWh")
    if found.cost is not None:
        told.append(f"{found.cost:,.2f} {found.currency}".strip())
    return " · ".join(told)


# ------------------------------------------------------------------------------------------------- charts


def charts(found: ReportOut) -> dict[str, Figure]:
    """Return the charts by name, as charts.js draws them; a sentence if there is nothing to draw."""
    if found.hours.capacity <= 0:
        nothing: Figure = {"missing": "Nothing is on record of this time."}
        return dict.fromkeys(("use", "parts", "where"), nothing)
    return {
        "use": use(found.timeline),
        "parts": in_seconds(figures.over_time(found.timeline)),
        "where": figures.where(found.hours, GpuTime.of(found.hours.capacity)),
    }


def use(timeline: Sequence[HoursOut]) -> Figure:
    """Allocated, busy, useful and wanted, as parts of what there was, in each part of the time."""
    lines = (
        ("wanted", "--muted", [_part(one.demand, one.capacity) for one in timeline]),
        ("allocated", "--chart-1", [_part(one.held.allocated, one.capacity) for one in timeline]),
        ("busy", "--chart-2", [_part(_scaled(one.held, one.held.busy), one.capacity) for one in timeline]),
        (
            "useful",
            "--chart-3",
            [_part(_scaled(one.held, one.held.useful), one.capacity) for one in timeline],
        ),
    )
    middles = [(parse_time(one.since) + parse_time(one.until)) / 2 for one in timeline]
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers" if len(timeline) < 3 else "lines",
            "name": name,
            "x": middles,
            "y": values,
            "line": {"color": colour, "width": 2, "dash": "dot" if name == "wanted" else "solid"},
            "hovertemplate": f"%{{y:.0%}} {name}<extra></extra>",
        }
        for name, colour, values in lines
        if any(value is not None for value in values)
    ]
    shape = {
        **layout(300),
        "xaxis": {"type": "date"},
        "yaxis": {"tickformat": ".0%", "rangemode": "tozero", "title": {"text": "of capacity"}},
        "hovermode": "x unified",
    }
    return {"data": traces, "layout": shape}


def _part(value: float | None, whole: float) -> float | None:
    return None if value is None or whole <= 0 else round(value / whole, 5)


def _scaled(held: HeldOut, value: float | None) -> float | None:
    """Scale the measured value to all allocated time, assuming that the unmeasured part was like the rest."""
    if value is None or held.measured <= 0:
        return None
    return value * held.allocated / held.measured


def in_seconds(figure: Figure) -> Figure:
    """Convert moments to the form of charts.js, which shows them in the reader's time zone."""
    traces = figure["data"]
    assert isinstance(traces, list)
    moved = [
        {**trace, "x": [parse_time(at) if isinstance(at, str) else at for at in trace["x"]]}
        for trace in traces
    ]
    return {**figure, "data": moved}
