"""Sections of `report` on scalability, elasticity, and the same jobs on a static split of the pool."""

from typing import TYPE_CHECKING

from grus.cli.render.output import say, table

if TYPE_CHECKING:
    from grus.api.wire_types.report import ReportOut
    from grus.sdk.client import Client


def with_static(client: "Client", found: "ReportOut", since: str | None) -> "ReportOut":
    """The report with its jobs on a static split: simulated here, on all cores."""
    from grus.cli.whatif.parallel_runs import run_all
    from grus.reports.static_split import split
    from grus.simulator.workload.history_trace import decode

    history = decode(client.history(last=since, until=found.until))
    made = split(history, runner=lambda scenarios: run_all(scenarios, 0))
    if made is None:
        note = (
            "The jobs of this time cannot be simulated on a static split: its parts are too small for them."
            if history.jobs
            else "No job was submitted and ended in this time: a static split has nothing to simulate."
        )
        return found.model_copy(update={"notes": (*found.notes, note)})
    return found.model_copy(update={"static": made})


def show_scaling(found: "ReportOut") -> None:
    """Print scalability and elasticity for people: a sentence and a table of each."""
    from grus.reports import text_tables

    if found.scalability is not None:
        say(f"\n{found.scalability.sentence}")
        for one in found.scalability.speedups:
            if len(one.sizes) > 1:
                say(f"{one.sentence}\n")
                table(*text_tables.speed_table(one))
    if found.elasticity is not None and found.elasticity.jobs:
        say(f"\n{found.elasticity.sentence}\n")
        table(*text_tables.elastic_table(found.elasticity.jobs))
        if found.elasticity.adapting:
            say()
            table(*_titled(text_tables.adapting_table(found.elasticity.adapting), "SECONDS TO"))
    if found.static is not None:
        say()
        table(*_titled(text_tables.split_table(found.static), "BEFORE AND AFTER"))
        for sentence in (found.static.sentence, found.static.buying, found.static.model):
            if sentence:
                say(f"\n{sentence}")


def _titled(made: "tuple[list[str], list[list[str]]]", title: str) -> "tuple[list[str], list[list[str]]]":
    heading, rows = made
    return [title, *(name.upper() for name in heading[1:])], rows
