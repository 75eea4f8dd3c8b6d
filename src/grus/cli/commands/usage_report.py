"""The verb `report`: what became of GPU-hours, what was wasted and why, and what came of them."""

from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli.connection import complete_job, connected, find_job
from grus.cli.render import html_file
from grus.cli.render.html_file import Html
from grus.cli.render.output import Format, Output, emit, examples, fields, local, say, span, table
from grus.cli.render.scaling_report import show_scaling, with_static
from grus.model.errors import BadInput, Mistake
from grus.model.texts.formatting import percent
from grus.model.texts.plural_words import counted

if TYPE_CHECKING:
    from grus.api.wire_types.report import HeldOut, HoursOut, JobReportOut, ReportOut
    from grus.reports.text_tables import GpuTime

PANEL = "Looking back"
MOST_ROWS = 20
"""Jobs that are shown to people."""


def add_to(app: typer.Typer) -> None:
    shown = examples(
        "grus report",
        "grus report --since 30d --queue vision",
        "grus report --job resnet --target 'loss<=0.3'",
        "grus report --since 1d -o json",
        "grus report --since 7d --static --html report.html",
    )
    app.command(rich_help_panel=PANEL, epilog=shown)(report)


def report(
    since: Annotated[
        str | None,
        typer.Option(help="How far back; a week, or the whole life of --job, if none.", metavar="7d"),
    ] = None,
    job: Annotated[
        str, typer.Option(help="Of this job alone: its id, or its name.", autocompletion=complete_job)
    ] = "",
    queue: Annotated[str, typer.Option(help="Of this queue's jobs alone.")] = "",
    target: Annotated[
        str | None,
        typer.Option(help="When did a figure that jobs report first come to this?", metavar="FIGURE<=NUMBER"),
    ] = None,
    static: Annotated[
        bool,
        typer.Option("--static", help="Compare with a split of the pool among the queues, by simulation."),
    ] = False,
    html: Html = "",
    output: Output = Format.TABLE,
) -> None:
    """Report the pool's GPU-hours: allocated, busy, useful, wasted.

    It names the causes of the waste, and the purposes of the hours.
    """
    _judge(since, html, static, job, queue)
    with connected() as client:
        id_ = find_job(client, job).id if job else None
        found = client.report(last=since, job=id_, queue=queue or None, target=target)
        if static:
            found = with_static(client, found, since)
    if html:
        html_file.write(html, lambda script: _page(found, script, job or queue))
    emit(found, output, lambda: _show(found))


def _judge(since: str | None, html: str, static: bool, job: str, queue: str) -> None:
    """Report all errors of the request before anything is done."""
    from grus.model.texts.units import parse_seconds

    mistakes = [] if (wrong := html_file.problem(html)) is None else [wrong]
    try:
        parse_seconds(since or "7d")
    except ValueError as error:
        mistakes.append(Mistake("since", str(error), since or ""))
    if static and (job or queue):
        rule = "is of all queues together; leave --job and --queue out"
        mistakes.append(Mistake("static", rule, job or queue))
    if mistakes:
        raise BadInput(mistakes)


def _page(found: "ReportOut", script: str, whose: str) -> str:
    from grus.reports.report_html import page

    return page(found, script, f"Report: {whose}" if whose else "Report")


def _show(found: "ReportOut") -> None:
    from grus.reports.text_tables import GpuTime, completion_sentence

    unit = GpuTime.of(found.hours.capacity)
    say(f"From {local(found.since)} to {local(found.until)}; {counted(found.gpus, 'GPU')} now.")
    say()
    table((unit.name.upper(), "", "OF", ""), _hours(found.hours, unit))
    say()
    table(("WASTE BY CAUSE", unit.name.upper(), "WHAT IT IS"), _waste(found.hours, unit))
    if len(found.queues) > 1:
        say()
        table(
            ("QUEUE", "JOBS", "ALLOCATED", "BUSY", "USEFUL", "WAITED"),
            [(one.name, one.jobs, *_three(one.held, unit), span(one.waited)) for one in found.queues],
        )
    say()
    rows = [_row(one, found.currency, unit) for one in found.jobs[:MOST_ROWS]]
    heads = ("JOB", "NAME", "PHASE", "RAN", "WAITED", "ALLOCATED", "BUSY", "USEFUL", "A GPU-HOUR")
    table((*heads, "TARGET" if found.target else "COST"), rows, empty="No job was there in this time.")
    if found.completion is not None:
        say(f"\n{completion_sentence(found.completion)}")
    if found.jobs_in_all > MOST_ROWS:
        say(f"… and {found.jobs_in_all - MOST_ROWS} more; `-o json` lists them.")
    show_scaling(found)
    totals = (("energy", _energy(found.energy_kwh)), ("cost", _money(found.cost, found.currency)))
    if any(value for _, value in totals):
        say()
        fields(totals)
    for note in found.notes:
        say(f"\n{note}")


def _hours(one: "HoursOut", unit: "GpuTime") -> list[tuple[str, str, str, str]]:
    held, hours = one.held, unit.number
    return [
        ("capacity", hours(one.capacity), "", ""),
        ("allocated", hours(held.allocated), percent(held.allocated, one.capacity), "of capacity"),
        ("busy", hours(held.busy), percent(held.busy, held.measured), f"of {hours(held.measured)} measured"),
        ("useful", hours(held.useful), percent(held.useful, held.measured), "of the same"),
        ("wanted", hours(one.demand), percent(one.demand, one.capacity), "of capacity: held or waited for"),
    ]


def _waste(one: "HoursOut", unit: "GpuTime") -> list[tuple[str, str, str]]:
    held, hours = one.held, unit.number
    return [
        ("idle", hours(held.idle), "held, at rest for now"),
        ("over-asking", hours(held.over_asking), "held, and never used by its job"),
        ("restarted work", hours(held.restarted), "held, to get back to where a job had been"),
        ("failed jobs", hours(held.failed), "held, by jobs that failed in the end"),
        ("waiting", hours(one.waiting), "free, while jobs waited"),
        ("fragmentation", hours(one.fragmentation), "free, and of no use to those who waited as it lay"),
        ("unwanted", hours(one.unwanted), "free, and nobody waited for it"),
    ]


def _three(held: "HeldOut", unit: "GpuTime") -> tuple[str, str, str]:
    return unit.number(held.allocated), unit.number(held.busy), unit.number(held.useful)


def _row(one: "JobReportOut", currency: str, unit: "GpuTime") -> tuple[str, ...]:
    last = _money(one.cost, currency)
    if one.target is not None:
        last = f"{span(one.target.since_submitted)}, {unit.told(one.target.gpu_hours)}"
    rate = "–" if one.per_gpu_hour is None else f"{one.per_gpu_hour:,.0f} {one.unit}"
    return (
        one.id,
        one.name,
        one.phase,
        span(one.ran),
        span(one.waited),
        *_three(one.held, unit),
        rate,
        last or "–",
    )


def _energy(kwh: float | None) -> str:
    return "" if kwh is None else f"{kwh:.2f} kWh"


def _money(amount: float | None, currency: str) -> str:
    return "" if amount is None else f"{amount:.2f} {currency}".rstrip()
