"""The verb `simulate`: a trace, made-up jobs or this pool's history through the scheduler in virtual time.

Needs no server but for `--history`. Several simulations run on several cores; the figures are the same.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grus.cli.output import Format, Output, emit, examples, hint, say, table
from grus.model.errors import BadInput, Mistake

if TYPE_CHECKING:
    from collections.abc import Callable

    from grus.model.cluster import Node
    from grus.model.queues import Queue
    from grus.simulation.effects import Costs
    from grus.simulation.outcomes import Outcome
    from grus.simulation.what_if import Change, Chaos, Comparison, Scenario
    from grus.simulation.work import Work

PANEL = "Looking ahead"
SMALL = 4000
"""Jobs in all simulations together up to which starting more processes costs more than it gives."""
PAGE = 1000
MOST_SEEDS = 100


def add_to(app: typer.Typer) -> None:
    app.command(
        rich_help_panel=PANEL,
        epilog=examples(
            "grus simulate jobs.csv --nodes 2x8xA100",
            "grus simulate --synthetic days=14,jobs=200 --nodes 2x8xA100 --seeds 5 --add-nodes 1x8xA100",
            "grus simulate jobs.csv --nodes 4x8xA100 --queues config.toml --quota vision=12 --load 1.5",
            "grus simulate --history --remove node-3 -o json",
            "grus simulate --replay decisions.jsonl",
        ),
    )(simulate)


def simulate(
    trace: Annotated[
        str,
        typer.Argument(
            help="CSV with the columns submit, duration, gpus and perhaps queue, user, priority, min, max, "
            "type, checkpoint, max_runtime; or as published of the Philly clusters; - for standard input."
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
    output: Output = Format.TABLE,
) -> None:
    """Run jobs through the scheduler in virtual time: what if?"""
    from grus.simulation.effects import Costs

    if replay:
        _replay(replay, output)
        return
    change = _change(add_nodes, remove or [], quota or [], load)
    chaos = _chaos(faults)
    present = _present(trace, synthetic, history, nodes, queues, seed)
    costs = Costs(start=start_cost, pause=pause_cost, resize=resize_cost)
    _show(_compared(present, costs, change, chaos, seeds, static, cores), output)


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


# -------------------------------------------------------------------------------------------------- input


def _change(add_nodes: str, remove: Sequence[str], quotas: Sequence[str], load: float) -> "Change":
    from grus.simulation.what_if import Change

    numbers: dict[str, float] = {}
    mistakes = []
    for text in quotas:
        name, _, number = text.partition("=")
        try:
            numbers[name] = float(number)
        except ValueError:
            mistakes.append(Mistake("quota", "must be a queue and a number of GPUs, such as vision=12", text))
    if not 0 < load <= 100:
        mistakes.append(Mistake("load", "must be above 0 and at most 100", f"{load:g}"))
    if mistakes:
        raise BadInput(mistakes)
    return Change(add_nodes=add_nodes, remove=tuple(remove), quotas=numbers, load=load)


def _chaos(faults: str) -> "Chaos | None":
    from grus.api.units import parse_seconds
    from grus.simulation.what_if import Chaos

    if not faults:
        return None
    try:
        between = parse_seconds(faults)
    except ValueError as error:
        raise BadInput([Mistake("faults", str(error), faults)]) from None
    if between < 60:
        raise BadInput([Mistake("faults", "must be at least a minute", faults)])
    return Chaos(between)


def _present(
    trace: str, synthetic: str | None, history: bool, nodes: str, queues: str, seed: int
) -> "Scenario":
    from grus.simulation.what_if import PRESENT, Scenario

    if sum((bool(trace), synthetic is not None, history)) != 1:
        rule = 'give one of a CSV file, --synthetic (may be empty: "") and --history'
        raise BadInput([Mistake("trace", rule)])
    pool, own = _server_pool() if history and not nodes else (_parsed(nodes), ())
    works = _works(trace, synthetic, history, pool, seed)
    given = _queues_of(queues, pool) if queues else own
    return Scenario(PRESENT, pool, given or _quotas(works, pool), tuple(works))


def _parsed(nodes: str) -> "tuple[Node, ...]":
    from grus.simulation.pools import parse_nodes

    if not nodes:
        rule = "say which GPUs there are: nodes x GPUs x type, such as --nodes 2x8xA100"
        raise BadInput([Mistake("nodes", rule)])
    return parse_nodes(nodes)


def _works(
    trace: str, synthetic: str | None, history: bool, pool: "tuple[Node, ...]", seed: int
) -> "list[Work]":
    from grus.simulation.pools import largest_node
    from grus.simulation.traces import read_trace
    from grus.simulation.workloads import Mix, synthesize

    if synthetic is not None:
        works = synthesize(Mix.parse(synthetic), seed)
        if not works:
            raise BadInput(
                [Mistake("synthetic", "makes no jobs at all; ask for more days or jobs", synthetic)]
            )
        return works
    if history:
        return _server_jobs()
    if trace == "-":
        return read_trace(sys.stdin, node_gpus=largest_node(pool))
    try:
        with Path(trace).open(encoding="utf-8", newline="") as file:
            return read_trace(file, node_gpus=largest_node(pool))
    except OSError as error:
        raise BadInput([Mistake("trace", f"cannot be read: {error.strerror}", trace)]) from None
    except UnicodeDecodeError as error:
        raise BadInput([Mistake("trace", f"is not text in UTF-8: {error.reason}", trace)]) from None


def _quotas(works: "list[Work]", pool: "tuple[Node, ...]") -> "tuple[Queue, ...]":
    from grus.simulation.pools import quotas_by_use

    made = quotas_by_use(works, pool, least=1)
    if len(made) > 1:
        told = ", ".join(f"{queue.name} {queue.quota.total // 1_000_000}" for queue in made)
        hint(f"No --queues: quotas by the queues' shares of the GPU-time: {told}")
    return tuple(made)


def _queues_of(path: str, pool: "tuple[Node, ...]") -> "tuple[Queue, ...]":
    """The queues of a file, and the default one with what they leave."""
    from grus.api.wire import QueueIn, read, to_queue
    from grus.model.queues import DEFAULT_QUEUE, check_tree
    from grus.model.resources import GPU
    from grus.scheduling.quota import default_queue
    from grus.simulation.pools import count_gpus

    data = _document(path)
    listed = data.get("queues", data)
    if not isinstance(listed, dict) or not listed:
        raise BadInput([Mistake("queues", "must list queues under [queues.NAME]", path)])
    found = [to_queue(name, read(QueueIn, rules, whole=f"queues.{name}")) for name, rules in listed.items()]
    gpus = count_gpus(pool) * GPU
    if DEFAULT_QUEUE not in listed:
        found.append(default_queue(found, gpus))
    if mistakes := check_tree(found, gpus):
        raise BadInput(mistakes)
    return tuple(found)


def _document(path: str) -> dict[str, Any]:
    import tomllib

    import yaml

    try:
        text = Path(path).read_text(encoding="utf-8")
        data = tomllib.loads(text) if path.endswith(".toml") else yaml.safe_load(text)
    except OSError as error:
        raise BadInput([Mistake("queues", f"cannot be read: {error.strerror}", path)]) from None
    except (tomllib.TOMLDecodeError, yaml.YAMLError, UnicodeDecodeError) as error:
        kind = "TOML" if path.endswith(".toml") else "YAML"
        raise BadInput([Mistake("queues", f"is not {kind}: {error}", path)]) from None
    if not isinstance(data, dict):
        raise BadInput([Mistake("queues", "must be a mapping with queues", path)])
    return data


# ------------------------------------------------------------------------------------------- the own pool


def _server_pool() -> "tuple[tuple[Node, ...], tuple[Queue, ...]]":
    """The nodes and queues of the server found here."""
    from grus.api.wire import QueueIn, to_queue
    from grus.cli.access import connected
    from grus.model.cluster import Device, Node
    from grus.model.identifiers import DeviceId, NodeId

    with connected() as client:
        shown, queues = client.nodes(), client.queues()
    nodes = tuple(
        Node(
            NodeId(node.id),
            tuple(Device(DeviceId(gpu.id), gpu.type, gpu.memory, gpu.island) for gpu in node.gpus),
            labels=tuple(sorted(node.labels.items())),
        )
        for node in shown
    )
    names = QueueIn.model_fields.keys()
    rules = [(queue.name, queue.model_dump(include=set(names), exclude_none=True)) for queue in queues]
    return nodes, tuple(to_queue(name, QueueIn(**given)) for name, given in rules)


def _server_jobs() -> "list[Work]":
    from grus.cli.access import connected
    from grus.model.jobs import TERMINAL
    from grus.simulation.history import from_shown

    with connected() as client:
        jobs = client.jobs(phases=[*TERMINAL], limit=PAGE)
        while len(page := client.jobs(phases=[*TERMINAL], limit=PAGE, after=jobs[-1].id) if jobs else []):
            jobs += page
        events = client.events(limit=PAGE)
        while len(more := client.events(after=events[-1].seq, limit=PAGE) if events else []):
            events += more
    works = from_shown(jobs, events)
    if not works:
        raise BadInput([Mistake("history", "has no ended job yet; give a CSV file or --synthetic")])
    return works


# ------------------------------------------------------------------------------------------------ running


def _compared(
    present: "Scenario",
    costs: "Costs",
    change: "Change",
    chaos: "Chaos | None",
    seeds: int,
    static: bool,
    cores: int,
) -> "Comparison":
    from dataclasses import replace

    from grus.simulation.what_if import compare

    def runner(scenarios: "Sequence[Scenario]") -> "list[Outcome]":
        jobs = sum(len(scenario.works) for scenario in scenarios)
        with _progress_bar(jobs) as advance:
            if len(scenarios) == 1 or cores == 1 or jobs <= SMALL:
                return _here(scenarios, advance)
            return _on_cores(scenarios, cores, advance)

    return compare(
        replace(present, costs=costs), change, seeds=seeds, static=static, chaos=chaos, runner=runner
    )


def _here(scenarios: "Sequence[Scenario]", advance: "Callable[[int], None]") -> "list[Outcome]":
    from grus.simulation.what_if import run

    outcomes, before = [], 0
    for scenario in scenarios:
        base = before
        outcomes.append(run(scenario, lambda done, _, base=base: advance(base + done)))  # type: ignore[misc]
        before += len(scenario.works)
    return outcomes


def _on_cores(
    scenarios: "Sequence[Scenario]", cores: int, advance: "Callable[[int], None]"
) -> "list[Outcome]":
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    from grus.simulation.what_if import run

    outcomes, done = [], 0
    # Started anew, not forked: the progress bar has a thread.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores or None, mp_context=context) as pool:
        for scenario, outcome in zip(scenarios, pool.map(run, scenarios), strict=True):
            outcomes.append(outcome)
            done += len(scenario.works)
            advance(done)
    return outcomes


@contextmanager
def _progress_bar(total: int) -> "Iterator[Callable[[int], None]]":
    """A bar on the terminal's stderr; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating", total=total)
        yield lambda done: bar.update(task, completed=done)


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
