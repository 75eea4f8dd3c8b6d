"""The verbs for the pool: queues, nodes, and the live view of both."""

import contextlib
import signal
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli import learned
from grus.cli.access import complete_node, complete_queue, connected
from grus.cli.output import (
    Format,
    Output,
    console,
    emit,
    examples,
    for_people,
    number,
    say,
    size,
    table,
)
from grus.model.errors import BadInput, Mistake, NotFound
from grus.sdk.asked import Asked

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from grus.api.wire import NodeOut, QueueOut
    from grus.cli.view import Look
    from grus.sdk.client import Client

PANEL = "Pool"
HOLDING = ["starting", "running", "pausing"]
RULES = (
    "parent",
    "reserved",
    "weight",
    "limit",
    "nodes",
    "members",
    "max_priority",
    "max_runtime",
    "dev_limit",
    "idle",
    "oversubscribe",
)
"""What `queue set` leaves as it is unless told otherwise (and the quota)."""
queue = typer.Typer(help="Who deserves how many GPUs, and who has them.", rich_markup_mode="rich")
QueueName = Annotated[str, typer.Argument(help="Name of the queue.", autocompletion=complete_queue)]
NodeName = Annotated[str, typer.Argument(help="Name of the node.", autocompletion=complete_node)]


def add_to(app: typer.Typer) -> None:
    app.add_typer(queue, name="queue", rich_help_panel=PANEL)
    for verb, shown in (
        (nodes, examples("grus nodes", "grus nodes -o json")),
        (cordon, examples("grus cordon node-0")),
        (uncordon, examples("grus uncordon node-0")),
        (top, examples("grus top", "grus top --once", "grus top -o json")),
    ):
        app.command(rich_help_panel=PANEL, epilog=shown)(verb)


# ------------------------------------------------------------------------------------------------- queues


@queue.callback(invoke_without_command=True)
def _queues(context: typer.Context, output: Output = Format.TABLE) -> None:
    if context.invoked_subcommand is None:
        list_queues(output)


@queue.command("list", epilog=examples("grus queue list", "grus queue list -o json"))
def list_queues(output: Output = Format.TABLE) -> None:
    """List queues: quota, what they hold, their fair share, what they borrow."""
    from grus.cli.view import QUEUE_HEADINGS, queue_rows

    with connected() as client:
        queues = client.queues()
    emit(queues, output, lambda: table(QUEUE_HEADINGS, queue_rows(queues), empty="No queues."))


@queue.command(
    "set",
    epilog=examples(
        "grus queue set vision --quota 4 --reserved 2 --weight 2 --limit 8 --parent research",
        "grus queue set vision --quota A100=4,any=8",
        "grus queue set vision --idle below=10%,for=30m,action=pause",
    ),
)
def set_queue(
    name: QueueName,
    quota: Annotated[str | None, typer.Option(help="Deserved GPUs: 4, or by type A100=4,any=8.")] = None,
    reserved: Annotated[float | None, typer.Option(help="The part of it that is never lent.")] = None,
    weight: Annotated[float | None, typer.Option(help="Its part of what the quotas leave.")] = None,
    limit: Annotated[str | None, typer.Option(help="Never above this; none removes it.")] = None,
    parent: Annotated[str | None, typer.Option(help="The queue above it; none for the top.")] = None,
    member: Annotated[list[str] | None, typer.Option(help="Who may submit; may be repeated.")] = None,
    max_priority: Annotated[int | None, typer.Option(help="Highest priority that jobs may ask for.")] = None,
    max_runtime: Annotated[
        str | None, typer.Option(help="Longest run of a job, such as 3d; none removes it.")
    ] = None,
    dev_limit: Annotated[
        str | None, typer.Option(help="Longest development session, such as 8h; none removes it.")
    ] = None,
    idle: Annotated[
        str | None,
        typer.Option(
            help="For jobs whose GPUs idle, such as below=10%,for=30m,action=pause; none removes it."
        ),
    ] = None,
    oversubscribe: Annotated[bool | None, typer.Option(help="Allow quotas above what is there.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Add a queue, or change the given things of one."""
    from grus.api.wire import QueueIn, read

    given = {
        "quota": None if quota is None else _quota(quota),
        "reserved": reserved,
        "weight": weight,
        "limit": None if limit is None else _number_or_none("limit", limit),
        "parent": parent,
        "members": member,
        "max_priority": max_priority,
        "max_runtime": max_runtime,
        "dev_limit": dev_limit,
        "idle": None if idle is None else _pairs("idle", idle),
        "oversubscribe": oversubscribe,
    }
    changed = {key: value for key, value in given.items() if value is not None}
    with connected() as client:
        merged = {**_rules_of(client, name), **changed}
        wanted = {key: value for key, value in merged.items() if value != "none"}
        made = client.put_queue(name, read(QueueIn, wanted, whole="queue"))
    emit(made, output, lambda: say(_queue_words(made)))


def _rules_of(client: "Client", name: str) -> dict[str, object]:
    """The rules of the queue as they are; nothing for a new one."""
    for found in client.queues():
        if found.name == name:
            rules = {key: value for key in RULES if (value := getattr(found, key)) is not None}
            return {**rules, "quota": found.quota_by_type or found.quota}
    return {}


def _quota(text: str) -> object:
    """`4`, or `A100=4,any=8`."""
    if "=" not in text:
        return _number_or_none("quota", text)
    pairs = [part.split("=", 1) for part in text.split(",")]
    if any(len(pair) != 2 for pair in pairs):
        raise BadInput([Mistake("quota", "is written 4, or by type as A100=4,any=8", text)])
    return {kind.strip(): _number_or_none("quota", amount) for kind, amount in pairs}


def _pairs(field: str, text: str) -> object:
    """`below=10%,for=30m`, or none."""
    if text == "none":
        return text
    pairs = [part.split("=", 1) for part in text.split(",")]
    if any(len(pair) != 2 for pair in pairs):
        raise BadInput([Mistake(field, "is written as below=10%,for=30m,action=pause", text)])
    return {key.strip(): value.strip() for key, value in pairs}


def _number_or_none(field: str, text: str) -> float | str:
    if text == "none" and field == "limit":
        return "none"
    try:
        return float(text)
    except ValueError:
        raise BadInput([Mistake(field, "must be a number of GPUs, such as 4", text)]) from None


def _queue_words(made: "QueueOut") -> str:
    limit = "" if made.limit is None else f", at most {number(made.limit)}"
    above = f", under {made.parent}" if made.parent else ""
    figures = f"quota {number(made.quota)}, reserved {number(made.reserved)}, weight {number(made.weight)}"
    idle = f"; idle: {', '.join(f'{k} {v}' for k, v in made.idle.items())}" if made.idle else ""
    return f"{made.name}: {figures}{limit}{above}{idle}"


@queue.command("delete", epilog=examples("grus queue delete vision"))
def delete_queue(name: QueueName, output: Output = Format.TABLE) -> None:
    """Remove a queue that has no live jobs."""
    with connected() as client:
        client.delete_queue(name)
    emit({"deleted": name}, output, lambda: say(f"The queue {name} is gone."))


# -------------------------------------------------------------------------------------------------- nodes


def nodes(output: Output = Format.TABLE) -> None:
    """List nodes and their GPUs: who holds them, how they are."""
    with connected() as client:
        found = client.nodes()
        names = {job.id: job.name for job in client.jobs(phases=HOLDING, limit=1000)}
    emit(found, output, lambda: _list_nodes(found, names))


def _list_nodes(found: "list[NodeOut]", names: dict[str, str]) -> None:
    rows = []
    for node in found:
        for gpu in node.gpus:
            held = ", ".join(f"{names.get(one.job, one.job)} {number(one.gpus)}" for one in gpu.holders)
            state = "cordoned" if node.cordoned and gpu.health == "healthy" else gpu.health
            does, free = learned.tag_words(gpu.tag), number(gpu.free)
            rows.append((node.id, gpu.id, gpu.type, size(gpu.memory), state, free, held or gpu.outside, does))
    headings = ("NODE", "GPU", "TYPE", "MEMORY", "STATE", "FREE", "HELD BY", "DOES")
    told = len(headings) if any(row[-1] for row in rows) else len(headings) - 1
    table(headings[:told], [row[:told] for row in rows], empty="No nodes.")


def cordon(node: NodeName, output: Output = Format.TABLE) -> None:
    """Give a node no new work; what runs there goes on."""
    with connected() as client:
        client.cordon(_known(client, node))
    emit({"node": node, "cordoned": True}, output, lambda: say(f"{node} takes no new work."))


def uncordon(node: NodeName, output: Output = Format.TABLE) -> None:
    """Let a node take work again."""
    with connected() as client:
        client.uncordon(_known(client, node))
    emit({"node": node, "cordoned": False}, output, lambda: say(f"{node} takes work again."))


def _known(client: "Client", name: str) -> str:
    known = [node.id for node in client.nodes()]
    if name not in known:
        raise NotFound(f"There is no node {name!r}; there are {', '.join(known)}.")
    return name


# ---------------------------------------------------------------------------------------------------- top


def top(
    once: Annotated[bool, typer.Option("--once", help="One picture, then return.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.1)] = 1.0,
    output: Output = Format.TABLE,
) -> None:
    """Watch nodes, GPUs, queues and jobs; Ctrl-C ends it."""
    from grus.cli.view import look, picture

    with connected() as client:
        if for_people() and output is Format.TABLE and not once:
            _live(lambda: picture(look(client)), every)
            return
        seen = look(client)
    emit(seen.as_json(), output, lambda: _once(seen))


def _once(seen: "Look") -> None:
    from grus.cli.view import picture, plain_view

    if for_people():
        console().print(picture(seen))
    else:
        say(plain_view(seen))


def _live(draw: "Callable[[], RenderableType]", every: float) -> None:
    """Draw anew every so often until Ctrl-C."""
    from rich.live import Live

    over = Asked()

    def interrupt(number: int, frame: FrameType | None) -> None:
        over.set()  # should the exception be lost on its way (in a finalizer), the loop ends all the same
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with contextlib.suppress(KeyboardInterrupt), Live(draw(), console=console(), screen=True) as live:
            while not over.wait(every):
                live.update(draw(), refresh=True)
    finally:
        signal.signal(signal.SIGINT, before)
