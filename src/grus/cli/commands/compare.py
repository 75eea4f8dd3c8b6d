"""The verbs `compare run` and `compare show`: one workload in several environments, and what came out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli.render import html_file
from grus.cli.render.html_file import Html
from grus.cli.render.output import Format, Output, emit, examples, hint, say, table
from grus.model.errors import BadInput, Mistake

if TYPE_CHECKING:
    from grus.compare.comparison_verdict import ComparisonReport
    from grus.compare.html_report import Sheet

PANEL = "Looking back"
MOST_REPEATS = 1000


def add_to(app: typer.Typer) -> None:
    compare = typer.Typer(
        no_args_is_help=True,
        help="Compare: the same workload in several environments, from one description.",
    )
    compare.command(
        epilog=examples(
            "grus compare run job.yaml --env local --env slurm=gpu",
            "grus compare run job.yaml --env local --env kubernetes=lab/vision --repeats 10 --with-load",
            "grus compare run job.yaml --env local --env local --out noise",
        )
    )(run)
    compare.command(
        epilog=examples(
            "grus compare show biggan-comparison",
            "grus compare show biggan-comparison --html comparison.html",
            "grus compare show biggan-comparison -o json",
        )
    )(show)
    app.add_typer(compare, name="compare", rich_help_panel=PANEL)


def run(
    job: Annotated[str, typer.Argument(help="Job file with one job of a fixed size.")],
    env: Annotated[
        list[str] | None,
        typer.Option(
            help="Where: local, grus, grus=ADDRESS, kubernetes=CONTEXT, kubernetes=CONTEXT/NAMESPACE, slurm, "
            "slurm=PARTITION. "
            "Twice or more; the first is what the others are set against.",
            metavar="WHERE",
        ),
    ] = None,
    repeats: Annotated[
        int, typer.Option(help="Runs in each; below 5 there are no intervals.", min=1, max=MOST_REPEATS)
    ] = 5,
    with_load: Annotated[
        bool, typer.Option("--with-load", help="Every run once more beside a CPU-heavy load.")
    ] = False,
    out: Annotated[
        str, typer.Option(help="Folder for what is measured; NAME-comparison by default.", metavar="FOLDER")
    ] = "",
    period: Annotated[float, typer.Option(help="Seconds between two samples.", min=0.1, max=60)] = 1.0,
    wait: Annotated[
        str, typer.Option(help="Longest time for one run, the queue included.", metavar="TIME")
    ] = "1d",
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Go on although the sides do not do the same work.")
    ] = False,
    html: Html = "",
    output: Output = Format.TABLE,
) -> None:
    """Run a workload in several environments in turns.

    Started again, it makes only the missing runs. Exit code 1 if an environment was blocked: the measurements
    are shown all the same.
    """
    from grus.compare import backends, comparison_runner, comparison_verdict, environments, workload
    from grus.model.texts.units import parse_seconds

    _refuse(html)
    work = workload.read(Path(job))
    places = environments.parse(env or [])
    try:
        patience = parse_seconds(wait)
    except ValueError as error:
        raise BadInput([Mistake("wait", str(error), wait)]) from None
    options = comparison_runner.Options(
        repeats=repeats,
        with_load=with_load,
        period=period,
        anyway=anyway,
        patience=patience,
        html=Path(html) if html else None,
    )
    folder = Path(out or f"{work.name}-comparison")
    found = comparison_runner.run(work, places, options, folder, of=backends.of, tell=hint)
    print_sheet(_sheet(comparison_verdict.report(found)), html, output)
    hint(f"kept in {folder}; grus compare show {folder} shows it again")
    if any(side.visit.blocked is not None for side in found.sides):
        raise typer.Exit(1)


def show(
    folder: Annotated[str, typer.Argument(help="What `compare run` wrote.")],
    html: Html = "",
    output: Output = Format.TABLE,
) -> None:
    """Show the results of a comparison, which may be unfinished."""
    from grus.compare import comparison_verdict, result_directory

    _refuse(html)
    print_sheet(_sheet(comparison_verdict.report(result_directory.read(Path(folder)))), html, output)


def _refuse(html: str) -> None:
    if wrong := html_file.problem(html):
        raise BadInput([wrong])


def _sheet(made: "ComparisonReport") -> "Sheet":
    from grus.compare import report_tables

    return report_tables.sheet(made)


def print_sheet(made: "Sheet", html: str, output: Format) -> None:
    """Print the tables of a sheet, or its data, and write its page where one is wanted."""
    from grus.compare.html_report import page

    def tables() -> None:
        for sentence in made.answers:
            say(f"{sentence}\n")
        for section in made.sections:
            say(section.heading)
            if section.note:
                say(f"  {section.note}")
            table(section.columns, section.rows)
            say()

    emit(made.data, output, tables)
    if html:
        html_file.write(html, lambda script: page(made, script))
