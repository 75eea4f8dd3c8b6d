"""The verbs for the pool: nodes, and the live view of nodes, queues and jobs."""

import contextlib
import signal
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli.commands import profile_stats
from grus.cli.connection import complete_node, connected
from grus.cli.render.escape import tamed
from grus.cli.render.output import (
    Format,
    Output,
    console,
    emit,
    examples,
    for_people,
    hint,
    local,
    number,
    say,
    size,
    table,
)
from grus.model.errors import NotFound
from grus.sdk.sigterm import SignalFlag

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from grus.api.wire_types.pool import NodeOut
    from grus.cli.render.pool_view import PoolSnapshot
    from grus.sdk.client import Client

PANEL = "Pool"
HOLDING = ["starting", "running", "pausing"]
NodeName = Annotated[str, typer.Argument(help="Name of the node.", autocompletion=complete_node)]


def add_to(app: typer.Typer) -> None:
    for verb, shown in (
        (nodes, examples("grus nodes", "grus nodes -o json")),
        (cordon, examples("grus cordon node-0")),
        (drain, examples('grus drain node-0 --message "New disks, back at 15:00"', "grus uncordon node-0")),
        (uncordon, examples("grus uncordon node-0")),
        (top, examples("grus top", "grus top --once", "grus top -o json")),
    ):
        app.command(rich_help_panel=PANEL, epilog=shown)(verb)


# -------------------------------------------------------------------------------------------------- nodes


def nodes(output: Output = Format.TABLE) -> None:
    """List nodes and their GPUs: users and health."""
    with connected() as client:
        found = client.nodes()
        names = {job.id: job.name for job in client.jobs(phases=HOLDING, limit=1000)}
    emit(found, output, lambda: _list_nodes(found, names))


def _list_nodes(found: "list[NodeOut]", names: dict[str, str]) -> None:
    rows = []
    for node in found:
        for gpu in node.gpus:
            held = ", ".join(f"{names.get(one.job, one.job)} {number(one.gpus)}" for one in gpu.holders)
            closed = "draining" if node.drain is not None else "cordoned"
            state = closed if node.cordoned and gpu.health == "healthy" else gpu.health
            does, free = profile_stats.tag_words(gpu.tag), number(gpu.free)
            rows.append((node.id, gpu.id, gpu.type, size(gpu.memory), state, free, held or gpu.outside, does))
    headings = ("NODE", "GPU", "TYPE", "MEMORY", "STATE", "FREE", "HELD BY", "DOES")
    told = len(headings) if any(row[-1] for row in rows) else len(headings) - 1
    table(headings[:told], [row[:told] for row in rows], empty="No nodes.")
    for node in found:
        if node.drain is not None:
            said = f": {tamed(node.drain.message)}" if node.drain.message else ""
            say(f"{node.id} is drained by {node.drain.by} since {local(node.drain.at)}{said}")


def cordon(node: NodeName, output: Output = Format.TABLE) -> None:
    """Stop placing work on a node; running work continues."""
    with connected() as client:
        client.cordon(_known(client, node))
    emit({"node": node, "cordoned": True}, output, lambda: say(f"{node} takes no new work."))


def drain(
    node: NodeName,
    message: Annotated[str, typer.Option(help="Reason and expected end, shown to users.")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Empty a node: its jobs leave or end there.

    Jobs that save their work leave and restart on other nodes when there is room. Others run to their end.
    `grus nodes` shows when it is empty, `grus uncordon` lets the node take work again.
    """
    with connected() as client:
        before = _holders(client, _known(client, node))
        client.drain(node, message)
        after = [one for one in client.nodes() if one.id == node]
    stay = {job for one in after if one.drain is not None for job in one.drain.stay}
    leave = before.union(*(one.drain.leave for one in after if one.drain is not None)) - stay
    told = {"node": node, "cordoned": True, "draining": True, "message": message}
    told |= {"jobs": sorted(leave | stay), "leave": sorted(leave), "stay": sorted(stay)}
    emit(told, output, lambda: _tell_drain(node, sorted(leave), sorted(stay)))


def _holders(client: "Client", node: str) -> set[str]:
    """Ids of the jobs that hold GPUs of the node."""
    gpus = [gpu for one in client.nodes() if one.id == node for gpu in one.gpus]
    return {held.job for gpu in gpus for held in gpu.holders if held.job}


def _tell_drain(node: str, leave: list[str], stay: list[str]) -> None:
    say(f"{node} takes no new work{'' if leave or stay else '; it is empty'}.")
    if leave:
        say(f"leave: {', '.join(leave)}")
    if stay:
        say(f"run to their end: {', '.join(stay)}")
    hint(f"`grus nodes` shows when it is empty; `grus uncordon {node}` lets it take work again.")


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
    from grus.cli.render.pool_view import look, picture

    with connected() as client:
        if for_people() and output is Format.TABLE and not once:
            _live(lambda: picture(look(client)), every)
            return
        seen = look(client)
    emit(seen.as_json(), output, lambda: _once(seen))


def _once(seen: "PoolSnapshot") -> None:
    from grus.cli.render.pool_view import picture, plain_view

    if for_people():
        console().print(picture(seen))
    else:
        say(plain_view(seen))


def _live(draw: "Callable[[], RenderableType]", every: float) -> None:
    """Redraw at every period until Ctrl-C."""
    from rich.live import Live

    over = SignalFlag()

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
