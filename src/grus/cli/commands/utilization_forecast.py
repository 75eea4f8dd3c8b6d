"""The verb for what comes: the next hour or day of the pool, a queue, a GPU or a job."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli.connection import connected, find_job
from grus.cli.render.output import Format, Output, emit, examples, local, moment, number, say, size, table
from grus.model.errors import BadInput, Mistake, NotFound

if TYPE_CHECKING:
    from grus.api.wire_types.forecast import ForecastOut
    from grus.sdk.client import Client

BAR = 20
"""Characters of the longest bar."""


class ForecastTopic(StrEnum):
    """Kinds of subjects of a forecast."""

    POOL = "pool"
    QUEUE = "queue"
    GPU = "gpu"
    JOB = "job"


def add_to(app: typer.Typer) -> None:
    shown = examples(
        "grus forecast",
        "grus forecast --day",
        "grus forecast queue vision --day",
        "grus forecast gpu node-0/gpu-1",
        "grus forecast job resnet -o json",
    )
    app.command(rich_help_panel="Pool", epilog=shown)(forecast)


def forecast(
    of: Annotated[ForecastTopic, typer.Argument(help="What to foretell.")] = ForecastTopic.POOL,
    name: Annotated[str, typer.Argument(help="Which queue, GPU or job.")] = "",
    day: Annotated[bool, typer.Option("--day", help="The next day instead of the next hour.")] = False,
    measure: Annotated[
        str | None,
        typer.Option(help="Such as demand, held (GPUs), utilisation, memory, power; the usual one if none."),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Forecast the next hour or day.

    For the pool or a queue: the demand for GPUs. For a GPU or a job: its use.
    """
    if of is not ForecastTopic.POOL and not name:
        raise BadInput(
            [Mistake("name", f"must say which {of.value}, such as `grus forecast {of.value} NAME`")]
        )
    with connected() as client:
        found = client.forecast(of.value, _meant(client, of, name), day=day, measure=measure)
    emit(found, output, lambda: _show(found))


def _meant(client: "Client", of: ForecastTopic, name: str) -> str:
    """Ids for the words that people use."""
    if of is ForecastTopic.POOL:
        return ""
    if of is ForecastTopic.JOB:
        return find_job(client, name).id
    if of is ForecastTopic.QUEUE:
        return name
    known = [gpu.id for node in client.nodes() for gpu in node.gpus]
    device, mark, instance = name.partition("#")
    fits = [one for one in known if one == device] or [one for one in known if one.startswith(device)]
    if len(fits) > 1:
        raise BadInput([Mistake("gpu", f"could mean any of {', '.join(fits)}; give more of the id", name)])
    if not fits:
        raise NotFound(f"There is no GPU {name!r}. `grus nodes` lists the ones that there are.")
    return fits[0] + mark + instance


def _show(found: "ForecastOut") -> None:
    title = f"{_whose(found)}, {found.measure}, next {found.reach}"
    if found.missing:
        say(f"{title}: no forecast yet: {found.missing}.")
        return
    say(f"{title}, {found.basis}.")
    most = max([one.high for one in found.ahead], default=0.0)
    rows = [
        (
            _clock(one.at),
            _figure(one.median, found.measure),
            f"{_figure(one.low, found.measure)} – {_figure(one.high, found.measure)}",
            _bar(one.median, one.high, most),
        )
        for one in found.ahead
    ]
    table(("FROM", "EXPECTED", "NINE OF TEN", ""), rows)
    end, last = moment(found.ends), moment(found.ahead[-1].at)
    if end is not None and last is not None and end <= last:
        say(f"The job is expected to end about {local(found.ends)}; what is said of later holds if not.")


def _whose(found: "ForecastOut") -> str:
    return "the pool" if found.of == ForecastTopic.POOL else f"{found.of} {found.name}"


def _clock(text: str) -> str:
    at = moment(text)
    return "" if at is None else at.astimezone().strftime("%a %H:%M")


def _figure(value: float, measure: str) -> str:
    if measure in ("utilisation", "active", "memory_time"):
        return f"{value:.0%}"
    if measure in ("memory", "host_memory"):
        return size(value)
    return number(round(value, 1 if value < 100 else 0))


def _bar(median: float, high: float, most: float) -> str:
    """Draw a bar: solid up to the expected value, light up to the high estimate."""
    if most <= 0:
        return ""
    solid, whole = round(BAR * median / most), round(BAR * high / most)
    return "█" * solid + "░" * (whole - solid)
