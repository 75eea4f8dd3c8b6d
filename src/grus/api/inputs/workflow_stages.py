"""Stages in job files: inputs and outputs of a job, and `stages:` in a file.

A document with `stages:` is several jobs. Fields beside it are shared by all of them; a stage's own fields
come first, and mappings (`env`, `resources` …) are merged key by key. Pure; knows no files.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from grus.api.parsing import fields as f
from grus.api.parsing.validation_errors import BrokenRule, Place, failure, field_name, shown
from grus.api.parsing.yaml_document import FILE, Document
from grus.model.artifacts import MOST_RESULTS
from grus.model.errors import Mistake
from grus.model.identifiers import NAME, NAME_RULE
from grus.model.job_spec import MOST_STAGES

STAGES = "stages"
SUCCESS, ALWAYS = "success", "always"

_OF_ONE_STAGE = ("name", "run", "train", "serve", "roles", "launch", "after", "inputs", "outputs", "when")
"""Fields that belong to a single stage."""
_REFERENCE = "must say whose output it is: STAGE.OUTPUT, such as prepare.data"
_PATH = "must be a file or folder below the workdir, such as out/model.pt"


def split_reference(reference: str) -> tuple[str, str]:
    """Split `prepare.data` into the name (or id) of the job and the name of its output."""
    job, _, output = reference.rpartition(".")
    return job, output


def _inputs(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError("must be a mapping from a name to STAGE.OUTPUT, such as {data: prepare.data}")
    return _named(value, _reference_problem)


def outputs(value: Any) -> dict[str, str]:
    """Return a mapping from each output name to its path; names alone are folders that Grus creates."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list | tuple):
        f.items(f.name, most=MOST_RESULTS, least=1)(value)
        if len(set(value)) != len(value):
            raise ValueError("names an output twice")
        return dict.fromkeys(value, "")
    if not isinstance(value, Mapping):
        raise ValueError("must be a list of names, or a mapping from a name to its path in the workdir")
    return _named(value, _path_problem)


def _named(value: Mapping[Any, Any], problem_of: Any) -> dict[str, str]:
    if len(value) > MOST_RESULTS:
        raise ValueError(f"must have at most {MOST_RESULTS} entries")
    broken = []
    for key, item in value.items():
        named = isinstance(key, str) and NAME.fullmatch(key)
        problem = problem_of(item) if named else f"its name {NAME_RULE}"
        if problem:
            broken.append(BrokenRule((str(key),), problem, item))
    if broken:
        raise failure(broken)
    return dict(value)


def _reference_problem(item: Any) -> str:
    job, output = split_reference(item) if isinstance(item, str) else ("", "")
    return "" if NAME.fullmatch(job) and NAME.fullmatch(output) else _REFERENCE


def _path_problem(item: Any) -> str:
    if not isinstance(item, str):
        return _PATH
    parts = item.split("/")
    outside = item.startswith("/") or ".." in parts or item.strip() in (".", "./")
    return _PATH if outside else f.text_problem(item, f.LONGEST_PATH)


Inputs = Annotated[dict[str, str], f.judged(_inputs)]
Outputs = Annotated[dict[str, str], f.judged(outputs)]
When = Annotated[str, f.judged(f.choice((SUCCESS, ALWAYS)))]


@dataclass(frozen=True, slots=True)
class JobDocument:
    """Job as it is written in a file: a document, or one of the `stages` of a document."""

    document: Document
    value: Mapping[str, Any]
    """All its fields, the shared ones included."""
    own: Mapping[str, Any]
    at: Place = ()
    stage: str = ""
    """Its name under `stages`; empty for a document that is a job."""
    empty: bool = False
    """True if it is no mapping; that error is already reported, and there is nothing in it to check."""

    def place_of(self, place: Place) -> Place:
        """Return the place in the document where this place of the job was written."""
        if not self.at or self._owns(place) or place[:1] == ("name",):
            return (*self.at, *place)
        return place if place and place[0] in self.value else (*self.at, *place)

    def field(self, place: Place) -> str:
        """Return the name of this place of the job in the whole file."""
        return field_name(self.place_of(place))

    def line_of(self, place: Place) -> int | None:
        return self.document.line_of(self.place_of(place))

    def _owns(self, place: Place) -> bool:
        if not place or place[0] not in self.own:
            return False
        inner, shared = self.own[str(place[0])], self.document.value.get(place[0])
        merged = isinstance(inner, Mapping) and isinstance(shared, Mapping)
        return not merged or len(place) == 1 or place[1] in inner


def parts_of(document: Document, mistakes: list[Mistake]) -> list[JobDocument]:
    """Return the jobs of a document that is a mapping; errors in the surrounding fields are added."""
    whole = document.value
    if STAGES not in whole:
        return [JobDocument(document, whole, whole)]
    stages = whole[STAGES]
    line = document.line_of((STAGES,))
    if not isinstance(stages, Mapping) or not stages:
        rule = "must be a mapping from a stage's name to its fields, such as prepare: {run: ./prepare}"
        mistakes.append(Mistake(STAGES, rule, shown(stages), line))
        return []
    if len(stages) > MOST_STAGES:
        mistakes.append(Mistake(STAGES, f"must have at most {MOST_STAGES} stages", f"{len(stages)}", line))
        return []
    rule = "belongs to a stage: what stands beside stages is shared by all of them"
    mistakes += [
        Mistake(key, rule, shown(whole[key]), document.line_of((key,)))
        for key in _OF_ONE_STAGE
        if key in whole
    ]
    shared = {key: value for key, value in whole.items() if key not in (STAGES, *_OF_ONE_STAGE)}
    found = [_part(document, name, own, shared, mistakes) for name, own in stages.items()]
    return [part for part in found if part is not None]


def _part(
    document: Document, name: str, own: Any, shared: Mapping[str, Any], mistakes: list[Mistake]
) -> JobDocument | None:
    at: Place = (STAGES, name)
    field = f"{STAGES}.{name}"
    line = document.line_of(at)
    if not NAME.fullmatch(name):
        mistakes.append(Mistake(field[:80], f"a stage's name {NAME_RULE}", "", line))
        return None
    if not isinstance(own, Mapping):
        rule = "must be a mapping (key: value), such as run: python train.py"
        mistakes.append(Mistake(field, rule, shown(own), line))
        return JobDocument(document, {}, {}, at, name, empty=True)
    if "name" in own:
        rule = "is said already: a stage's name is its key under stages"
        mistakes.append(Mistake(f"{field}.name", rule, shown(own["name"]), document.line_of((*at, "name"))))
    return JobDocument(document, {**_merged(shared, own), "name": name}, own, at, name)


def _merged(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**shared, **own}
    for key, value in own.items():
        beside = shared.get(key)
        if isinstance(value, Mapping) and isinstance(beside, Mapping):
            merged[key] = {**beside, **value}
    return merged


def too_many(parts: int) -> list[Mistake]:
    if parts <= MOST_STAGES:
        return []
    return [Mistake(FILE, f"must have at most {MOST_STAGES} jobs in all", str(parts))]
