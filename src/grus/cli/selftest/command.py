"""The verb `selftest`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli.render.output import Format, Output, emit, examples, hint, say

if TYPE_CHECKING:
    from grus.cli.selftest.results import SelftestCheck


def add_to(app: typer.Typer) -> None:
    shown = examples("grus selftest", "grus selftest --to selftest.md", "grus selftest --virtual 2x4x16GB")
    app.command(rich_help_panel="Server", epilog=shown)(selftest)


def selftest(
    to: Annotated[
        Path | None, typer.Option(help="Write the page of results here too.", metavar="FILE")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Run this check alone; may be repeated.", metavar="CHECK")
    ] = None,
    examples_in: Annotated[
        Path | None,
        typer.Option("--examples", help="The folder of examples; ./examples if not given.", metavar="FOLDER"),
    ] = None,
    virtual: Annotated[
        str, typer.Option(help="Rehearse on virtual GPUs: nodes x GPUs x memory.", metavar="2x4x16GB")
    ] = "",
    output: Output = Format.TABLE,
) -> None:
    """Test on this machine's GPUs what needs GPUs.

    Exit codes: 0 everything passed, 1 a check failed, 7 nothing failed but some checks could not run here.
    """
    import tempfile

    from grus.cli.selftest.checks import Bench, checks
    from grus.cli.selftest.host_inventory import survey
    from grus.cli.selftest.results import CheckResult, exit_code, page, summary, tried

    folder = examples_in or Path("examples")
    found = folder.absolute() if (folder / "gang.yaml").is_file() else None
    machine, results = survey(), list[CheckResult]()
    with tempfile.TemporaryDirectory(prefix="grus-selftest-") as work:
        for check in _chosen(checks(Bench(Path(work), found, virtual)), only):
            hint(f"{check.name}: {check.shows} …")
            results.append(tried(check, machine, time.monotonic))
            hint(f"  {results[-1].state}: {results[-1].text}")
    text = page(machine, results, time.strftime("%Y-%m-%d"), rehearsed=bool(virtual))
    if to is not None:
        to.write_text(text, encoding="utf-8")
    document = {
        "summary": summary(results),
        "versions": dict(machine.versions()),
        "rehearsed": bool(virtual),
        "checks": [result.as_json() for result in results],
    }
    emit(document, output, lambda: say(f"\n{text}"))
    if code := exit_code(results):
        raise typer.Exit(code)


def _chosen(found: "list[SelftestCheck]", only: list[str] | None) -> "list[SelftestCheck]":
    """The checks with these names; all if none is given."""
    from grus.model.errors import BadInput, Mistake

    names = [check.name for check in found]
    if wrong := [name for name in only or () if name not in names]:
        rule = f"names no check; there are {', '.join(names)}"
        raise BadInput([Mistake("only", rule, name) for name in wrong])
    return [check for check in found if not only or check.name in only]
