"""The verb `simulate`: a trace, made-up jobs or this pool's history through the scheduler in virtual time.

Needs no server but for `--history`. Several simulations run on several cores; the figures are the same.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli import html_file
from grus.cli.output import Format, Output, emit, examples, say, table
from grus.model.errors import BadInput, Mistake

if TYPE_CHECKING:
    from grus.cli.worlds import Source
    from grus.simulation.what_if import Comparison

PANEL = "Looking ahead"
MOST_SEEDS = 100


def add_to(app: typer.Typer) -> None:
    app.command(
        rich_help_panel=PANEL,
        epilog=examples(
            "grus simulate jobs.csv --nodes 2x8xA100",
            "grus simulate --synthetic days=14,jobs=200 --nodes 2x8xA100 --seeds 5 --add-nodes 1x8xA100",
            "grus simulate jobs.csv --nodes 4x8xA100 --queues config.toml --quota vision=12 --load 1.5",
            "grus simulate jobs.csv --nodes 2x8xA100 --html out.html",
            "grus simulate --history --remove node-3 -o json",
            "grus simulate --replay decisions.jsonl",
        ),
    )(simulate)


def simulate(
    trace: Annotated[
        str,
        typer.Argument(
            help="CSV with the columns submit, duration, gpus and perhaps queue, user, priority, min, max, "
            "type, checkpoint, max_runtime; or as published of the Philly clusters or with Pollux; - for "
            "standard input."
        ),
    ] = "",
    synthetic: Annotated[
        str | None,
        typer.Option(
            help="Made-up jobs instead: days=7,jobs=100 (a day),users=20,queues=vision:language,build=0.4,"
            "retrain=0.2,elastic=0.4,largest=8; what is not named is as usual.",
            metavar="MIX",
        ),
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="The ended jobs of the server instead.")] = False,
    applications: Annotated[
        str,
        typer.Option(
            help="Measurements of the applications that a workload of Pollux names, a folder each; found by "
            "itself where it lies as published (../traces).",
            metavar="FOLDER",
        ),
    ] = "",
    nodes: Annotated[
        str, typer.Option(help="The pool: nodes x GPUs x type, joined by +.", metavar="2x8xA100")
    ] = "",
    queues: Annotated[
        str, typer.Option(help="TOML or YAML file with `queues`, such as config.toml.", metavar="FILE")
    ] = "",
    add_nodes: Annotated[str, typer.Option(help="What if these were added?", metavar="1x8xA100")] = "",
    remove: Annotated[
        list[str] | None, typer.Option(help="What if this node were gone? May be repeated.", metavar="NODE")
    ] = None,
    quota: Annotated[
        list[str] | None,
        typer.Option(help="What if the queue had this quota? May be repeated.", metavar="QUEUE=GPUS"),
    ] = None,
    load: Annotated[float, typer.Option(help="What if there were so many times the jobs?")] = 1.0,
    policy: Annotated[
        str,
        typer.Option(
            help="What if what quotas leave open went by: fifo, fair, srtf, tiresias, optimus, grus?",
            metavar="NAME",
        ),
    ] = "",
    seeds: Annotated[
        int,
        typer.Option(help="Possible worlds to look at, for intervals.", min=1, max=MOST_SEEDS),
    ] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the made-up jobs.")] = 0,
    static: Annotated[
        bool, typer.Option("--static/--no-static", help="Compare with a split of the pool among the queues.")
    ] = True,
    start_cost: Annotated[float, typer.Option(help="Seconds from a start until work.", min=0)] = 10.0,
    pause_cost: Annotated[float, typer.Option(help="Seconds to save and leave.", min=0)] = 5.0,
    resize_cost: Annotated[float, typer.Option(help="Seconds of stall of a resize.", min=0)] = 1.0,
    faults: Annotated[
        str, typer.Option(help="Mean time between failures of a node, such as 30d.", metavar="TIME")
    ] = "",
    cores: Annotated[int, typer.Option(help="Processes to use; 0 for one a core.", min=0)] = 0,
    replay: Annotated[
        str,
        typer.Option(
            help="Play a server's record of its decisions again instead (config.toml: server.record): "
            "are they all equal?",
            metavar="FILE",
        ),
    ] = "",
    html: Annotated[
        str, typer.Option(help="Write a page with plots too: one file, needs no network.", metavar="FILE")
    ] = "",
    output: Output = Format.TABLE,
) -> None:
    """Run jobs through the scheduler in virtual time: what if?"""
    if replay:
        _replay(replay, output)
        return
    from grus.cli import worlds
    from grus.cli.on_cores import run_all
    from grus.simulation.effects import Costs
    from grus.simulation.what_if import compare

    gathering = worlds.Gathering()
    change = worlds.change(gathering, add_nodes, remove or [], quota or [], load, policy)
    chaos = worlds.chaos(gathering, faults)
    if wrong := html_file.problem(html):
        gathering.note(wrong.field, wrong.rule, wrong.value)
    source = worlds.Source(
        trace=trace,
        synthetic=synthetic,
        history=history,
        nodes=nodes,
        queues=queues,
        applications=applications,
        seed=seed,
    )
    present = worlds.present(source, change, gathering)
    gathering.refuse()
    assert present is not None
    costs = Costs(start=start_cost, pause=pause_cost, resize=resize_cost)
    comparison = compare(
        replace(present, costs=costs),
        change,
        seeds=seeds,
        static=static,
        chaos=chaos,
        draw=bool(html),
        runner=lambda scenarios: run_all(scenarios, cores),
    )
    if html:
        from grus.simulation.page import page

        html_file.write(html, lambda script: page(comparison, script, _title(source)))
    _show(comparison, output)


# ------------------------------------------------------------------------------------------------- replay


def _replay(path: str, output: Format) -> None:
    """Exit code 1 if any decision differs."""
    from grus.simulation.replay import replay

    try:
        with Path(path).open("rb") as file:
            found = replay(file)
    except OSError as error:
        raise BadInput([Mistake("replay", f"cannot be read: {error.strerror}", path)]) from None

    def tell() -> None:
        say(found.sentence())
        if found.difference is not None:
            say(f"  live       {found.difference.live}")
            say(f"  simulated  {found.difference.simulated}")

    emit(found.as_json(), output, tell)
    if found.difference is not None:
        raise typer.Exit(1)


# ------------------------------------------------------------------------------------------------- output


def _show(comparison: "Comparison", output: Format) -> None:
    from grus.simulation import answers

    def tables() -> None:
        table(*answers.table(comparison))
        if len(comparison.sides[0].outcomes[0].queues) > 1:
            say()
            table(*answers.queue_table(comparison.sides[0].outcomes[0]))
        for sentence in (answers.answer(comparison), answers.against_static(comparison)):
            if sentence:
                say(f"\n{sentence}")

    emit(answers.as_json(comparison), output, tables)


def _title(source: "Source") -> str:
    jobs = (
        Path(source.trace).name if source.trace else "made-up jobs" if not source.history else "the history"
    )
    return f"Simulation: {jobs} on {source.nodes or 'this pool'}"
