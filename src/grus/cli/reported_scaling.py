"""What `report` tells of scalability, elasticity, and the same jobs on a static split of the pool."""

from typing import TYPE_CHECKING

from grus.cli.output import say, table

if TYPE_CHECKING:
    from grus.api.report_wire import ReportOut
    from grus.api.wire import JobOut
    from grus.sdk.client import Client


def with_static(client: "Client", found: "ReportOut") -> "ReportOut":
    """The report with what its jobs would have fared on a static split: simulated here, on all cores."""
    from grus.cli.on_cores import run_all
    from grus.cli.worlds import server_history, server_pool
    from grus.reports.static_split import of_shown, split, tabled

    nodes, queues = server_pool()
    jobs, events = server_history(client)
    there = [job for job in jobs if _within(job, found)]
    speedups = {} if found.scalability is None else tabled(found.scalability)
    before = of_shown(nodes, queues, there, events, speedups)
    made = split(before, runner=lambda scenarios: run_all(scenarios, 0))
    if made is None:
        note = (
            "The jobs of this time cannot be played on a static split: its parts are too small for them."
            if before.present.works
            else "No job came and ended in this time: there is nothing to play on a static split."
        )
        return found.model_copy(update={"notes": (*found.notes, note)})
    left = max(0, found.jobs_in_all - made.sides[0].jobs)
    return found.model_copy(update={"static": made.model_copy(update={"left_out": left})})


def _within(job: "JobOut", found: "ReportOut") -> bool:
    from grus.api.times import parse_time

    since, until = parse_time(found.since), parse_time(found.until)
    ended = job.ended_at
    return ended is not None and since <= parse_time(job.submitted_at) and parse_time(ended) <= until


def show_scaling(found: "ReportOut") -> None:
    """For people: a sentence and a table of each."""
    from grus.reports import tables

    if found.scalability is not None:
        say(f"\n{found.scalability.sentence}")
        for one in found.scalability.speedups:
            if len(one.sizes) > 1:
                say(f"{one.sentence}\n")
                table(*tables.speed_table(one))
    if found.elasticity is not None and found.elasticity.jobs:
        say(f"\n{found.elasticity.sentence}\n")
        table(*tables.elastic_table(found.elasticity.jobs))
        if found.elasticity.adapting:
            say()
            table(*_titled(tables.adapting_table(found.elasticity.adapting), "SECONDS TO"))
    if found.static is not None:
        say()
        table(*_titled(tables.split_table(found.static), "BEFORE AND AFTER"))
        for sentence in (found.static.sentence, found.static.buying):
            if sentence:
                say(f"\n{sentence}")


def _titled(made: "tuple[list[str], list[list[str]]]", title: str) -> "tuple[list[str], list[list[str]]]":
    heading, rows = made
    return [title, *(name.upper() for name in heading[1:])], rows
