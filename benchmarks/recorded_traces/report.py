"""Evidence and limits of recorded traces: their figures computed again, and the reasons not to compare.
Pure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape

import numpy as np

from benchmarks.recorded_traces.features import (
    GIB,
    gaps,
    gpu_names,
    listed,
    partner_of,
    pauses,
    period,
    steady_from,
    used_gpus,
)
from benchmarks.recorded_traces.misleading_figures import objections
from benchmarks.recorded_traces.traces import Trace, TraceResource, TraceSet, Values
from grus.compare.html_report import Plot, Section, Sheet, digits
from grus.simulator.html_pages import page_skeleton as html
from grus.simulator.html_pages.page_skeleton import COLOURS, Figure

WHOLE, STEADY = "whole trace", "after the ramp-up"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceColumn:
    """One column of one trace, over all its samples or those after the ramp-up."""

    place: str
    file: str
    column: str
    unit: str
    part: str
    samples: int
    mean: float
    median: float
    p95: float
    least: float
    peak: float


def rows(found: TraceSet) -> tuple[TraceColumn, ...]:
    """Every column that means something, for the whole trace and for the time after the ramp-up."""
    return tuple(
        _row(trace, column, unit, part, values[start:])
        for place in found.places
        for trace in found.traces
        if trace.place == place
        for column, unit, values in _columns(trace)
        for part, start in _parts(found, trace)
    )


def _columns(trace: Trace) -> Iterator[tuple[str, str, Values]]:
    if trace.holds is TraceResource.MEMORY:
        yield "kbmemused", "GiB", trace.columns["kbmemused"] / GIB
        yield "%memused", "%", trace.columns["%memused"]
        return
    for name, values in trace.columns.items():
        yield name, "%", values


def _parts(found: TraceSet, trace: Trace) -> list[tuple[str, int]]:
    """Return the start of each part.

    The ramp-up is the GPU's; files of the same run are assumed to begin with it.
    """
    runs = found.of(trace.place, TraceResource.CPU)
    ramps = [
        steady_from(gpu)
        for gpu in found.of(trace.place, TraceResource.GPU)
        if gpu is trace or (runs and partner_of(gpu, runs)[0] is partner_of(trace, runs)[0])
    ]
    return [(WHOLE, 0), *((STEADY, start) for start in ramps[:1] if 0 < start < len(trace))]


def _row(trace: Trace, column: str, unit: str, part: str, values: Values) -> TraceColumn:
    return TraceColumn(
        place=trace.place,
        file=trace.file,
        column=column,
        unit=unit,
        part=part,
        samples=len(values),
        mean=float(values.mean()),
        median=float(np.median(values)),
        p95=float(np.percentile(values, 95)),
        least=float(values.min()),
        peak=float(values.max()),
    )


# --------------------------------------------------------------------------------------- what can be said


def findings(found: TraceSet) -> tuple[str, ...]:
    """List the findings that the traces do support, each for its own place."""
    usual = period(found)
    clocked = [trace for trace in found.traces if trace.clock is not None]
    lost = sum(gaps(trace, usual) for trace in clocked)
    said = [
        f"A sample every {usual:g} s in all {len(clocked)} files that have a clock, "
        f"{'none lost' if not lost else f'with {lost} gaps'}."
    ]
    for place in found.places:
        for trace in found.of(place, TraceResource.GPU):
            said += [*_gpu_findings(trace, usual), *_between(found, trace)]
    return tuple(said)


def _gpu_findings(trace: Trace, usual: float) -> Iterator[str]:
    start, used, names = steady_from(trace), used_gpus(trace), gpu_names(trace)
    levels = [
        f"{name} {digits(float(trace.columns[name][start:].mean()))} % on average "
        f"(median {np.median(trace.columns[name][start:]):g} %, "
        f"p95 {np.percentile(trace.columns[name][start:], 95):g} %)"
        for name in used
    ]
    yield f"{trace.place}: steady from sample {start + 1} ({start * usual:g} s) on; then {listed(levels)}."
    idle = [name for name in names if name not in used]
    if idle:
        most = max(float(trace.columns[name][start:].max()) for name in idle)
        yield (
            f"{trace.place}: {listed(idle)} do nothing after the ramp-up (at most {most:g} %). "
            "Whether they were held for this run is not recorded."
        )


def _between(found: TraceSet, trace: Trace) -> Iterator[str]:
    """Describe the CPU's work while the GPUs stand still, by the number of the sample."""
    rests = pauses(trace)
    for processor in found.of(trace.place, TraceResource.CPU)[:1] if len(rests) > 2 else []:
        user = processor.columns["%user"]
        resting = np.zeros(len(user), dtype=bool)
        for first, length in rests:
            resting[first : first + length] = True
        steady = np.arange(len(user)) >= steady_from(trace)
        still, work = np.median(user[resting]), np.median(user[steady & ~resting])
        yield (
            f"{trace.place}: while its GPUs stand still the CPU is at {still:.1f} % user (median), else at "
            f"{work:.1f} %: something runs there meanwhile. What it is, and whether the GPUs wait for it, is "
            "not recorded."
        )


# --------------------------------------------------------------------------------------------------- sheet


def sheet(found: TraceSet) -> Sheet:
    against = objections(found)
    return Sheet(
        title=f"Recorded traces: {found.folder}, {' and '.join(found.places)}",
        answers=(
            f"{listed(found.places)} cannot be compared by these traces, for {len(against)} reasons. "
            f"The gravest: {listed([one.what for one in against[:3]])}.",
            "To know, run one job file in both: grus compare run job.yaml --env … --env ….",
        ),
        sections=(
            Section(
                heading="Why they cannot be compared",
                columns=("what", "why"),
                rows=tuple((f"{n}. {one.what}", one.why) for n, one in enumerate(against, start=1)),
                words=True,
            ),
            Section(
                heading="What they do show",
                columns=("", "what"),
                rows=tuple((f"{n}.", sentence) for n, sentence in enumerate(findings(found), start=1)),
                note="Each for itself; a comparison does not follow.",
                words=True,
            ),
            _figures(rows(found)),
        ),
        plots=tuple(_plots(found)),
        data=as_json(found),
    )


def _figures(made: Sequence[TraceColumn]) -> Section:
    return Section(
        heading="Figures, worked out again",
        columns=("place", "file", "column", "part", "samples", "mean", "median", "p95", "least", "peak"),
        rows=tuple(
            (
                *(row.place, row.file, f"{row.column} ({row.unit})", row.part, str(row.samples)),
                *(f"{value:.2f}" for value in (row.mean, row.median, row.p95, row.least, row.peak)),
            )
            for row in made
        ),
        note="One run each, so there are no intervals. Ramp-up: until every used GPU is at half its median.",
    )


def _plots(found: TraceSet) -> Iterator[Plot]:
    usual = period(found)
    for number, place in enumerate(found.places):
        gpus = [
            (name, trace.columns[name])
            for trace in found.of(place, TraceResource.GPU)
            for name in gpu_names(trace)
        ]
        if gpus:
            heading = f"Use of the GPUs: {place}"
            yield Plot(name=f"gpus-{number}", heading=heading, figure=drawn(gpus, usual, most=100))
    processors = [
        (f"{trace.place} {trace.condition}".strip(), trace.columns["%user"])
        for trace in found.traces
        if trace.holds is TraceResource.CPU
    ]
    if processors:
        note = "Per cent user, of the whole node."
        yield Plot(name="cpu", heading="CPU", note=note, figure=drawn(processors, usual))


def drawn(lines: Sequence[tuple[str, Values]], usual: float, *, most: float | None = None) -> Figure:
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": escape(name),
            "x": [round(place * usual / 60, 4) for place in range(len(values))],
            "y": [round(float(value), 2) for value in values],
            "line": {"color": html.colour(COLOURS, number), "width": 1},
        }
        for number, (name, values) in enumerate(lines)
    ]
    # The same axis for each place, so that readers do not confuse 31 % with 100 %.
    reach: dict[str, object] = {"rangemode": "tozero"} if most is None else {"range": [0, most * 1.02]}
    layout = {
        **html.layout(380),
        "xaxis": {"title": {"text": "minutes, by the number of the sample"}},
        "yaxis": {"title": {"text": "%"}, **reach},
    }
    return {"data": traces, "layout": layout}


def as_json(found: TraceSet) -> dict[str, object]:
    return {
        "kind": "recorded",
        "places": list(found.places),
        "period": period(found),
        "comparable": not objections(found),
        "objections": [asdict(one) for one in objections(found)],
        "findings": list(findings(found)),
        "stated": [asdict(one) for one in found.stated],
        "figures": [asdict(row) for row in rows(found)],
    }
