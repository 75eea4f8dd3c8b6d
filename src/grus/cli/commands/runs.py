"""`grus runs`: what is kept of jobs that have ended, one by one and two side by side."""

from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli.connection import ID_LENGTH, LOOKED_AT, complete_queue, connected
from grus.cli.render.output import (
    Format,
    Output,
    emit,
    examples,
    fields,
    local,
    number,
    say,
    size,
    span,
    table,
)
from grus.model.errors import BadInput, Mistake, NotFound

if TYPE_CHECKING:
    from grus.api.wire_types.runs import DifferenceOut, DiffOut, KeptArtefactOut, ResultOut
    from grus.sdk.client import Client

PANEL = "Jobs"
MOST_WORDS = 4
"""Parameters, and metrics, that a line of the list names; `show` has them all."""
COUNTERS = frozenset({"step", "epoch", "total", "batch"})
"""Figures that say how far a job came, not how well it did."""
ALIKE = "≈"
"""The change of a measured figure that would round to none; not a difference that people look for."""
SHORT = 12
"""Letters of a digest that people are shown."""

runs = typer.Typer(
    help="What is kept of jobs that have ended: parameters, metrics, code, data, artefacts, profile.",
    rich_markup_mode="rich",
)
RunArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="Id of a job, beginning of one, or a name: the last run of it."),
]


def add_to(app: typer.Typer) -> None:
    app.add_typer(runs, name="runs", rich_help_panel=PANEL)


@runs.callback(
    invoke_without_command=True,
    epilog=examples(
        "grus runs", "grus runs --name resnet --mine", "grus runs show resnet", "grus runs diff j4k j7p"
    ),
)
def list_runs(
    context: typer.Context,
    name: Annotated[str, typer.Option("--name", help="Only runs of jobs of this name.")] = "",
    queue: Annotated[
        str, typer.Option("-q", "--queue", help="Only runs in this queue.", autocompletion=complete_queue)
    ] = "",
    mine: Annotated[bool, typer.Option("--mine", help="Only your own.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=LOOKED_AT, help="So many at most, the last ended.")] = 50,
    output: Output = Format.TABLE,
) -> None:
    """List runs, the last ended first."""
    if context.invoked_subcommand is not None:
        return
    with connected() as client:
        found = client.runs(name=name or None, queue=queue or None, mine=mine, limit=limit)
    emit(found, output, lambda: _list(found))


@runs.command(epilog=examples("grus runs show resnet", "grus runs show j4k -o json"))
def show(run: RunArgument, output: Output = Format.TABLE) -> None:
    """Show everything that is kept of one run."""
    with connected() as client:
        found = find_run(client, run)
    emit(found, output, lambda: _show(found))


@runs.command(epilog=examples("grus runs diff j4k j7p", "grus runs diff j4k resnet --all -o json"))
def diff(
    first: RunArgument,
    second: RunArgument,
    everything: Annotated[bool, typer.Option("--all", help="Also what is the same in both.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Compare two runs.

    It shows parameters, metrics, code, data, artifacts and profile.
    """
    with connected() as client:
        found = client.diff(find_run(client, first).job, find_run(client, second).job)
    if not everything:
        differing = tuple(one for one in found.differences if not one.same)
        found = found.model_copy(update={"differences": differing})
    emit(found, output, lambda: _diff(found, everything))


def find_run(client: "Client", meant: str) -> "ResultOut":
    """The run that the words mean. Raises NotFound, or BadInput when they could mean several."""
    if len(meant) == ID_LENGTH and meant.startswith("j"):
        try:
            return client.result(meant)
        except NotFound:
            pass  # it may still be a name
    if named := client.runs(name=meant, limit=1):
        return named[0]
    found = [one for one in client.runs(limit=LOOKED_AT) if one.job.startswith(meant)]
    if not found:
        raise NotFound(f"There is no run {meant!r}. `grus runs` lists the ones that there are.")
    if len(found) > 1:
        listed = ", ".join(f"{one.job} ({one.name}, {one.phase})" for one in found[:5])
        rule = f"could mean any of {len(found)}: {listed}; give more of the id"
        raise BadInput([Mistake("run", rule, meant)])
    return found[0]


# -------------------------------------------------------------------------------------------------- tables


def _list(found: "list[ResultOut]") -> None:
    rows = [
        (
            one.job,
            one.name,
            one.user,
            one.queue,
            one.phase,
            local(one.ended_at),
            span(one.seconds),
            f"{one.gpu_hours:.3g}",
            _few([f"{name}={_value(value)}" for name, value in one.params.items()]),
            _few(
                [
                    f"{name}={_value(metric.last)}"
                    for name, metric in one.metrics.items()
                    if name not in COUNTERS
                ]
            ),
            one.code[:SHORT],
        )
        for one in found
    ]
    headings = (
        *("RUN", "NAME", "USER", "QUEUE", "STATE", "ENDED", "RAN", "GPU HOURS"),
        *("PARAMETERS", "METRICS", "CODE"),
    )
    table(headings, rows, empty="No runs yet: one is kept of each job when it has ended.")


def _show(one: "ResultOut") -> None:
    profile = one.profile
    fields(
        (
            ("run", one.job),
            ("name", one.name),
            ("user", one.user),
            ("queue", one.queue),
            ("type", one.type),
            ("state", one.phase),
            ("why", one.reason),
            ("trial", "" if one.sweep is None else f"{one.trial} of sweep {one.sweep}"),
            ("same as", one.same_as or ""),
            ("submitted", local(one.submitted_at)),
            ("started", local(one.started_at)),
            ("ended", local(one.ended_at)),
            ("ran", f"{span(one.seconds)} in {one.attempts} attempt{'s' * (one.attempts != 1)}"),
            ("GPU-hours", f"{one.gpu_hours:.3g}"),
            ("GPUs at once", number(one.most_gpus)),
            ("command", one.command),
            ("workdir", one.workdir),
            ("image", one.image),
            ("environment", ", ".join(one.env)),
            ("code", one.code),
            ("data", one.data),
            ("fingerprint", one.fingerprint),
            ("peak memory", _bytes(None if profile is None else profile.peak_memory, " on a GPU")),
            ("host memory", _bytes(None if profile is None else profile.host_memory)),
            ("cores", "" if profile is None or profile.cpu is None else f"{profile.cpu:.3g}"),
            ("energy", "" if profile is None or profile.energy is None else f"{profile.energy:.4g} J"),
        )
    )
    if one.params:
        say()
        table(("PARAMETER", "VALUE"), [(name, _value(value)) for name, value in one.params.items()])
    if one.metrics:
        say()
        rows = [
            (name, _value(metric.last), _value(metric.least), _value(metric.most))
            for name, metric in one.metrics.items()
        ]
        table(("METRIC", "LAST", "LEAST", "MOST"), rows)
    if one.inputs or one.outputs:
        say()
        kept = [_artefact("input", artefact) for artefact in one.inputs]
        kept += [_artefact("output", artefact) for artefact in one.outputs]
        table(("ARTEFACT", "NAME", "SIZE", "DIGEST"), kept)


def _diff(found: "DiffOut", everything: bool) -> None:
    lines = [(one, _change(one)) for one in found.differences]
    shown = [(one, change) for one, change in lines if everything or change != ALIKE]
    if not shown:
        but = " by more than a rounding; --all shows all" if lines else ""
        say(f"{found.first.job} and {found.second.job} do not differ in anything that is kept{but}.")
        return
    rows = [
        (one.part, one.name, _cell(one, one.first), _cell(one, one.second), change) for one, change in shown
    ]
    names = [f"{one.job} {one.name}" for one in (found.first, found.second)]
    table(("PART", "WHAT", *names, "CHANGE"), rows)


# --------------------------------------------------------------------------------------------------- words


def _few(words: list[str]) -> str:
    left = len(words) - MOST_WORDS
    return " ".join(words[:MOST_WORDS]) + (f" +{left}" if left > 0 else "")


def _value(value: bool | int | float | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _cell(line: "DifferenceOut", value: bool | int | float | str | None) -> str:
    """Format a value for people: bytes, times and shares have their units."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value[:SHORT] if line.part in ("artefacts", "data") else value
    if line.name in ("peak memory", "host memory"):
        return size(value)
    if line.name == "seconds":
        return span(value)
    if line.name == "utilisation":
        return f"{value:.0%}"
    return _value(value)


def _change(line: "DifferenceOut") -> str:
    """Return the relative change of measured metrics; otherwise mark only equal or nearly equal values."""
    if line.same:
        return "="
    first, second = line.first, line.second
    if line.part not in ("metrics", "profile") or not first:
        return ""
    if isinstance(first, int | float) and isinstance(second, int | float):
        told = f"{(second - first) / abs(first):+.1%}"
        return told if told[1:] != "0.0%" else ALIKE
    return ""


def _bytes(amount: int | None, behind: str = "") -> str:
    return "" if amount is None else size(amount) + behind


def _artefact(kind: str, one: "KeptArtefactOut") -> tuple[object, ...]:
    return kind, one.name, size(one.size), one.digest[:SHORT]
