"""Stages on the command line: the tree of `grus ps --tree`, and `grus retry`."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import typer

from grus.cli.connection import JobArgument, connected, find_job
from grus.cli.render.output import Format, Output, emit, examples, for_people, hint, say

if TYPE_CHECKING:
    from grus.api.wire_types.job import JobOut
    from grus.api.wire_types.workflow import GraphOut, GraphStageOut
    from grus.sdk.client import Client

PANEL = "Jobs"


def add_to(app: typer.Typer) -> None:
    epilog = examples("grus retry train", "grus retry j4k -o json")
    app.command(rich_help_panel=PANEL, epilog=epilog, no_args_is_help=False)(retry)


def retry(job: JobArgument, output: Output = Format.TABLE) -> None:
    """Submit an unsuccessful job and its later stages again.

    Succeeded stages before it are not repeated: their outputs are used as they are.
    """
    with connected() as client:
        jobs = [handle.job for handle in client.retry(find_job(client, job).id)]
        emit(jobs, output, lambda: _tell(jobs))


def _tell(jobs: "list[JobOut]") -> None:
    for job in jobs:
        say(f"{job.id}  {job.name}  in {job.queue}: {job.phase}" + (f" – {job.reason}" if job.reason else ""))
    if for_people():
        hint(f"next: grus logs -f {jobs[0].id} · grus ps --tree")


def graphs_of(client: "Client", jobs: "Sequence[JobOut]") -> "list[GraphOut]":
    """The whole graph of each of these jobs, in their order, each once; of a job alone just that."""
    from grus.api.wire_types.workflow import GraphOut, GraphStageOut

    found: dict[str, GraphOut] = {}
    for job in jobs:
        if not job.graph:
            found[job.id] = GraphOut(id=job.id, stages=(GraphStageOut(job=job),))
        elif job.graph not in found:
            found[job.graph] = client.graph(job.id)
    return list(found.values())


def branches(graph: "GraphOut") -> "Iterator[tuple[str, GraphStageOut]]":
    """Its stages as a tree, each with the lines before its name.

    A stage stands below the one that it comes after; below the deepest, where there are several.
    """
    depth = {stage.job.id: stage.depth for stage in graph.stages}
    below: dict[str, list[GraphStageOut]] = {}
    for stage in graph.stages:
        parent = max(stage.after, key=lambda id_: (depth[id_], id_), default="")
        below.setdefault(parent, []).append(stage)
    left = [("", "", stage) for stage in reversed(below.get("", []))]
    while left:
        own, under, stage = left.pop()
        yield own, stage
        children = below.get(stage.job.id, [])
        for child in reversed(children):
            last = child is children[-1]
            left.append((under + ("└─ " if last else "├─ "), under + ("   " if last else "│  "), child))


def also(graph: "GraphOut", stage: "GraphStageOut") -> str:
    """Return the stage's other predecessors, besides the one that it is printed below."""
    if len(stage.after) < 2:
        return ""
    depth = {one.job.id: one.depth for one in graph.stages}
    names = {one.job.id: one.job.name for one in graph.stages}
    parent = max(stage.after, key=lambda id_: (depth[id_], id_))
    return f" (also after {', '.join(names[one] for one in stage.after if one != parent)})"
