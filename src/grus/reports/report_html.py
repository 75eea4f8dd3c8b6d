"""A report as one HTML file: what it comes to, tables, and plots. Nothing is loaded from anywhere.

Plotly's script is passed in by the caller. Everything follows from the report: same report, same bytes.
"""

from collections.abc import Sequence
from html import escape

from grus.api.scaling_wire import ElasticityOut, ScalabilityOut, SplitOut
from grus.api.wire_types.report import HoursOut, ReportOut
from grus.api.wire_types.timestamps import parse_time
from grus.model.texts.plural_words import counted
from grus.reports import charts, text_tables
from grus.reports.text_tables import DASH, GpuTime, amount, part
from grus.simulator.html_pages import page_skeleton
from grus.simulator.result_summary import span

MOST_SPEEDUPS = 6

STYLE = """
h2 { margin-top: 2.8rem; padding-top: 1.2rem; border-top: 1px solid var(--line) }
h3 { font-size: 1rem; margin: 1.6rem 0 .2rem }
.period { color: var(--soft); margin: 0 0 1rem }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.6rem, 1fr)); gap: .7rem;
  margin: 1rem 0 }
.tile { background: var(--lift); border-radius: .5rem; padding: .7rem .9rem }
.tile b { display: block; font-size: 1.55rem; line-height: 1.25; font-variant-numeric: tabular-nums }
.tile span { color: var(--soft); font-size: .85rem }
.plot { min-height: 12rem }
table { font-size: .93rem } td:first-child { white-space: normal; min-width: 9rem }
dl { display: grid; grid-template-columns: minmax(9rem, 14rem) 1fr; gap: .35rem 1.2rem; font-size: .92rem }
dt { font-weight: 600 } dd { margin: 0; color: var(--soft) }
@media (max-width: 40rem) {
  body { padding: 1rem } dl { grid-template-columns: 1fr } dd { margin: 0 0 .5rem }
}
@media print { body { max-width: none } .plot { break-inside: avoid } }
"""

DEFINITIONS = (
    ("capacity", "GPUs that might be used × hours, as counted each minute"),
    ("held (allocated)", "GPU-hours that jobs held, from the events in which that began and ended"),
    ("busy", "held GPU-hours × utilisation, for the time in which that was measured"),
    ("useful", "busy hours of work that was not done again, and whose job did not fail"),
    ("idle", "held, used at other times, at rest now"),
    (
        "asked for, never used",
        "held, and beyond what the job exceeds in a twentieth of its time",
    ),
    ("restarted", "hours of a later attempt until it was as far as the one before"),
    ("speed-up", "throughput against that at the smallest size that was run"),
    ("efficiency", "speed-up ÷ how many times the GPUs; from 80 % on a size is taken full advantage of"),
    (
        "foretold",
        "the speed-up that a fit to the other sizes gives: how far the fit may be off where nobody ran it",
    ),
    ("wanted", "the most that jobs can use which hold GPUs, or would start if there were room"),
    ("static split", "each queue owns GPUs by its quota; a job larger than that runs on all of them, longer"),
)


def page(report: ReportOut, script: str, title: str = "Report") -> str:
    """The whole file. `script` is Plotly's."""
    parts = [
        f'<p class="period">{escape(_period(report))}</p>',
        page_skeleton.answer(sentence(report)),
        *(
            []
            if report.completion is None
            else [page_skeleton.note(text_tables.completion_sentence(report.completion))]
        ),
        _tiles(report),
        *_hours(report),
        *_jobs(report),
        *(_scalability(report.scalability) if report.scalability is not None else []),
        *(_elasticity(report.elasticity, report) if report.elasticity is not None else []),
        *(_static(report.static) if report.static is not None else []),
        *_notes(report.notes),
        *_definitions(),
    ]
    return page_skeleton.sheet(title, parts, script, STYLE)


# ------------------------------------------------------------------------------------------- what it comes to


def sentence(report: ReportOut) -> str:
    """The report in one sentence: how much was held, busy and useful, and what cost most."""
    hours, held = report.hours, report.hours.held
    if not hours.capacity:
        return "The pool had no GPU-hours in this time."
    unit = GpuTime.of(hours.capacity)
    said = f"Of {unit.told(hours.capacity)}, jobs held {part(held.allocated, hours.capacity)}; "
    said += (
        "how busy they were was not measured."
        if held.busy is None
        else f"{part(held.busy, hours.capacity)} were busy and {part(held.useful, hours.capacity)} useful."
    )
    worst = _worst(hours, unit)
    return f"{said} Most was lost to GPUs that were {worst}." if worst else said


def _worst(hours: HoursOut, unit: GpuTime) -> str:
    """Return the largest waste; hours without demand do not count."""
    found = charts.parts(hours)
    wasted = ("waiting", "fragmentation", "idle", "over_asking")
    words = {field: words for field, words, _ in (*charts.POOL, *charts.HELD)}
    most = max(wasted, key=lambda field: found[field] or 0.0)
    return f"{words[most]} ({unit.told(found[most])})" if found[most] else ""


def _period(report: ReportOut) -> str:
    length = span(parse_time(report.until) - parse_time(report.since))
    whole = "" if report.whole else " · only what you may see of it"
    since, until = (at[:16].replace("T", " ") for at in (report.since, report.until))
    size = f"{counted(report.gpus, 'GPU')} · {counted(report.jobs_in_all, 'job')}"
    return f"{since} to {until} UTC ({length}) · {size}{whole}"


def _tiles(report: ReportOut) -> str:
    hours, held = report.hours, report.hours.held
    unit = GpuTime.of(hours.capacity)
    found = [
        (part(held.allocated, hours.capacity), "of all GPU time held by jobs"),
        (part(held.busy, hours.capacity), "busy"),
        (part(held.useful, hours.capacity), "useful"),
        (unit.number(hours.waiting), f"{unit.name} free while jobs waited"),
        (unit.number(held.restarted), f"{unit.name} of restarted work"),
    ]
    if report.energy_kwh is not None:
        found.append((f"{amount(report.energy_kwh)} kWh", "drawn by GPUs"))
    if report.cost is not None:
        found.append((f"{amount(report.cost)} {report.currency}".strip(), "for what was held"))
    tiles = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(words)}</span></div>'
        for value, words in found
    )
    return f'<div class="tiles">{tiles}</div>'


# ------------------------------------------------------------------------------------------------- sections


def _hours(report: ReportOut) -> list[str]:
    unit = GpuTime.of(report.hours.capacity)
    shown = [
        page_skeleton.heading("Where the GPU time went"),
        page_skeleton.plot("where", charts.where(report.hours, unit)),
        page_skeleton.table(*text_tables.hours_table(report.hours, unit)),
    ]
    if len(report.timeline) > 1:
        shown += [_small("Over time"), page_skeleton.plot("over-time", charts.over_time(report.timeline))]
    if len(report.queues) > 1:
        shown += [_small("By queue"), page_skeleton.table(*text_tables.queue_table(report.queues, unit))]
    return shown


def _jobs(report: ReportOut) -> list[str]:
    if not report.jobs:
        return []
    unit = GpuTime.of(report.hours.capacity)
    shown = min(len(report.jobs), text_tables.MOST_SHOWN)
    more = f" The {shown} of {report.jobs_in_all} that held most." if report.jobs_in_all > shown else ""
    return [
        page_skeleton.heading("Efficiency: what came of it"),
        page_skeleton.note(f"Useful output over what went in. A dash: nobody measured it.{more}"),
        page_skeleton.table(*text_tables.job_table(report.jobs, unit, report.currency, report.target)),
    ]


def _scalability(found: ScalabilityOut) -> list[str]:
    shown = [page_skeleton.heading("Scalability"), page_skeleton.answer(found.sentence)]
    drawn = [one for one in found.speedups if len(one.sizes) > 1]
    for number, one in enumerate(drawn[:MOST_SPEEDUPS]):
        kind = f" on {one.type}" if one.type else ""
        shown += [
            _small(f"{one.name}{kind}"),
            page_skeleton.note(one.sentence),
            page_skeleton.plot(f"speedup-{number}", charts.speedup(one)),
            page_skeleton.table(*text_tables.speed_table(one)),
        ]
    rest = [one for one in found.speedups if one not in drawn[:MOST_SPEEDUPS]]
    shown += [page_skeleton.note(one.sentence) for one in rest[: text_tables.MOST_SHOWN]]
    if found.resizes:
        last = min(len(found.resizes), text_tables.MOST_SHOWN)
        more = (
            [page_skeleton.note(f"The last {last} of {found.resizes_in_all}.")]
            if found.resizes_in_all > last
            else []
        )
        shown += [_small("Resizes"), *more, page_skeleton.table(*text_tables.resize_table(found.resizes))]
    return shown


def _elasticity(found: ElasticityOut, report: ReportOut) -> list[str]:
    unit = GpuTime.of(report.hours.capacity)
    shown = [page_skeleton.heading("Elasticity"), page_skeleton.answer(found.sentence)]
    if found.jobs:
        shown += [
            page_skeleton.table(*text_tables.elastic_table(found.jobs)),
            page_skeleton.note(
                "Not seen: not put to the test, or its workers do not say when they have joined."
            ),
        ]
    if any(len(job.course) > 2 for job in found.jobs):
        shown += [
            _small("Sizes over time"),
            page_skeleton.plot("courses", charts.courses(found.jobs, report.until)),
        ]
    if found.adapting:
        shown += [
            _small("Seconds to adapt"),
            page_skeleton.table(*text_tables.adapting_table(found.adapting)),
        ]
    one = found.supply
    if one is not None:
        shown += [
            _small("Demand against supply"),
            page_skeleton.note(
                f"{unit.told(one.wanted_gpu_hours)} were wanted and {unit.number(one.held_gpu_hours)} held; "
                f"{unit.number(one.unmet_gpu_hours)} were wanted while GPUs were free "
                f"({one.unmet_time:.0%} of the time), "
                f"{unit.number(one.beyond_gpu_hours)} beyond all that there was."
            ),
            page_skeleton.plot("supply", charts.supply(one)),
        ]
    return shown


def _static(found: SplitOut) -> list[str]:
    owned = ", ".join(f"{name} {gpus}" for name, gpus in sorted(found.shares.items()))
    left = f" Left out, since without an end: {counted(found.left_out, 'job')}." if found.left_out else ""
    return [
        page_skeleton.heading("Before and after: one pool against a static split"),
        *([page_skeleton.answer(found.sentence)] if found.sentence else []),
        *([page_skeleton.answer(found.buying)] if found.buying else []),
        *([page_skeleton.note(found.model)] if found.model else []),
        page_skeleton.note(f"The same jobs, each queue with GPUs of its own: {owned}.{left}"),
        page_skeleton.plot("before-after", charts.before_after(found)),
        page_skeleton.table(*text_tables.split_table(found)),
    ]


def _notes(notes: Sequence[str]) -> list[str]:
    if not notes:
        return []
    return [page_skeleton.heading("What could not be known"), *(page_skeleton.note(note) for note in notes)]


def _definitions() -> list[str]:
    terms = "".join(f"<dt>{escape(word)}</dt><dd>{escape(means)}</dd>" for word, means in DEFINITIONS)
    return [
        page_skeleton.heading("What the words mean"),
        f"<dl>{terms}</dl>",
        page_skeleton.note(f"{DASH}: not known"),
    ]


def _small(text: str) -> str:
    return f"<h3>{escape(text)}</h3>"
