"""The plots of a comparison that was run: its runs, its stages, its CPU over time. Pure."""

from html import escape

from grus.compare import cpu_stress, run_metrics
from grus.compare.comparison_verdict import HEADLINES, ComparisonReport
from grus.compare.html_report import Plot
from grus.simulator.html_pages import page_skeleton as html
from grus.simulator.html_pages.page_skeleton import COLOURS, Figure


def plots(made: ComparisonReport) -> tuple[Plot, ...]:
    names = {row.measure.name for row in made.rows}
    found = []
    headline = next((name for name in HEADLINES if name in names), None)
    if headline is not None:
        note = "Each dot is a run, in the order in which they were made."
        found.append(
            Plot(name="runs", heading=f"{headline}, run by run", figure=dots(made, headline), note=note)
        )
    if made.stages:
        found.append(Plot(name="stages", heading="Time per stage", figure=stage_bars(made)))
    if any(run.record for side in made.found.sides for run in side.runs):
        note = "Cores that the workload used in its first run in each environment."
        found.append(Plot(name="cpu", heading="CPU over time", figure=cpu_lines(made), note=note))
    return tuple(found)


def dots(made: ComparisonReport, name: str) -> Figure:
    """One figure of every run, by environment, with and without the load."""
    measure = next(one for one in run_metrics.MEASURES if one.name == name)
    traces: list[object] = []
    for number, side in enumerate(made.found.sides):
        for loaded in (False, True):
            values = cpu_stress.values(side, measure, loaded=loaded)
            if values:
                words = f"{side.label}, with load" if loaded else side.label
                marker = {
                    "color": html.colour(COLOURS, number),
                    "size": 10,
                    "symbol": "circle-open" if loaded else "circle",
                }
                traces.append(
                    {
                        "type": "scatter",
                        "mode": "markers",
                        "name": escape(words),
                        "marker": marker,
                        "x": list(range(1, len(values) + 1)),
                        "y": [round(value, 6) for value in values],
                    }
                )
    layout = {
        **html.layout(360),
        "xaxis": {"title": {"text": "run"}, "dtick": 1},
        "yaxis": {"title": {"text": name}, "rangemode": "tozero"},
    }
    return {"data": traces, "layout": layout}


def stage_bars(made: ComparisonReport) -> Figure:
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": escape(name),
            "y": [escape(label) for label in made.labels],
            "x": [0.0 if one is None else round(one.mean, 4) for one in summaries],
            "marker": {"color": html.colour(COLOURS, number), "line": {"width": 0.6}},
        }
        for number, (name, summaries) in enumerate(made.stages)
    ]
    layout = {
        **html.layout(max(350, 160 + 60 * len(made.labels))),
        "barmode": "stack",
        "xaxis": {"title": {"text": "seconds, mean of the runs"}},
        "yaxis": {"automargin": True, "autorange": "reversed"},
    }
    return {"data": traces, "layout": layout}


def cpu_lines(made: ComparisonReport) -> Figure:
    traces = []
    for number, side in enumerate(made.found.sides):
        records = [run.record for run in side.runs if run.record is not None]
        for record in records[:1]:
            samples = run_metrics.run_samples(record)
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": escape(side.label),
                    "x": [sample.t for sample in samples],
                    "y": [sample.cpu for sample in samples],
                    "line": {"color": html.colour(COLOURS, number), "width": 1.5},
                }
            )
    layout = {
        **html.layout(320),
        "xaxis": {"title": {"text": "seconds"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "cores"}, "rangemode": "tozero"},
    }
    return {"data": traces, "layout": layout}
