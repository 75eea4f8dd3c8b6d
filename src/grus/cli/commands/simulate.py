"""The verb `simulate`: a trace, made-up jobs or this pool's history through the scheduler in virtual time.

Needs no server but for `--history`. Several simulations run on several cores; the figures are the same.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli.render import html_file
from grus.cli.render.html_file import Html
from grus.cli.render.output import Format, Output, emit, examples, say, table
from grus.model.errors import BadInput, Mistake

if TYPE_CHECKING:
    from grus.cli.whatif.scenario_inputs import WorkloadSource
    from grus.simulator.events.decision_executor import Costs
    from grus.simulator.whatif_scenarios import Scenario, WhatIfComparison

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
    since: Annotated[
        str, typer.Option(help="How far back the history reaches; a week if not given.", metavar="7d")
    ] = "",
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
    start_cost: Annotated[
        float | None,
        typer.Option(help="Seconds from a start until work; 10, or as measured of a history.", min=0),
    ] = None,
    pause_cost: Annotated[
        float | None, typer.Option(help="Seconds to save and leave; 5, or as measured of a history.", min=0)
    ] = None,
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
    html: Html = "",
    output: Output = Format.TABLE,
) -> None:
    """Run jobs through the scheduler in virtual time.

    It answers what-if questions.
    """
    if replay:
        _replay(replay, output)
        return
    from grus.cli.whatif import scenario_inputs
    from grus.cli.whatif.parallel_runs import run_all
    from grus.simulator.whatif_scenarios import compare
    from grus.simulator.workload.history_trace import measured

    gathering = scenario_inputs.Gathering()
    change = scenario_inputs.change(gathering, add_nodes, remove or [], quota or [], load, policy)
    chaos = scenario_inputs.chaos(gathering, faults)
    if wrong := html_file.problem(html):
        gathering.note(wrong.field, wrong.rule, wrong.value)
    source = scenario_inputs.WorkloadSource(
        trace=trace,
        synthetic=synthetic,
        history=history,
        nodes=nodes,
        queues=queues,
        applications=applications,
        seed=seed,
        since=since,
    )
    present = scenario_inputs.present(source, change, gathering)
    gathering.refuse()
    assert present is not None
    scenario = _with_costs(present.scenario, start_cost, pause_cost, resize_cost)
    comparison = compare(
        scenario,
        change,
        seeds=seeds,
        static=static,
        chaos=chaos,
        draw=bool(html),
        runner=lambda scenarios: run_all(scenarios, cores),
    )
    if present.history is not None and not nodes:  # on another pool there is nothing to compare with
        comparison = replace(comparison, measured=measured(present.history))
    if html:
        from grus.simulator.html_pages.comparison_page import page

        html_file.write(html, lambda script: page(comparison, script, _title(source)))
    _show(comparison, scenario.costs, output)


def _with_costs(scenario: "Scenario", start: float | None, pause: float | None, resize: float) -> "Scenario":
    """The scenario with the costs that were given; those not given stay as they are."""
    usual = scenario.costs
    costs = replace(
        usual,
        start=usual.start if start is None else start,
        pause=usual.pause if pause is None else pause,
        resize=resize,
    )
    return replace(scenario, costs=costs)


# ------------------------------------------------------------------------------------------------- replay


def _replay(path: str, output: Format) -> None:
    """Exit code 1 if any decision differs."""
    from grus.simulator.recorded.replay import replay

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


def _show(comparison: "WhatIfComparison", costs: "Costs", output: Format) -> None:
    from grus.simulator import result_summary

    def tables() -> None:
        table(*result_summary.table(comparison))
        if len(comparison.sides[0].outcomes[0].queues) > 1:
            say()
            table(*result_summary.queue_table(comparison.sides[0].outcomes[0]))
        sentences = (result_summary.answer(comparison), result_summary.against_static(comparison))
        for sentence in (*sentences, result_summary.model(comparison, costs)):
            if sentence:
                say(f"\n{sentence}")

    told = {**result_summary.as_json(comparison), "model": result_summary.model(comparison, costs)}
    emit(told, output, tables)


def _title(source: "WorkloadSource") -> str:
    jobs = (
        Path(source.trace).name if source.trace else "made-up jobs" if not source.history else "the history"
    )
    return f"Simulation: {jobs} on {source.nodes or 'this pool'}"
