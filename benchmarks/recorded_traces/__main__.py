"""Show what recorded traces can and cannot say: `python -m benchmarks.recorded_traces FOLDER [-o json]`."""

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.recorded_traces import report, traces
from grus.cli.commands.compare import print_sheet
from grus.cli.render.html_file import Html
from grus.cli.render.output import Format, Output, show_error
from grus.model.errors import BadInput, Mistake

app = typer.Typer(add_completion=False)


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="Folder of recorded traces (CSV).")],
    html: Html = "",
    output: Output = Format.TABLE,
) -> None:
    """Show what recorded traces can and cannot say."""
    try:
        if not traces.are_in(folder):
            raise BadInput([Mistake("folder", "holds no traces that can be read", str(folder))])
        print_sheet(report.sheet(traces.read(folder)), html, output)
    except BadInput as error:
        show_error(error, output)
        raise typer.Exit(error.exit_code) from None


if __name__ == "__main__":
    app()
