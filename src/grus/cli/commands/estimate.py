"""The verb `estimate`: how much GPU memory a training will take, before it runs and without a GPU.

The user's code runs in a child process with limits; nothing here imports it, or torch.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grus.cli.render.output import Format, Output, emit, examples
from grus.cli.render.progress import limit_of, told

if TYPE_CHECKING:
    from grus.cli.whatif.scenario_inputs import Gathering
    from grus.estimation.gpus import GpuKind

PANEL = "Looking ahead"
CHILD = "grus.estimation.estimate_request:estimate"
MOST_WORKERS = 16_384
MOST_SAMPLES = 1_000_000_000
JOB_FILES = (".yaml", ".yml")
COMMON = ("RTX3060", "T4", "RTX4090", "A100-40GB", "A100", "H100")
"""Types that are shown when none is named."""


def add_to(app: typer.Typer) -> None:
    app.command(
        rich_help_panel=PANEL,
        epilog=examples(
            "grus estimate train.py:make --batch 64 --gpu RTX3060",
            "grus estimate train.py:make --gpu RTX3060 --compare",
            "grus estimate job.yaml --gpu 24GB",
            "grus estimate package.training:make --gpu A100 --gpu 24GB --strategy 'fsdp bf16' --workers 4",
            "grus estimate train.py:make --gpu RTX3060 --no-biggest -o json",
        ),
    )(estimate)


def estimate(
    target: Annotated[
        str,
        typer.Argument(
            help="A function that returns (model, optimizer, batch, loss), or a dict with these keys: "
            "file:function or package.module:function. Or a job file with a `train` section.",
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
    strategy: Annotated[
        str,
        typer.Option(help="How it is held and computed: words such as bf16 checkpoint.", metavar="WORDS"),
    ] = "",
    workers: Annotated[
        int, typer.Option(help="GPUs that train together, with a batch each.", min=1, max=MOST_WORKERS)
    ] = 1,
    compare: Annotated[
        bool, typer.Option("--compare", help="Memory, speed and traffic of every strategy.")
    ] = False,
    biggest: Annotated[
        bool | None,
        typer.Option(
            "--biggest/--no-biggest",
            help="Look for the biggest batch that fits; done for --gpu without --compare.",
        ),
    ] = None,
    limit: Annotated[
        str, typer.Option(help="How long the function and the search may take.", metavar="TIME")
    ] = "5m",
    output: Output = Format.TABLE,
) -> None:
    """Estimate a training's GPU memory, without a GPU."""
    from dataclasses import asdict

    from grus.cli.render.memory_estimate import Estimates
    from grus.cli.whatif.scenario_inputs import Gathering
    from grus.estimation.estimate_subprocess import Limits, run

    gathering = Gathering()
    asked = _asked(gathering, target)
    kinds = _kinds(gathering, gpu or (COMMON[:1] if compare else COMMON))
    seconds = limit_of(gathering, limit)
    _strategies(gathering, strategy, workers, compare)
    if batch is not None and batch > MOST_SAMPLES:
        gathering.note("batch", f"is more than {MOST_SAMPLES:,} samples; is it a typing error?", str(batch))
    gathering.refuse()
    arguments = {
        "target": asked.target,
        "section": asked.section,
        "gpus": [asdict(kind) for kind in kinds],
        "size": batch,
        "strategy": strategy,
        "workers": workers,
        "compare": compare,
        "search": gpu is not None and not compare if biggest is None else biggest,
    }
    with told() as tell:
        limits = Limits(seconds=seconds)
        answer = run(CHILD, arguments, what=asked.target, folder=asked.folder, limits=limits, tell=tell)
    shown = Estimates(target, answer)
    emit(shown.as_json(), output, shown.show)


@dataclass(frozen=True, slots=True)
class _EstimateTarget:
    """The training to estimate: a function's, or that of a section of a job file."""

    target: str
    folder: Path
    section: dict[str, Any] | None = None


def _asked(gathering: "Gathering", target: str) -> _EstimateTarget:
    if Path(target).suffix not in JOB_FILES:
        return _EstimateTarget(target, Path.cwd())
    from grus.cli.commands.jobs import read_file

    found: list[_EstimateTarget] = []
    with gathering.part():
        for job in read_file(Path(target)):
            folder = Path(job.workdir or ".")
            if job.train is not None:
                section = job.train.model_dump(mode="json", exclude_defaults=True)
                found.append(_EstimateTarget(job.train.make or job.train.model or target, folder, section))
            elif job.resources.estimate:
                found.append(_EstimateTarget(job.resources.estimate, folder))
        if len(found) != 1:
            rule = "must have one job with a `train` section, or with `resources: {estimate: train.py:make}`"
            gathering.note(target, rule, f"{len(found)} of them")
    return found[0] if found else _EstimateTarget(target, Path.cwd())


def _kinds(gathering: "Gathering", names: "list[str] | tuple[str, ...]") -> "list[GpuKind]":
    from grus.estimation.gpus import find

    found = []
    for name in names:
        with gathering.part():
            found.append(find(name))
    return found


def _strategies(gathering: "Gathering", words: str, workers: int, compare: bool) -> None:
    from grus.model.distributed_options import Strategy, holding, parse

    if compare and words:
        gathering.note("strategy", "goes without --compare, which shows all of them", words)
    with gathering.part():
        chosen = parse(words)
        if Strategy.SPLIT in chosen:
            gathering.note("strategy", "is planned by `grus split`", "split")
        elif workers == 1 and holding(chosen) is not Strategy.PLAIN:
            gathering.note("workers", f"must be two or more for {holding(chosen)}", "1")
