"""The verbs for sweeps: hand one in, list them, look at the trials of one, take its best."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from grus.cli.commands.jobs import PANEL, read_file
from grus.cli.connection import JobArgument, connected, find_job
from grus.cli.render import html_file
from grus.cli.render.output import (
    Format,
    Output,
    between,
    emit,
    emit_json,
    examples,
    fields,
    for_people,
    hint,
    number,
    say,
    span,
    table,
)
from grus.model.errors import BadInput, Mistake, NotFound
from grus.model.phases import TERMINAL, Phase
from grus.model.texts.plural_words import counted

if TYPE_CHECKING:
    from grus.api.wire_types.job import JobOut
    from grus.api.wire_types.sweep import SweepOut, TrialOut
    from grus.sdk.client import Client

RUN = "run"
LOOK = 2.0
"""Seconds between two looks at a sweep that is followed."""
SWEEP = "sweep"


class _FileOrVerb(TyperGroup):
    """`grus sweep FILE` is `grus sweep run FILE`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = [RUN, *args]
        return super().resolve_command(ctx, args)


sweep = typer.Typer(
    cls=_FileOrVerb,
    help="Searches for good parameters: `grus sweep FILE` begins one.",
    rich_markup_mode="rich",
    no_args_is_help=True,
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(sweep, name=SWEEP, rich_help_panel=PANEL)


@sweep.command(RUN, epilog=examples("grus sweep tune.yaml", "grus sweep run tune.yaml --watch"))
def run(
    file: Annotated[Path, typer.Argument(help="Job file with a `sweep:` section; - for standard input.")],
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Follow it until it ends.")] = False,
    key: Annotated[
        str, typer.Option(help="Name of this submission: the same one again submits nothing new.")
    ] = "",
    output: Output = Format.TABLE,
) -> None:
    """Start a sweep.

    Its trials are jobs made from the rest of the file.
    """
    documents = read_file(file)
    if not any(document.sweep is not None for document in documents):
        rule = "is needed for a sweep: what is searched, by which figure, and when it ends"
        raise BadInput([Mistake(SWEEP, rule)])
    with connected() as client:
        jobs = [handle.job for handle in client.submit_stages(documents, key=key or None)]
        begun = next(job for job in jobs if job.type == SWEEP)
        if not watch:
            emit(begun, output, lambda: _tell_begun(begun))
            return
        ended = _follow(client, begun, quiet=output is Format.JSON)
        found = client.sweep(ended.id)
        emit(found, output, lambda: _show(found, everything=False))
        raise typer.Exit(0 if ended.phase == Phase.SUCCEEDED else 1)


def _tell_begun(job: "JobOut") -> None:
    say(f"{job.id}  {job.name}  in {job.queue}: {job.phase}")
    if for_people():
        hint(f"next: grus sweep show {job.id} · grus sweep best {job.id} · grus stop {job.id}")


def _follow(client: "Client", job: "JobOut", *, quiet: bool) -> "JobOut":
    told = ""
    while job.phase not in TERMINAL:
        client.wait_for_end(job.id, LOOK)
        job = client.job(job.id)
        ended, made = job.progress.get("ended", 0), job.progress.get("trials", 0)
        words = f"{number(ended)} of {counted(number(made), 'trial')} ended; {job.reason}"
        if not quiet and words != told:
            hint(f"[grus] {words}")
        told = words
    return job


@sweep.command("ls", epilog=examples("grus sweep ls", "grus sweep ls --mine -o json"))
def list_sweeps(
    mine: Annotated[bool, typer.Option("--mine", help="Only my own.")] = False,
    limit: Annotated[int, typer.Option(help="Look at so many jobs, newest first.", min=1, max=1000)] = 1000,
    output: Output = Format.TABLE,
) -> None:
    """List sweeps, the ended ones too, newest first."""
    with connected() as client:
        found = [job for job in client.jobs(mine=mine, limit=limit) if job.type == SWEEP]
    headings = ("ID", "NAME", "QUEUE", "USER", "PHASE", "TRIALS", "ENDED", "AGE", "RAN", "REASON")
    emit(found, output, lambda: table(headings, map(_row, found), empty="No sweeps."))


def _row(job: "JobOut") -> tuple[object, ...]:
    return (
        job.id,
        job.name,
        job.queue,
        job.user,
        job.status,
        number(job.progress.get("trials", 0)),
        number(job.progress.get("ended", 0)),
        between(job.submitted_at, None),
        between(job.first_started_at, job.ended_at),
        job.reason,
    )


@sweep.command("show", epilog=examples("grus sweep show tune", "grus sweep show tune --all -o json"))
def show(
    job: JobArgument,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Every trial, not the best 20.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Show a sweep's trials, best first, and parameter importance."""
    with connected() as client:
        found = client.sweep(_sweep(client, job).id)
    emit(found, output, lambda: _show(found, everything=everything))


def _sweep(client: "Client", meant: str) -> "JobOut":
    job = find_job(client, meant)
    if job.type != SWEEP:
        raise NotFound(f"Job {job.id} ({job.name}) is no sweep. `grus sweep ls` lists them.")
    return job


SHOWN = 20
"""Trials in the table, unless all are wanted."""


def _show(found: "SweepOut", *, everything: bool) -> None:
    job = found.job
    best = next((one for one in found.trials if one.number == found.best), None)
    fields(
        [
            ("sweep", f"{job.id} ({job.name}): {job.status}"),
            ("why", job.reason),
            ("search", f"{found.goal} {found.metric}; {found.sampler}, {found.rule}"),
            ("best", "" if best is None else f"{_value(best.value)} by trial {best.number} ({best.job})"),
            ("mattered", ", ".join(f"{name} {part:.0%}" for name, part in found.importance.items())),
            ("took", f"{found.gpu_hours:.3g} GPU-hours in {counted(len(found.trials), 'trial')}"),
        ]
    )
    names = [axis.name for axis in found.space]
    ranked = sorted(found.trials, key=lambda one: _rank(one, found.goal))
    shown = ranked if everything else ranked[:SHOWN]
    figures = (found.metric.upper(), found.by.upper(), *names)
    headings = ("TRIAL", "JOB", "PHASE", *figures, "GPU-H", "RAN", "WHY")
    say()
    table(headings, [_trial(one, names) for one in shown], empty="No trials yet.")
    if len(shown) < len(ranked):
        hint(f"{len(ranked) - len(shown)} more: grus sweep show {job.id} --all")


def _rank(one: "TrialOut", goal: str) -> tuple[bool, float, int]:
    value = one.value or 0.0
    return one.value is None, value if goal == "minimize" else -value, one.number


def _trial(one: "TrialOut", names: list[str]) -> tuple[object, ...]:
    return (
        one.number,
        one.job,
        one.status,
        _value(one.value),
        _value(one.reached),
        *(_value(one.params.get(name)) for name in names),
        f"{one.gpu_hours:.3g}",
        span(one.seconds) if one.seconds else "",
        one.why,
    )


def _value(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@sweep.command("best", epilog=examples("grus sweep best tune", "grus sweep best tune --to best.yaml"))
def best(
    job: JobArgument,
    to: Annotated[str, typer.Option(help="Write the job file here, not to standard output.")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Print the best trial as a job file.

    The file runs by itself.
    """
    with connected() as client:
        found = client.best(_sweep(client, job).id)
    if output is Format.JSON:
        emit_json(found)
        return
    import yaml

    from grus.sdk.client import KEPT_ENVIRONMENT

    env = {
        name: value for name, value in found.document.get("env", {}).items() if name not in KEPT_ENVIRONMENT
    }
    written = {key: value for key, value in found.document.items() if key != "env"} | (
        {"env": env} if env else {}
    )
    head = f"# Trial {found.trial} of sweep {found.sweep}: {found.value:g}\n"
    text = head + yaml.safe_dump(written, sort_keys=False, allow_unicode=True)
    if not to:
        say(text.rstrip())
        return
    try:
        Path(to).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput([Mistake("to", f"cannot be written: {error.strerror}", to)]) from None
    say(f"{to}: trial {found.trial}, {found.value:g}")


@sweep.command("plot", epilog=examples("grus sweep plot tune", "grus sweep plot tune --html tune.html"))
def plot(
    job: JobArgument,
    html: Annotated[str, typer.Option(help="The file to write.", metavar="FILE")] = "sweep.html",
    output: Output = Format.TABLE,
) -> None:
    """Write a page with a sweep's charts and trials.

    It is one file to keep or to pass on.
    """
    from grus.dashboard.views import sweep_export

    if not html:
        raise BadInput([Mistake("html", "must name the file to write, such as sweep.html")])
    if wrong := html_file.problem(html):
        raise BadInput([wrong])
    with connected() as client:
        found = client.sweep(_sweep(client, job).id)
    search = sweep_export.search_of(found)
    html_file.write(html, lambda script: sweep_export.page(found.job.name, search, script))
    comes_to = sweep_export.sentence(search)
    emit({"file": html, "sentence": comes_to}, output, lambda: say(comes_to))
