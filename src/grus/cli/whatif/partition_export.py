"""Files of `grus split`: the plan, its diagram, and a job that runs it. Each is written whole or not at
all.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from grus.cli.render.output import hint
from grus.model.errors import BadInput, Mistake

if TYPE_CHECKING:
    from grus.cli.whatif.scenario_inputs import Gathering
    from grus.partition.placement_plan_file import Split


@dataclass(frozen=True, slots=True)
class Files:
    """Output paths; checked to be writable before anything runs."""

    svg: Path | None = None
    plan: Path | None = None
    job: Path | None = None

    @classmethod
    def checked(cls, gathering: "Gathering", **names: str) -> "Files":
        for option, name in names.items():
            if name and (Path(name).is_dir() or not Path(name).absolute().parent.is_dir()):
                gathering.note(option, "must be a file in a folder that is there", name)
        paths = {option: Path(name) for option, name in names.items() if name}
        if "job" in paths:  # a job needs its plan beside it
            paths.setdefault("plan", paths["job"].with_suffix(".plan.json"))
        return cls(**paths)

    def write(self, text: str, made: "Split", title: str, note: str, command: str) -> None:
        """`text` is the plan's."""
        from grus.partition.execution.timeline import strips
        from grus.partition.execution.timeline_svg import svg

        if self.plan is not None:
            _write("plan", self.plan, text)
        if self.svg is not None:
            _write("svg", self.svg, svg(strips(made.graph, made.topology, made.plan), title, note))
        if self.job is not None and self.plan is not None:
            _write("job", self.job, job_text(made, self.plan, self.job, Path.cwd(), command))
            hint(f"next: grus submit {self.job}")


def cannot_run(made: "Split", data: bool) -> list[Mistake]:
    """Return the reasons why no job can run it."""
    found = []
    if len(set(made.plan.device_of)) < 2:
        rule = "is for a split over several GPUs, and this is none: a job with train and gpu: 1 will do"
        found.append(Mistake("job", rule))
    if not data:
        rule = f"needs data to train on: let {made.target} give it too, with the key data"
        found.append(Mistake("job", rule))
    return found


def job_text(made: "Split", plan: Path, job: Path, folder: Path, command: str) -> str:
    """A job file: as many whole GPUs as the plan uses. Stages have a worker each; else one sees all."""
    import yaml

    from grus.partition.execution.placement_plan import Pipeline

    given = {
        "name": made.target.rpartition(":")[0].rpartition("/")[2].removesuffix(".py").rpartition(".")[2],
        "train": {
            "make": made.target,
            "batch": made.batch,
            "plan": os.path.relpath(plan.absolute(), folder),
        },
        "resources": {"gpu": _gpus(made)},
        "launch": "per-gpu" if isinstance(made.plan, Pipeline) else "once",
        "checkpoint": {"path": f"out/{job.stem}"},
    }
    if job.absolute().parent != folder:
        given["workdir"] = str(folder)
    return f"# Made by `{command}`.\n" + yaml.safe_dump(given, sort_keys=False, allow_unicode=True)


def _gpus(made: "Split") -> str | int:
    """Return the request for the plan's GPUs, with a type if all are of one type that pools have."""
    from grus.estimation.gpus import CATALOGUE

    devices = [made.topology.devices[one].name for one in dict.fromkeys(made.plan.device_of)]
    types = {name.partition("(")[2].rstrip(")") for name in devices}
    known = {kind.name for kind in CATALOGUE}
    return f"{types.pop()}:{len(devices)}" if len(types) == 1 and types <= known else len(devices)


def _write(what: str, path: Path, text: str) -> None:
    fresh = path.with_name(path.name + ".new")
    try:
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise BadInput([Mistake(what, f"cannot be written: {error.strerror}", str(path))]) from None
    hint(f"{what}: {path}")
