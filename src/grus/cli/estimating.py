"""The verb `estimate`: how much GPU memory a training will take, before it runs and without a GPU.

The user's code runs in a child process with limits; nothing here imports it, or torch.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grus.cli.output import Format, Output, emit, examples, hint, say, size, table
from grus.cli.working import told

if TYPE_CHECKING:
    from grus.cli.worlds import Gathering
    from grus.estimation.estimate import Biggest, Estimate
    from grus.estimation.gpus import GpuKind

PANEL = "Looking ahead"
CHILD = "grus.estimation.asking:estimate"
COMMON = ("RTX3060", "T4", "RTX4090", "A100-40GB", "A100", "H100")
"""Types that are shown when none is named."""
PARTS = ("weights", "gradients", "optimizer", "activations", "workspace", "context")


def add_to(app: typer.Typer) -> None:
    app.command(
        rich_help_panel=PANEL,
        epilog=examples(
            "grus estimate train.py:make --batch 64 --gpu RTX3060",
            "grus estimate package.training:make --gpu A100 --gpu 24GB",
            "grus estimate train.py:make --gpu RTX3060 --no-biggest -o json",
        ),
    )(estimate)


def estimate(
    target: Annotated[
        str,
        typer.Argument(
            help="A function that returns (model, optimizer, batch, loss), or a dict with these keys: "
            "file:function or package.module:function.",
            metavar="train.py:make",
        ),
    ],
    batch: Annotated[
        int | None, typer.Option(help="Samples of a batch, if not the function's own.", min=1)
    ] = None,
    gpu: Annotated[
        list[str] | None,
        typer.Option(
            help="A type (RTX3060), a memory (24GB) or virtual-4GB; may be repeated. If none: common ones.",
            metavar="TYPE",
        ),
    ] = None,
    biggest: Annotated[
        bool | None,
        typer.Option(
            "--biggest/--no-biggest", help="Look for the biggest batch that fits; done if --gpu is given."
        ),
    ] = None,
    limit: Annotated[
        str, typer.Option(help="How long the function and the search may take.", metavar="TIME")
    ] = "5m",
    output: Output = Format.TABLE,
) -> None:
    """How much GPU memory will this training take? Needs no GPU."""
    from dataclasses import asdict

    from grus.cli.worlds import Gathering
    from grus.estimation.child import Limits, run

    gathering = Gathering()
    kinds = _kinds(gathering, gpu or COMMON)
    seconds = _seconds(gathering, limit)
    gathering.refuse()
    arguments = {
        "target": target,
        "gpus": [asdict(kind) for kind in kinds],
        "size": batch,
        "search": gpu is not None if biggest is None else biggest,
    }
    with told() as tell:
        answer = run(
            CHILD, arguments, what=target, folder=Path.cwd(), limits=Limits(seconds=seconds), tell=tell
        )
    shown = _Answer(target, answer)
    emit(shown.as_json(), output, shown.show)


def _kinds(gathering: "Gathering", names: "list[str] | tuple[str, ...]") -> "list[GpuKind]":
    from grus.estimation.gpus import find

    found = []
    for name in names:
        with gathering.part():
            found.append(find(name))
    return found


def _seconds(gathering: "Gathering", text: str) -> float:
    from grus.api.units import parse_seconds

    try:
        seconds = parse_seconds(text)
    except ValueError as error:
        gathering.note("limit", str(error), text)
        return 0.0
    if seconds <= 0:
        gathering.note("limit", "must be above 0", text)
    return seconds


# ------------------------------------------------------------------------------------------------- output


class _Answer:
    """What the child said, for people and for programs."""

    def __init__(self, target: str, told: dict[str, Any]) -> None:
        from grus.estimation.estimate import Biggest, of_mapping

        self._target = target
        self._parameters: int = told["parameters"]
        self._estimates = [of_mapping(one) for one in told["estimates"]]
        self._biggest = [Biggest(**one) for one in told["biggest"]]

    def as_json(self) -> dict[str, object]:
        return {
            "target": self._target,
            "parameters": self._parameters,
            "batch": self._estimates[0].size,
            "estimates": [
                _as_json(one, searched)
                for one, searched in zip(self._estimates, self._searched(), strict=True)
            ],
        }

    def show(self) -> None:
        first = self._estimates[0]
        say(f"{self._target}: {_count(self._parameters)} parameters, batch of {first.size}\n")
        rows = [_row(*both) for both in zip(self._estimates, self._searched(), strict=True)]
        headings = ["gpu", "memory", "estimate", "at most", "fits", "step", "biggest batch"]
        if not self._biggest:
            headings, rows = headings[:-1], [row[:-1] for row in rows]
        table(headings, rows)
        say()
        table(
            ["of it", *(one.gpu.name for one in self._estimates)],
            [[part, *(size(getattr(one.parts, part)) for one in self._estimates)] for part in PARTS],
        )
        if not any(one.perhaps for one in self._estimates):
            hint("\nIt fits none of them: take a smaller --batch, or a larger --gpu.")

    def _searched(self) -> "list[Biggest | None]":
        return [*self._biggest] or [None] * len(self._estimates)


def _as_json(one: "Estimate", searched: "Biggest | None") -> dict[str, object]:
    from dataclasses import asdict

    found: dict[str, object] = asdict(one) | {
        "gpu": one.gpu.name,
        "memory": one.gpu.memory,
        "batch": one.size,
        "strategy": " ".join(one.how) or "plain",
        "perhaps": one.perhaps,
    }
    del found["size"], found["how"]
    if searched is not None:
        found |= {"biggest_batch": searched.size, "too_big": searched.too_big}
    return found


def _row(one: "Estimate", searched: "Biggest | None") -> list[str]:
    fits = "yes" if one.fits else "perhaps" if one.perhaps else "no"
    words = [
        one.gpu.name,
        size(one.gpu.memory),
        size(one.estimate),
        size(one.upper),
        fits,
        _span(one.seconds),
    ]
    return [*words, _batches(searched)]


def _batches(searched: "Biggest | None") -> str:
    if searched is None:
        return ""
    if not searched.size:
        return "none"
    return str(searched.size) if searched.too_big is not None else f"{searched.size} or more"


def _span(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f}s"
    return f"{seconds * 1000:.3g}ms"


def _count(number: int) -> str:
    for unit, name in ((10**9, " billion"), (10**6, " million"), (10**3, " thousand")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"
    return str(number)
