"""The verb `split`: where the operators of a training go when one GPU is too small, and what that gives.

The user's code runs in a child process with limits; nothing here imports it, or torch.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grus.cli.render.output import Format, Output, emit, examples, number, say, size, table
from grus.cli.render.progress import above_zero, limit_of, told
from grus.cli.whatif.partition_export import Files, cannot_run
from grus.model.errors import BadInput, DoesNotFit

if TYPE_CHECKING:
    from grus.partition.placement_plan_file import Split

PANEL = "Looking ahead"
CHILD = "grus.partition.split_child:split"


def add_to(app: typer.Typer) -> None:
    app.command(
        rich_help_panel=PANEL,
        epilog=examples(
            "grus split train.py:make --gpus RTX3060,RTX3060",
            "grus split train.py:make --gpus 2xRTX3060 --batch 128 --svg plan.svg",
            "grus split train.py:make --gpus RTX3090:10GB,RTX3060 --plan plan.json",
            "grus split train.py:make --gpus 2xRTX3060 --job split.yaml && grus submit split.yaml",
            "grus split nets.gpt:make --gpus 4xRTX3090 --link 10GB -o json",
            "grus split train.py:make --or-wait --hours 6",
            "grus split train.py:make --or-wait --hours 6 --nodes 1x2xRTX3060+1x1xRTX3090 --jobs jobs.csv",
        ),
    )(split)


def split(
    target: Annotated[
        str,
        typer.Argument(
            help="A function that returns model, optimizer, batch and loss: file:function or "
            "package.module:function.",
            metavar="train.py:make",
        ),
    ],
    gpus: Annotated[
        str,
        typer.Option(
            help="What to split over: types joined by commas, with a number before (2xRTX3060) or the "
            "memory that is free behind (RTX3060:8GB).",
            metavar="TYPES",
        ),
    ] = "",
    batch: Annotated[
        int | None, typer.Option(help="Samples of a step, if not the function's own.", min=1)
    ] = None,
    micro: Annotated[
        int | None,
        typer.Option(help="Micro-batches of a step; up to four a GPU that divide the batch, if none.", min=1),
    ] = None,
    link: Annotated[
        str,
        typer.Option(help="Bytes a second between the GPUs, if they are not in one node.", metavar="10GB"),
    ] = "",
    svg: Annotated[str, typer.Option(help="Draw the plan into this file.", metavar="FILE")] = "",
    plan: Annotated[str, typer.Option(help="Write the plan into this file.", metavar="FILE")] = "",
    job: Annotated[
        str,
        typer.Option(help="Write a job file that runs the plan, and the plan beside it.", metavar="FILE"),
    ] = "",
    or_wait: Annotated[
        bool,
        typer.Option(
            "--or-wait",
            help="Instead: split now, wait for a whole GPU, or take less memory? Of the server's pool, or of "
            "the one that --nodes and --jobs describe.",
        ),
    ] = False,
    hours: Annotated[
        float | None,
        typer.Option(help="With --or-wait: how long it trains on the fastest GPU for it."),
    ] = None,
    nodes: Annotated[
        str, typer.Option(help="With --or-wait: a pool, nodes x GPUs x type.", metavar="2x8xA100")
    ] = "",
    jobs: Annotated[
        str,
        typer.Option(
            help="With --or-wait: CSV of the jobs on it (submit,duration,gpus); now is when the last comes.",
            metavar="FILE",
        ),
    ] = "",
    limit: Annotated[
        str, typer.Option(help="How long the function and the search may take.", metavar="TIME")
    ] = "10m",
    output: Output = Format.TABLE,
) -> None:
    """Split a training over several GPUs.

    For a training that is too large for one GPU: it shows the place of each part, and the benefit.
    """
    from grus.cli.whatif.scenario_inputs import Gathering
    from grus.estimation.estimate_subprocess import Limits, run
    from grus.model.texts.units import parse_bytes
    from grus.partition import parse_devices
    from grus.partition.placement_plan_file import read

    gathering = Gathering()
    if or_wait:
        _or_wait(target, batch, hours, nodes, jobs, limit, output)
        return
    with gathering.part():
        parse_devices.gpus(gpus)
    seconds = limit_of(gathering, limit)
    bandwidth = above_zero(gathering, "link", link, parse_bytes) if link else 0.0
    files = Files.checked(gathering, svg=svg, plan=plan, job=job)
    gathering.refuse()
    arguments = {"target": target, "gpus": gpus, "batch": batch, "bandwidth": bandwidth, "micro": micro}
    limits = Limits(seconds=seconds)
    with told() as tell:
        answer = run(CHILD, arguments, what=target, folder=Path.cwd(), limits=limits, tell=tell)
    if answer["infeasible"] is not None:
        raise _infeasible(answer)
    made = read(answer["file"])
    wrong = cannot_run(made, answer["data"]) if files.job is not None else []
    if wrong:
        raise BadInput(wrong)
    command = f"grus split {target} --gpus {gpus}"
    files.write(answer["file"], made, _title(made), sentence(answer, made), command)
    emit(_shown(answer, made), output, lambda: _show(answer, made))


def _or_wait(
    target: str, batch: int | None, hours: float | None, nodes: str, jobs: str, limit: str, output: Format
) -> None:
    from grus.cli.connection import connected
    from grus.cli.whatif import split_or_wait as or_wait
    from grus.cli.whatif.scenario_inputs import Gathering
    from grus.estimation.estimate_subprocess import Limits

    gathering = Gathering()
    limits = Limits(seconds=limit_of(gathering, limit))
    seconds = 0.0
    with gathering.part():
        seconds = or_wait.asked_seconds(hours)
    if jobs and not nodes:
        gathering.note("jobs", "are those of a pool that --nodes describes; leave them out for the server's")
    gathering.refuse()
    if nodes:
        or_wait.on_described(target, batch, seconds, nodes, jobs, limits, output)
        return
    with connected() as client:
        or_wait.on_server(client, target, batch, seconds, limits, output)


# ------------------------------------------------------------------------------------------------- output


def _title(made: "Split") -> str:
    return f"{made.target}, batch {made.batch}, over {len(set(made.plan.device_of))} of {_gpus(made)}"


def _gpus(made: "Split") -> str:
    count = len(made.topology.devices)
    return f"{count} GPUs" if count > 1 else "1 GPU"


def form(made: "Split") -> str:
    """Describe the kind of split."""
    from grus.partition.execution.placement_plan import Pipeline

    if len(set(made.plan.device_of)) == 1:
        return "all on one GPU: no split is needed"
    if isinstance(made.plan, Pipeline):
        schedule = made.plan.schedule
        return f"a pipeline of {schedule.micro_batches} micro-batches ({schedule.rhythm})"
    return "operators where they fit, one batch at a time"


def sentence(answer: dict[str, Any], made: "Split") -> str:
    """Summarize the benefit of the split compared with one GPU."""
    return (
        f"A step takes {milliseconds(made.plan.seconds)}, no such split takes less than "
        f"{milliseconds(made.plan.bound)}; the first GPU alone would take {milliseconds(answer['alone'])} "
        f"and need {size(answer['memory'])}."
    )


def _infeasible(answer: dict[str, Any]) -> DoesNotFit:
    from grus.partition.execution.placement_plan import Infeasible

    found = Infeasible(**answer["infeasible"])
    return DoesNotFit(
        f"{found} On one GPU it would need {size(answer['memory'])}. What may do: more or larger GPUs in "
        "--gpus, a smaller --batch, or less memory (`grus estimate --compare`)."
    )


def _show(answer: dict[str, Any], made: "Split") -> None:
    say(f"{_title(made)}: {form(made)}\n")
    table(("GPU", "STAGE", "OPERATORS", "TENSORS", "ROOM", "COMPUTES", "SENDS", "FIRST", "LAST"), _rows(made))
    say(f"\n{sentence(answer, made)}")


def _rows(made: "Split") -> list[tuple[object, ...]]:
    from grus.partition.execution.placement_plan import Pipeline
    from grus.partition.execution.timeline import ActivityKind, strips

    order = made.plan.stages if isinstance(made.plan, Pipeline) else ()
    rows: list[tuple[object, ...]] = []
    for device, strip in enumerate(strips(made.graph, made.topology, made.plan)):
        here = zip(made.graph.ops, made.plan.device_of, strict=True)
        ahead = [op.name for op, place in here if place == device and not op.backward]
        sent = sum(one.size for one in strip.stretches if one.kind is ActivityKind.SENDS)
        share = strip.busy / made.plan.seconds if made.plan.seconds else 0.0
        stage = order.index(device) + 1 if device in order else ""
        held = (size(strip.peak), size(strip.memory), f"{share:.0%}", size(sent))
        rows.append((strip.device, stage, len(ahead), *held, *((ahead[0], ahead[-1]) if ahead else ("", ""))))
    return rows


def _shown(answer: dict[str, Any], made: "Split") -> dict[str, object]:
    from grus.partition.execution.placement_plan import Pipeline

    plan = made.plan
    schedule = plan.schedule if isinstance(plan, Pipeline) else None
    return {
        "target": made.target,
        "batch": made.batch,
        "operators": answer["operators"],
        "alone": {"seconds": answer["alone"], "memory": answer["memory"]},
        "form": form(made),
        "micro_batches": schedule.micro_batches if schedule is not None else 1,
        "schedule": schedule.rhythm.value if schedule is not None else None,
        "stages": list(plan.stages) if isinstance(plan, Pipeline) else None,
        "seconds": plan.seconds,
        "bound": plan.bound,
        "devices": [
            {**asdict(device), "peak": peak}
            for device, peak in zip(made.topology.devices, plan.peaks, strict=True)
        ],
        "places": dict(made.places),
        "sentence": sentence(answer, made),
    }


def milliseconds(seconds: float) -> str:
    """A short time as people write it: 0.8 ms, 412 ms, 3.2 s."""
    return f"{number(round(seconds, 2))} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"
