"""The folder of a comparison: all measurements, unprocessed. Written during the runs, readable any time.

    comparison.json            the requested comparison: workload, environments, repeats
    bundle/                    the files that travel: the code when the comparison began, and the sampler
    environments/LABEL.json    manual steps, preflight, and the step at which it was blocked, if it was
    runs/NAME/run.json         the end of a run; its record and its output lie beside it

A run counts when its `run.json` is there: it is written last. An interrupted comparison continues with the
missing runs. Values that can be computed from the records are not stored.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grus.compare import records
from grus.compare.environments import (
    OUTPUT,
    RECORD,
    Check,
    CollectedFiles,
    DriverStep,
    Ending,
    EndingKind,
    Environment,
    EnvironmentKind,
    ManualStep,
    PreflightStatus,
)
from grus.compare.records import RunRecord
from grus.model.errors import BadInput, Mistake

VERSION = 1
DESCRIPTION = "comparison.json"
BUNDLE = "bundle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The requested comparison. Only the same request resumes it."""

    workload: str
    """Its name."""
    argv: tuple[str, ...]
    gpus: int
    job: str
    """The job as written, in JSON: a change of it is another comparison."""
    code: str
    """Digest of the code that travels."""
    environments: tuple[Environment, ...]
    repeats: int
    with_load: bool
    period: float
    began_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """The step and the reason at which an environment was blocked."""

    step: DriverStep
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """The state of an environment before its first run."""

    manual: tuple[ManualStep, ...] = ()
    checks: tuple[Check, ...] = ()
    blocked: Blocked | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRun:
    """One run, however it ended."""

    name: str
    repeat: int
    """Number of the repeat, from 1 on."""
    loaded: bool
    """True if there was a load beside it."""
    submitted_at: float
    ending: Ending
    record: RunRecord | None
    """None where the sampler wrote none."""
    output: str = ""

    @property
    def sound(self) -> bool:
        """Return whether it ran to its end and may be counted."""
        return self.problem == ""

    @property
    def problem(self) -> str:
        """Return why it may not be counted; empty if it may."""
        if self.ending.end is not EndingKind.ENDED:
            return f"{self.ending.end}: {self.ending.why}" if self.ending.why else str(self.ending.end)
        if self.record is None or self.record.finish is None:
            return "its record was cut off: the sampler did not see the end"
        finish = self.record.finish
        if finish.timed_out:
            return "it was ended for lasting longer than max_runtime"
        if finish.stopped:
            return "the environment asked for its end"
        return f"the workload ended with {finish.code}" if finish.code else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One environment with all its runs."""

    environment: Environment
    visit: Visit
    runs: tuple[ComparisonRun, ...]

    @property
    def label(self) -> str:
        return self.environment.label

    def sound(self, *, loaded: bool) -> list[ComparisonRun]:
        return [run for run in self.runs if run.sound and run.loaded == loaded]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    description: Description
    sides: tuple[Side, ...]


def run_name(label: str, repeat: int, *, loaded: bool) -> str:
    return f"{label}-{repeat}-load" if loaded else f"{label}-{repeat}"


# -------------------------------------------------------------------------------------------------- writing


def is_one(folder: Path) -> bool:
    return (folder / DESCRIPTION).is_file()


def write_description(folder: Path, description: Description) -> None:
    _write(folder / DESCRIPTION, {"version": VERSION, **asdict(description)})


def write_visit(folder: Path, label: str, visit: Visit) -> None:
    _write(folder / "environments" / f"{label}.json", asdict(visit))


def write_run(folder: Path, run: ComparisonRun, collected: CollectedFiles) -> None:
    """The record first, and what makes the run count last."""
    place = folder / "runs" / run.name
    place.mkdir(parents=True, exist_ok=True)
    texts = {RECORD: collected.record, OUTPUT: collected.output, **dict(collected.files)}
    for name, text in texts.items():
        (place / Path(name).name).write_text(text, encoding="utf-8")
    about = {"name": run.name, "repeat": run.repeat, "loaded": run.loaded, "submitted_at": run.submitted_at}
    _write(place / "run.json", {**about, "ending": asdict(run.ending)})


def _write(path: Path, value: Mapping[str, object]) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(json.dumps(value, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


# -------------------------------------------------------------------------------------------------- reading


def read(folder: Path) -> Comparison:
    """A comparison as far as it has come; raises BadInput if the folder holds none."""
    if not is_one(folder):
        rule = "must be a folder that `grus compare run` wrote"
        raise BadInput([Mistake("folder", rule, str(folder))])
    description = read_description(folder)
    sides = [
        Side(environment=one, visit=read_visit(folder, one.label), runs=_runs(folder, one, description))
        for one in description.environments
    ]
    return Comparison(description=description, sides=tuple(sides))


def read_description(folder: Path) -> Description:
    value = _load(folder / DESCRIPTION)
    if value.get("version") != VERSION:
        rule = (
            f"was written by another version of Grus ({value.get('version')}), and this one reads {VERSION}"
        )
        raise BadInput([Mistake(DESCRIPTION, rule, str(folder))])
    rest = {name: entry for name, entry in value.items() if name not in ("version", "environments", "argv")}
    environments = tuple(
        Environment(EnvironmentKind(one["kind"]), one["target"], one["label"])
        for one in value["environments"]
    )
    return Description(**rest, argv=tuple(value["argv"]), environments=environments)


def read_visit(folder: Path, label: str) -> Visit:
    path = folder / "environments" / f"{label}.json"
    if not path.is_file():
        return Visit()
    value = _load(path)
    blocked = value["blocked"]
    return Visit(
        manual=tuple(ManualStep(**one) for one in value["manual"]),
        checks=tuple(Check(**{**one, "verdict": PreflightStatus(one["verdict"])}) for one in value["checks"]),
        blocked=None if blocked is None else Blocked(step=DriverStep(blocked["step"]), why=blocked["why"]),
    )


def read_run(folder: Path, name: str) -> ComparisonRun | None:
    """None while it has not been made."""
    place = folder / "runs" / name
    if not (place / "run.json").is_file():
        return None
    value = _load(place / "run.json")
    ending = value["ending"]
    return ComparisonRun(
        **{**value, "ending": Ending(**{**ending, "end": EndingKind(ending["end"])})},
        record=_record(place),
        output=_text(place / OUTPUT),
    )


def _runs(folder: Path, environment: Environment, description: Description) -> tuple[ComparisonRun, ...]:
    found = (
        read_run(folder, run_name(environment.label, repeat, loaded=loaded))
        for repeat in range(1, description.repeats + 1)
        for loaded in ((False, True) if description.with_load else (False,))
    )
    return tuple(run for run in found if run is not None)


def _record(place: Path) -> RunRecord | None:
    text = _text(place / RECORD)
    return records.read(text, str(place / RECORD)) if text.strip() else None


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _load(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        rule = f"cannot be read: {error}; was it changed by hand?"
        raise BadInput([Mistake(path.name, rule, str(path))]) from None
    if not isinstance(value, dict):
        raise BadInput([Mistake(path.name, "must be a JSON object", str(path))])
    return value


def missing(found: Comparison) -> Sequence[str]:
    """Return the names of the runs that were requested and are missing."""
    return [name for side in found.sides for name in lacking(found.description, side)]


def lacking(asked: Description, side: Side) -> list[str]:
    """Those of one environment."""
    made = {run.name for run in side.runs if run.sound}
    loads = (False, True) if asked.with_load else (False,)
    wanted = [
        run_name(side.label, repeat, loaded=loaded)
        for repeat in range(1, asked.repeats + 1)
        for loaded in loads
    ]
    return [name for name in wanted if name not in made]
