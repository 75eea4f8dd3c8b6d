"""A report as a sheet: its tables, its plots, and the same for programs. Pure."""

from dataclasses import asdict

from grus.compare import comparison_charts
from grus.compare.comparison_verdict import ComparisonReport, answers
from grus.compare.html_report import NOTHING, Section, Sheet, shown
from grus.compare.result_directory import Side, lacking
from grus.compare.statistics import Interval, Ratio, Summary
from grus.model.texts.plural_words import counted

UNTOLD = {
    "batch": "let the workload say it: grus.report(step=…, batch=…)",
    "precision": "let the workload say it in its report: precision",
    "data": "name it in the job file, by its path: data",
}
"""Advice on how a workload can report the traits that no side reports."""


def sheet(made: ComparisonReport) -> Sheet:
    name = made.found.description.workload
    sections = (
        _environments(made),
        _confounds(made),
        _figures(made),
        _stages(made),
        _load(made),
        _nodes(made),
        _preflight(made),
        _manual(made),
    )
    return Sheet(
        title=f"Comparison: {name} in {' and '.join(made.labels)}",
        answers=answers(made),
        sections=tuple(section for section in sections if section.rows),
        plots=comparison_charts.plots(made),
        data=as_json(made),
    )


# --------------------------------------------------------------------------------------------------- tables


def _environments(made: ComparisonReport) -> Section:
    return Section(
        heading="Environments",
        columns=("environment", "runs", "with load", "manual steps", "standing"),
        rows=tuple(_standing(made, side) for side in made.found.sides),
    )


def _standing(made: ComparisonReport, side: Side) -> tuple[str, ...]:
    wanted, blocked = made.found.description.repeats, side.visit.blocked
    plain, loaded = len(side.sound(loaded=False)), len(side.sound(loaded=True))
    gone = lacking(made.found.description, side)
    standing = (
        f"blocked at {blocked.step}"
        if blocked
        else "whole"
        if not gone
        else f"{counted(len(gone), 'run')} missing"
    )
    with_load = f"{loaded} of {wanted}" if made.found.description.with_load else NOTHING
    named = f"{side.label} ({side.environment})" if side.label != str(side.environment) else side.label
    return (named, f"{plain} of {wanted}", with_load, str(len(side.visit.manual)), standing)


def _confounds(made: ComparisonReport) -> Section:
    rows = [
        ("GRAVE" if one.grave else "loud", one.what, "; ".join(f"{a}: {b}" for a, b in one.found), one.advice)
        for one in made.confounds
    ]
    rows += [("untold", name, "no side says", UNTOLD[name]) for name in made.untold]
    return Section(
        heading="What differs besides the environment",
        columns=("", "what", "found", "what to do"),
        rows=tuple(rows),
        note="Grave: the work itself was not the same. Loud: the machines, or what else ran there, were not.",
        words=True,
    )


def _figures(made: ComparisonReport) -> Section:
    rows = []
    for row in made.rows:
        for side, summary, ratio in zip(made.found.sides, row.summaries, row.ratios, strict=True):
            if side.sound(loaded=False):
                cells = _cells(summary, row.measure.unit)
                rows.append((row.measure.name, side.label, *cells, _ratio(ratio)))
    first = made.labels[0]
    return Section(
        heading="Figures over the repeats",
        columns=("figure", "environment", "runs", "mean", "95 % interval", "median", "p95", f"times {first}"),
        rows=tuple(rows),
        note="Without a load beside it. An observation is a run, not a sample; intervals are bootstrapped.",
    )


def _cells(summary: Summary | None, unit: str) -> tuple[str, ...]:
    if summary is None:
        return ("0", NOTHING, NOTHING, NOTHING, NOTHING)
    return (
        str(summary.count),
        shown(summary.mean, unit),
        _span(summary.interval, unit),
        shown(summary.median, unit),
        shown(summary.p95, unit),
    )


def _span(interval: Interval | None, unit: str) -> str:
    return NOTHING if interval is None else f"{shown(interval.low, unit)} … {shown(interval.high, unit)}"


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    span = f" ({ratio.interval.low:.3f} … {ratio.interval.high:.3f})" if ratio.interval else ""
    return f"{ratio.value:.3f}{span}"


def _stages(made: ComparisonReport) -> Section:
    rows = [
        (name, label, *_cells(summary, "s"))
        for name, summaries in made.stages
        for label, summary in zip(made.labels, summaries, strict=True)
    ]
    return Section(
        heading="Time per stage",
        columns=("stage", "environment", "runs", "mean", "95 % interval", "median", "p95"),
        rows=tuple(rows),
        note="As the workload told of them; `run` is what comes before its first word.",
    )


def _load(made: ComparisonReport) -> Section:
    rows = [
        (
            effect.measure.name,
            effect.label,
            shown(effect.without, effect.measure.unit),
            shown(effect.beside, effect.measure.unit),
            _ratio(effect.ratio),
        )
        for effect in made.effects
    ]
    return Section(
        heading="With a CPU-heavy load beside it",
        columns=("figure", "environment", "without", "with", "times without"),
        rows=tuple(rows),
        note="; ".join(
            f"{load.label}: {shown(load.cores, 'cores')} of {load.asked:g} processes" for load in made.loads
        ),
    )


def _nodes(made: ComparisonReport) -> Section:
    rows = []
    for side in made.found.sides:
        nodes = dict.fromkeys(run.record.node for run in side.runs if run.record is not None)
        for node in nodes:
            gpus = sorted({gpu.name for gpu in node.gpus})
            rows.append(
                (
                    side.label,
                    node.host,
                    node.cpu_model,
                    f"{node.allowed:g} of {node.cores}",
                    shown(node.memory_allowed or node.memory, "bytes"),
                    f"{len(node.gpus)} {', '.join(gpus)}".strip(),
                    node.system,
                    node.kernel,
                    node.container or "none",
                    node.filesystem,
                )
            )
    return Section(
        heading="Nodes",
        columns=(
            *("environment", "host", "CPU", "cores", "memory", "GPUs"),
            *("system", "kernel", "container", "file system"),
        ),
        rows=tuple(rows),
        words=True,
    )


def _preflight(made: ComparisonReport) -> Section:
    """A check a row, the environments side by side."""
    seen = [{check.name: check for check in side.visit.checks} for side in made.found.sides]
    names = dict.fromkeys(name for checks in seen for name in checks)
    rows = []
    for name in names:
        checks = [each.get(name) for each in seen]
        cells = [NOTHING if check is None else f"{check.verdict}: {check.found}" for check in checks]
        fixes = dict.fromkeys(check.fix for check in checks if check is not None and check.fix)
        rows.append((name, *cells, "; ".join(fixes)))
    return Section(
        heading="Preflight", columns=("check", *made.labels, "what to do"), rows=tuple(rows), words=True
    )


def _manual(made: ComparisonReport) -> Section:
    return Section(
        heading="Manual steps",
        columns=("environment", "what", "why"),
        rows=tuple((side.label, one.what, one.why) for side in made.found.sides for one in side.visit.manual),
        note="What a person had to do by hand for this environment alone.",
        words=True,
    )


# --------------------------------------------------------------------------------------------- for programs


def as_json(made: ComparisonReport) -> dict[str, object]:
    description = made.found.description
    return {
        "kind": "comparison",
        "workload": {
            "name": description.workload,
            "argv": list(description.argv),
            "gpus": description.gpus,
            "code": description.code,
        },
        "repeats": description.repeats,
        "whole": made.whole,
        "missing": list(made.missing),
        "answers": list(answers(made)),
        "confounds": [asdict(one) for one in made.confounds],
        "untold": list(made.untold),
        "environments": [_side_json(made, number, side) for number, side in enumerate(made.found.sides)],
        "effects_of_load": [
            {
                "environment": effect.label,
                "figure": effect.measure.name,
                "without": effect.without,
                "with": effect.beside,
                "ratio": asdict(effect.ratio),
            }
            for effect in made.effects
        ],
        "load_between": _json_of(made.between),
        "loads": [{**asdict(load), "real": load.real} for load in made.loads],
    }


def _side_json(made: ComparisonReport, number: int, side: Side) -> dict[str, object]:
    blocked = side.visit.blocked
    return {
        "label": side.label,
        "environment": str(side.environment),
        "blocked": None if blocked is None else asdict(blocked),
        "manual_steps": [asdict(one) for one in side.visit.manual],
        "preflight": [asdict(one) for one in side.visit.checks],
        "figures": {
            row.measure.name: {
                "unit": row.measure.unit,
                "summary": _json_of(row.summaries[number]),
                "by_first": _json_of(row.ratios[number]),
            }
            for row in made.rows
        },
        "stages": {name: _json_of(summaries[number]) for name, summaries in made.stages},
        "runs": [
            {
                "name": run.name,
                "repeat": run.repeat,
                "loaded": run.loaded,
                "problem": run.problem,
                "node": None if run.record is None else asdict(run.record.node),
            }
            for run in side.runs
        ],
    }


def _json_of(value: Summary | Ratio | None) -> dict[str, object] | None:
    return None if value is None else asdict(value)
